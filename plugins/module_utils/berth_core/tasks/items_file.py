# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of items of a TaskBatch: JSON lines, a JSON or YAML list, or CSV with a header. Pure: the text is an argument.

Everything is read before anything is given back. Raises InputError that names file, line and what was expected.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from ..errors import InputError
from ..model.names import shown
from .items import KEYS, check_items

#: Characters of a file: what is larger holds more than one object takes, however widely it is written.
LARGEST_FILE = 16 * 1024 * 1024
#: A line, from 1, and what stands there.
Row = tuple[int, Any]
_KNOWN = ", ".join(KEYS)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SPACE = re.compile(r"[ \t\r\n]*")
_JSON = json.JSONDecoder()


def read(text: str, file: str, yaml: Any) -> list[dict[str, Any]]:
    """The items of a file. `file`: its name, by whose ending its format is known; `yaml`: PyYAML, or None."""
    if len(text) > LARGEST_FILE:
        raise InputError(f"{file} is too large: expected at most {LARGEST_FILE} characters")
    way = format_of(file, text)
    rows = list(_yaml_list(text, file, yaml) if way is None else way(text, file))
    if not rows:
        raise InputError(f"{file} has no items: expected at least one")
    lines = [line for line, _value in rows]
    items = [_item(value, f"{file}: line {line}") for line, value in rows]

    def place(at: int, field: str) -> str:
        return f"{file}: line {lines[at]}{field and f': {field}'}"

    check_items(items, place, file)
    return items


def format_of(file: str, text: str) -> Callable[[str, str], Iterator[Row]] | None:
    """How it is read; None: as YAML. A name with another ending says nothing: then it is the first character."""
    ways = {"jsonl": _json_lines, "ndjson": _json_lines, "json": _json_list, "csv": _csv, "yaml": None, "yml": None}
    ending = file.rpartition(".")[2].lower()
    if ending in ways:
        return ways[ending]
    return {"{": _json_lines, "[": _json_list, "-": None, "#": None}.get(text.lstrip()[:1], _csv)


def _item(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where} is {shown(value)}: expected an object with {_KNOWN}")
    unknown = sorted(str(key) for key in value if key not in KEYS)
    if unknown:
        raise InputError(f"{where} has {shown(unknown[0])}: expected {_KNOWN}")
    return {key: one for key, one in value.items() if one is not None}


# -- JSON --------------------------------------------------------------------------------------------------------------


def _decoded(text: str, at: int, file: str, line: int | None) -> tuple[Any, int]:
    """A value and where it ends. `line`: of the file; None: `text` is all of it."""
    try:
        return _JSON.raw_decode(text, at)
    except json.JSONDecodeError as exc:
        raise InputError(
            f"{file}: line {line or exc.lineno} is not JSON: {exc.msg} (column {exc.colno}); expected an object with"
            f" {_KNOWN}"
        ) from exc
    except (ValueError, RecursionError) as exc:  # a number of thousands of digits, thousands of brackets
        where = line or 1 + text.count("\n", 0, at)
        raise InputError(f"{file}: line {where} is not read: {exc}; expected an object with {_KNOWN}") from exc


def _json_lines(text: str, file: str) -> Iterator[Row]:
    # Not splitlines: what else ends a line for Python may stand inside a JSON string.
    for number, line in enumerate(text.split("\n"), 1):
        start = _skip(line, 0)
        if start == len(line):
            continue
        value, end = _decoded(line, start, file, number)
        if _skip(line, end) != len(line):
            raise InputError(f"{file}: line {number} goes on after its object: expected one object a line")
        yield number, value


def _json_list(text: str, file: str) -> Iterator[Row]:
    at, seen, line = _skip(text, 0), 0, 1
    if text[at : at + 1] != "[":
        raise InputError(f"{file} is not a JSON list: expected [ at its beginning; one object a line is .jsonl")
    mark, at = "[", _skip(text, at + 1)
    while text[at : at + 1] != "]" or mark == ",":
        line, seen = line + text.count("\n", seen, at), at
        value, at = _decoded(text, at, file, None)
        yield line, value
        at = _skip(text, at)
        mark = text[at : at + 1]
        if mark not in (",", "]"):
            raise InputError(f"{file}: line {line + text.count(chr(10), seen, at)}: expected , or ] after an item")
        if mark == ",":
            at = _skip(text, at + 1)
    if _skip(text, at + 1) != len(text):
        raise InputError(f"{file} goes on after its list: expected one list")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


# -- YAML --------------------------------------------------------------------------------------------------------------


def _yaml_list(text: str, file: str, yaml: Any) -> Iterator[Row]:
    if yaml is None:
        raise InputError(f"{file} needs the Python package PyYAML: install it for the interpreter that runs it")
    # The parser in C is ten times as fast, and says the same.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        node = loader.get_single_node()
        if node is None or not isinstance(node, yaml.SequenceNode):
            raise InputError(f"{file} is not a YAML list: expected a list of objects with {_KNOWN}")
        for child in node.value:
            yield child.start_mark.line + 1, loader.construct_object(child, deep=True)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f": line {mark.line + 1}" if mark is not None else ""
        why = getattr(exc, "problem", None) or " ".join(str(exc).split())
        raise InputError(f"{file}{where} is not YAML: {why}; expected a list of objects with {_KNOWN}") from exc
    finally:
        loader.dispose()


# -- CSV ---------------------------------------------------------------------------------------------------------------


def _csv(text: str, file: str) -> Iterator[Row]:
    reader = csv.reader(_LINE.findall(text), strict=True)
    head: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            if any(cells):
                if head is None:
                    head = _head(cells, f"{file}: line {line}")
                elif len(cells) != len(head):
                    raise InputError(f"{file}: line {line} has {len(cells)} cells: expected {len(head)}, as the header")
                else:
                    yield line, _of_cells(dict(zip(head, cells)), f"{file}: line {line}")
            line = reader.line_num + 1
    except csv.Error as exc:
        raise InputError(f"{file}: line {line} is not CSV: {exc}; expected cells as the header has them") from exc


def _head(cells: list[str], where: str) -> list[str]:
    head = [cell.strip() for cell in cells]
    for at, cell in enumerate(head):
        if cell not in ("name", "args", "needs") and not re.fullmatch(r"env\.[A-Za-z_][A-Za-z0-9_]*", cell):
            raise InputError(
                f"{where} is the header, and has {shown(cell)}: expected name, args, needs, and env.NAME for a variable"
            )
        if cell in head[:at]:
            raise InputError(f"{where} is the header, and has {shown(cell)} twice: expected each column once")
    return head


def _of_cells(row: Mapping[str, str], where: str) -> dict[str, Any]:
    """An empty cell is left out."""
    found: dict[str, Any] = {}
    for column, cell in row.items():
        if not cell:
            continue
        if column == "name":
            found["name"] = cell
        elif column in ("args", "needs"):
            try:
                found[column] = shlex.split(cell)
            except ValueError as exc:
                raise InputError(
                    f"{where}: {column} is {shown(cell)}: {exc}; expected words as a shell takes them"
                ) from exc
        else:
            found.setdefault("env", {})[column[4:]] = cell
    return found
