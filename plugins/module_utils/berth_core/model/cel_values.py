# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What parts of a CEL expression mean: each function here makes one part, to be called with the variables.

Called by cel.py while it reads. Values are bool, int, str, tuples for lists, Version, Quantity and mappings. As in CEL,
nothing is converted, a missing key is an error, and `&&` and `||` swallow an error where the other side decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ..errors import QuantityError, SelectorError
from .quantity import Number, parse_quantity
from .semver import Version

Scope = Mapping[str, Any]
Node = Callable[[Scope], Any]
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9 _,:/=@#~%&;<>'\"!.*+?^$|()\[\]-]*\Z")
_UNLIKE = re.compile(r"\(\?|[*+?]{2}|\)[*+?]|\[[^]]*\[|\[\^?\]|--|&&|~~|\|\|")
"""What two engines understand differently, or what takes them differently long."""
MOST_REPEATS = 3
"""Of a pattern: with more, a text can be tried in more ways than anybody can wait for."""
_TO_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_TO_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


@dataclass(frozen=True)
class Quantity:
    """An amount of something, exactly."""

    amount: Number

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1."""
        return (self.amount > other.amount) - (self.amount < other.amount)


@dataclass(frozen=True)
class Optional:
    """What `.?name` found: one value, or none."""

    found: tuple[Any, ...] = ()


class Domains(Mapping[str, Any]):
    """Attributes or capacity by domain. A domain that nothing is known of is empty, and no error."""

    def __init__(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        self._known = known

    def __getitem__(self, key: str) -> Mapping[str, Any]:
        """Return what is known of a domain."""
        return self._known.get(key, {})

    def __contains__(self, key: object) -> bool:
        """Tell whether anything is known of it."""
        return key in self._known

    def __iter__(self) -> Any:
        """Return the domains."""
        return iter(self._known)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._known)


def kind(value: Any) -> str:
    """Return the name of a value's type, for messages."""
    names = ((bool, "a bool"), (int, "an int"), (str, "a string"), (tuple, "a list"), (Version, "a version"))
    found = next((name for one, name in names if isinstance(value, one)), "")
    return found or (
        "a quantity" if isinstance(value, Quantity) else "a map" if isinstance(value, Mapping) else "other"
    )


def _wrong(what: str, *operands: Any) -> SelectorError:
    return SelectorError(f"no such overload: {what} of {' and '.join(kind(one) for one in operands)}")


# -- names and fields


def constant(value: Any) -> Node:
    """Make a part that is always the same."""
    return lambda _scope: value


def variable(name: str) -> Node:
    """Make a part that is a variable."""
    return lambda scope: scope[name]


def bind(name: str, value: Node, body: Node) -> Node:
    """Make cel.bind."""
    return lambda scope: body({**scope, name: value(scope)})


def listed(items: Sequence[Node]) -> Node:
    """Make a list."""
    return lambda scope: tuple([one(scope) for one in items])


def _at(source: Any, key: Any) -> Any:
    if not isinstance(source, Mapping):
        raise _wrong("a field", source)
    if not isinstance(key, str):
        raise _wrong("a key", key)
    if not isinstance(source, Domains) and key not in source:
        raise SelectorError(f"no such key: {key}")
    return source[key]


def select(target: Node, name: str) -> Node:
    """Make target.name."""
    return _Field(target, name)


@dataclass(frozen=True)
class _Field:
    """A field, of which has() can be asked."""

    target: Node
    name: str

    def __call__(self, scope: Scope) -> Any:
        return _at(self.target(scope), self.name)

    def there(self, scope: Scope) -> bool:
        source = self.target(scope)
        if not isinstance(source, Mapping):
            raise _wrong("has()", source)
        return self.name in source


def has(found: Node) -> Node:
    """Make has(target.name)."""
    if not isinstance(found, _Field):
        raise SelectorError("has() of anything but a field is not understood by this scheduler")
    return found.there


def index(target: Node, key: Node) -> Node:
    """Make target[key]; lists have no places here."""
    return lambda scope: _at(target(scope), key(scope))


def optional(target: Node, name: str) -> Node:
    """Make target.?name."""

    def ask(scope: Scope) -> Optional:
        source = target(scope)
        if not isinstance(source, Mapping):
            raise _wrong("an optional field", source)
        return Optional((source[name],)) if name in source else Optional()

    return ask


# -- logic


def _truth(node: Node, scope: Scope) -> bool | SelectorError:
    try:
        found = node(scope)
    except SelectorError as exc:
        return exc
    return found if isinstance(found, bool) else _wrong("logic", found)


def _decides(first: Node, second: Node, by: bool) -> Node:
    """Either side decides by being `by`, whatever becomes of the other."""

    def ask(scope: Scope) -> bool:
        one = _truth(first, scope)
        if one is by:
            return by
        other = _truth(second, scope)
        if other is by:
            return by
        for found in (one, other):
            if isinstance(found, SelectorError):
                raise found
        return not by

    return ask


def both(first: Node, second: Node) -> Node:
    """Make &&."""
    return _decides(first, second, False)


def either(first: Node, second: Node) -> Node:
    """Make ||."""
    return _decides(first, second, True)


def _bool(node: Node, scope: Scope) -> bool:
    found = _truth(node, scope)
    if isinstance(found, SelectorError):
        raise found
    return found


def negation(node: Node) -> Node:
    """Make !."""
    return lambda scope: not _bool(node, scope)


def if_else(condition: Node, first: Node, second: Node) -> Node:
    """Make ?:."""
    return lambda scope: first(scope) if _bool(condition, scope) else second(scope)


# -- comparisons


def equal(one: Any, other: Any) -> bool:
    """Compare; values of different types are not equal, but a version or a quantity cannot be asked at all."""
    if isinstance(one, (Version, Quantity)):
        if type(one) is not type(other):
            raise _wrong("==", one, other)
        return one.compare(other) == 0  # type: ignore[arg-type]
    if isinstance(one, (Mapping, Optional)) or isinstance(other, (Mapping, Optional)):
        raise _wrong("==", one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other))
    return type(one) is type(other) and bool(one == other)


def _contained(one: Any, other: Any) -> bool:
    if isinstance(other, tuple):
        return any(equal(item, one) for item in other if type(item) is type(one))
    if isinstance(other, Mapping):
        return isinstance(one, str) and one in other
    raise _wrong("in", one, other)


def _smaller(one: Any, other: Any) -> int:
    """Return -1, 0 or 1."""
    if type(one) is not type(other) or not isinstance(one, (bool, int, str)):
        raise _wrong("<", one, other)
    return int(one > other) - int(one < other)


_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": equal,
    "!=": lambda one, other: not equal(one, other),
    "in": _contained,
    "<": lambda one, other: _smaller(one, other) < 0,
    "<=": lambda one, other: _smaller(one, other) <= 0,
    ">": lambda one, other: _smaller(one, other) > 0,
    ">=": lambda one, other: _smaller(one, other) >= 0,
}


def relation(sign: str, first: Node, second: Node) -> Node:
    """Make a comparison."""
    compare = _SIGNS[sign]
    return lambda scope: compare(first(scope), second(scope))


# -- functions and methods


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(parse_quantity(text))
    except QuantityError as exc:
        raise SelectorError(exc.message) from None


def _can(make: Callable[[str], Any], text: str) -> bool:
    try:
        make(text)
    except SelectorError:
        return False
    return True


FUNCTIONS: Mapping[tuple[str, int], Callable[[str], Any]] = {
    ("quantity", 1): _quantity,
    ("isQuantity", 1): lambda text: _can(_quantity, text),
    ("semver", 1): Version.parse,
    ("isSemver", 1): lambda text: _can(Version.parse, text),
}
"""By name and number of arguments. All take a text."""


def function(name: str, arguments: Sequence[Node]) -> Node:
    """Make a call of a function."""
    work = FUNCTIONS[name, len(arguments)]

    def call(scope: Scope) -> Any:
        found = arguments[0](scope)
        if not isinstance(found, str):
            raise _wrong(f"{name}()", found)
        return work(found)

    return call


def _of_texts(work: Callable[[str, str], bool]) -> Callable[..., bool]:
    def call(one: Any, other: Any) -> bool:
        if not isinstance(one, str) or not isinstance(other, str):
            raise _wrong("a method of texts", one, other)
        return work(one, other)

    return call


def _comparing(work: Callable[[int], Any]) -> Callable[..., Any]:
    def call(one: Any, other: Any) -> Any:
        if type(one) is not type(other) or not isinstance(one, (Version, Quantity)):
            raise _wrong("a comparison", one, other)
        return work(one.compare(other))

    return call


def _cased(table: Mapping[int, int]) -> Callable[[Any], str]:
    def call(one: Any) -> str:
        if not isinstance(one, str):
            raise _wrong("a method of texts", one)
        return one.translate(table)

    return call


def _or_value(one: Any, other: Any) -> Any:
    if not isinstance(one, Optional):
        raise _wrong("orValue()", one)
    return one.found[0] if one.found else other


def _has_value(one: Any) -> bool:
    if not isinstance(one, Optional):
        raise _wrong("hasValue()", one)
    return bool(one.found)


def check_pattern(pattern: Node) -> None:
    """Refuse a pattern that is not written out, or in which two engines could see different things.

    Raises SelectorError.
    """
    try:
        text = pattern({})
    except KeyError:
        text = None
    if not isinstance(text, str) or not _PLAIN_PATTERN.match(text) or _UNLIKE.search(text):
        raise SelectorError(f"the pattern {text!r} is not understood by this scheduler: use a plain one")
    if len(re.findall(r"[*+]", text)) > MOST_REPEATS:
        raise SelectorError(f"the pattern {text!r} has more than {MOST_REPEATS} times * or +")
    try:
        re.compile(_pattern(text))
    except re.error as exc:
        raise SelectorError(f"the pattern {text!r} is wrong: {exc}") from None


def _pattern(text: str) -> str:
    """Return the pattern for Python: there `$` would be the end of a line, too."""
    return re.sub(r"\[[^]]*\]|\$", lambda found: r"\Z" if found.group() == "$" else found.group(), text)


METHODS: Mapping[tuple[str, int], Callable[..., Any]] = {
    ("startsWith", 1): _of_texts(str.startswith),
    ("endsWith", 1): _of_texts(str.endswith),
    ("contains", 1): _of_texts(str.__contains__),
    ("matches", 1): _of_texts(lambda one, other: re.search(_pattern(other), one) is not None),
    ("lowerAscii", 0): _cased(_TO_LOWER),
    ("upperAscii", 0): _cased(_TO_UPPER),
    ("compareTo", 1): _comparing(int),
    ("isLessThan", 1): _comparing(lambda sign: sign < 0),
    ("isGreaterThan", 1): _comparing(lambda sign: sign > 0),
    ("orValue", 1): _or_value,
    ("hasValue", 0): _has_value,
}
"""By name and number of arguments."""


def method(name: str, target: Node, arguments: Sequence[Node]) -> Node:
    """Make a call of a method."""
    work = METHODS[name, len(arguments)]
    return lambda scope: work(target(scope), *[one(scope) for one in arguments])
