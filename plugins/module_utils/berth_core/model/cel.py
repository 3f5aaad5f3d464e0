# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CEL selectors of devices: which expressions are understood, and how they are read.

DynamicResources evaluates the selectors of device classes and of claims with it. **Understood is a part of the
language, exactly; all else is refused by name**, never guessed at:

    device.driver, device.attributes["domain"].name, device.capacity["domain"].name, device.allowMultipleAllocations
    true false, whole numbers, texts in quotes, [lists]; ( ) ! && || ? :  == != < <= > >= in
    has(), .?name with .orValue() and .hasValue(), cel.bind()
    quantity() isQuantity() semver() isSemver(), .compareTo() .isLessThan() .isGreaterThan()
    .startsWith() .endsWith() .contains() .lowerAscii() .upperAscii(), .matches() with a plain pattern

Called by resource_slice.py's devices. Reading gives a function of the variables; cel_values.py does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Callable

from ..errors import SelectorError
from . import cel_values as values

Scope = Mapping[str, Any]
Node = Callable[[Scope], Any]
"""A part of an expression. Raises SelectorError where CEL has a run-time error."""

LONGEST = 10 * 1024
"""The API's own limit for an expression."""
DEEPEST = 40
MAX_INT = (1 << 63) - 1
_TOKEN = re.compile(
    r"\s*(?:(?P<comment>//[^\n]*)|(?P<number>[0-9][0-9A-Za-z.]*)"
    r"|(?P<text>[rRbB]{0,2}(?:\"\"\"|'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>&&|\|\||==|!=|<=|>=|\.\?|\[\?|[-+*/%!<>?:.,()\[\]{}])|(?P<end>\Z))"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?"}
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in")
_KEYWORDS = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "in", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    )
)


class Expression:
    """An expression that was read. `problem`: why it is not understood, "" where it is."""

    def __init__(self, text: str) -> None:
        self.text, self.problem = text, ""
        self._node: Node | None = None
        try:
            self._node = _Reader(text).whole()
        except SelectorError as exc:
            self.problem = exc.message

    def matches(self, device: Mapping[str, Any]) -> bool:
        """Evaluate for a device: its `driver`, `attributes`, `capacity`, `allowMultipleAllocations`.

        Raises SelectorError where the expression is not understood, or where CEL has a run-time error.
        """
        if self._node is None:
            raise SelectorError(f"CEL compile error: {self.problem}")
        try:
            found = self._node({"device": device})
        except SelectorError as exc:
            raise SelectorError(f"CEL runtime error: {exc.message}") from None
        if not isinstance(found, bool):
            raise SelectorError(f"CEL runtime error: the result is {values.kind(found)}, not a bool")
        return found


@lru_cache(maxsize=2048)
def read(text: str) -> Expression:
    """Return the expression, read once."""
    return Expression(text)


def _unknown(what: str) -> SelectorError:
    return SelectorError(f"{what} is not understood by this scheduler")


class _Reader:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        if len(text.encode()) > LONGEST:
            raise SelectorError(f"an expression of more than {LONGEST} bytes")
        self._tokens = _tokens(text)
        self._at, self._depth = 0, 0
        self._bound: list[str] = []

    # -- tokens

    @property
    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _take(self, *signs: str) -> str:
        """Go over one of these signs, if it is next."""
        kind, text = self._next
        if text not in signs or kind == "text":
            return ""
        self._at += 1
        return text

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise SelectorError(f"expected {sign!r}, found {self._next[1] or 'the end'!r}")

    def _name(self) -> str:
        kind, text = self._next
        if kind != "name" or text in _KEYWORDS:
            raise SelectorError(f"expected a name, found {text or 'the end'!r}")
        self._at += 1
        return text

    # -- the grammar

    def whole(self) -> Node:
        found = self._expression()
        if self._next[0] != "end":
            raise _unknown(f"{self._next[1]!r} at this place")
        return found

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise SelectorError(f"an expression that is nested more than {DEEPEST} times")
        condition = self._either()
        if self._take("?"):
            first = self._either()
            self._expect(":")
            condition = values.if_else(condition, first, self._expression())
        self._depth -= 1
        return condition

    def _either(self) -> Node:
        found = self._both()
        while self._take("||"):
            found = values.either(found, self._both())
        return found

    def _both(self) -> Node:
        found = self._relation()
        while self._take("&&"):
            found = values.both(found, self._relation())
        return found

    def _relation(self) -> Node:
        found = self._unary()
        while True:
            sign = self._take(*_RELATIONS)
            if not sign:
                return found
            found = values.relation(sign, found, self._unary())

    def _unary(self) -> Node:
        if self._take("!"):
            self._depth += 1
            if self._depth > DEEPEST:
                raise SelectorError(f"an expression that is nested more than {DEEPEST} times")
            inner = self._unary()
            self._depth -= 1
            return values.negation(inner)
        if self._take("-"):
            kind, text = self._next
            if kind != "number":
                raise _unknown("'-' before anything but a number")
            self._at += 1
            return values.constant(_whole_number(text, negative=True))
        return self._member()

    def _member(self) -> Node:
        found = self._primary()
        while True:
            if self._take("."):
                found = self._dotted(found)
            elif self._take(".?"):
                found = values.optional(found, self._name())
            elif self._take("["):
                found = values.index(found, self._expression())
                self._expect("]")
            else:
                return found

    def _dotted(self, target: Node) -> Node:
        name = self._name()
        if not self._take("("):
            return values.select(target, name)
        arguments = self._arguments()
        if (name, len(arguments)) not in values.METHODS:
            raise _unknown(f"the method {name}() with {len(arguments)} arguments")
        if name == "matches":
            values.check_pattern(arguments[0])
        return values.method(name, target, arguments)

    def _primary(self) -> Node:
        kind, text = self._next
        if self._take("("):
            found = self._expression()
            self._expect(")")
            return found
        if self._take("["):
            return values.listed(self._list("]"))
        self._at += 1
        if kind == "number":
            return values.constant(_whole_number(text))
        if kind == "text":
            return values.constant(_text(text))
        if kind == "name" and text not in _KEYWORDS:
            return self._named(text)
        raise _unknown(f"{text!r} at this place" if text else "an end at this place")

    def _named(self, name: str) -> Node:
        if name in ("true", "false"):
            return values.constant(name == "true")
        if name == "cel" and name not in self._bound and self._take("."):
            return self._bind()
        if self._take("("):
            return self._has() if name == "has" else self._function(name)
        if name != "device" and name not in self._bound:
            raise _unknown(f"the name {name!r}")
        return values.variable(name)

    def _function(self, name: str) -> Node:
        arguments = self._arguments()
        if (name, len(arguments)) not in values.FUNCTIONS:
            raise _unknown(f"the function {name}() with {len(arguments)} arguments")
        return values.function(name, arguments)

    def _has(self) -> Node:
        """has(a.b): the argument has to end in a field."""
        begin = self._at
        found = self._expression()
        end = self._at
        self._expect(")")
        last = self._tokens[end - 2 : end]
        if end - begin < 3 or [last[0][1], last[1][0]] != [".", "name"]:
            raise _unknown("has() of anything but a field")
        return values.has(found)

    def _bind(self) -> Node:
        if self._name() != "bind":
            raise _unknown("a function of 'cel' other than bind()")
        self._expect("(")
        name = self._name()
        self._expect(",")
        value = self._expression()
        self._expect(",")
        self._bound.append(name)
        body = self._expression()
        self._bound.pop()
        self._expect(")")
        return values.bind(name, value, body)

    def _arguments(self) -> list[Node]:
        return self._list(")")

    def _list(self, end: str) -> list[Node]:
        found: list[Node] = []
        if self._take(end):
            return found
        while True:
            found.append(self._expression())
            if self._take(end):
                return found
            self._expect(",")
            if end == "]" and self._take(end):
                return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unknown(repr(text[at : at + 20].strip()))
        kind = str(match.lastgroup)
        if kind != "comment":
            found.append((kind, match.group(kind)))
        if kind == "end":
            return found
        at = match.end()


def _whole_number(text: str, negative: bool = False) -> int:
    if re.match(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)\Z", text) is None:
        raise _unknown(f"the number {text!r}")
    number = int(text, 16) if text[:2] in ("0x", "0X") else int(text)
    number = -number if negative else number
    if not -MAX_INT - 1 <= number <= MAX_INT:
        raise SelectorError(f"the number {text} is beyond 64 bits")
    return number


def _text(token: str) -> str:
    quote = min(at for at in (token.find('"'), token.find("'")) if at >= 0)
    prefix = token[:quote].lower()
    if token[quote : quote + 3] in ('"""', "'''") or "b" in prefix:
        raise _unknown("a text in three quotes, or of bytes")
    body = token[quote + 1 : -1]
    return body if prefix == "r" else re.sub(r"\\(.)", _unescaped, body)


def _unescaped(match: re.Match[str]) -> str:
    if match.group(1) not in _ESCAPES:
        raise _unknown(f"the escape {match.group(0)!r}")
    return _ESCAPES[match.group(1)]
