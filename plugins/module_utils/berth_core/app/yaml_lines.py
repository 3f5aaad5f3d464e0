# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A YAML document together with the line of each of its values, so that a complaint can say where.

Called by agent_config, with the module yaml: the core itself imports the standard library alone.

Safe YAML only. Of two equal keys PyYAML takes the last and says nothing: here that is refused. Merge keys (<<) are not
read, and what aliases multiply is bounded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: More values than any host's configuration has: aliases of aliases grow without end.
_MANY = 50_000
_MERGE = "tag:yaml.org,2002:merge"


class Problem(NamedTuple):
    """One thing that is wrong. ``line`` counts from 1."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}"


class Document(NamedTuple):
    """``value`` is plain data; ``lines`` has the line of each value by its path, as ("disks", 0, "serial")."""

    value: Any
    lines: dict[Any, int]
    problems: list[Problem]


def read_yaml(text: str, yaml: Any) -> Document:
    """Parse one document. What is no YAML is one problem, with its line."""
    try:
        # the pure-Python loader: the agent's one file runs on every host
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            document = Document(None, {(): 1}, [])
            value = _value(loader, node, (), document) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        said = "; ".join(part for part in (exc.problem, exc.context) if part)
        return Document(None, {(): 1}, [Problem(mark.line + 1 if mark else 1, f"is not YAML: {said}")])
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        return Document(None, {(): 1}, [Problem(1, f"is not YAML: {' '.join(str(exc).split())}")])
    return document._replace(value=value)


def _value(loader: Any, node: Any, path: Any, document: Document) -> Any:
    if len(document.lines) > _MANY:
        raise ValueError(f"more than {_MANY} values")
    document.lines[path] = node.start_mark.line + 1
    if node.id == "sequence":
        return [_value(loader, each, (*path, index), document) for index, each in enumerate(node.value)]
    if node.id != "mapping":
        return loader.construct_object(node, deep=True)
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = "" if key_node.tag == _MERGE else loader.construct_object(key_node, deep=True)
        if not isinstance(key, str) or not key:
            document.problems.append(Problem(line, f"key {key_node.value!r} is not a plain text"))
            continue
        if key in found:
            document.problems.append(Problem(line, f"key {key!r} is given twice"))
        found[key] = _value(loader, value_node, (*path, key), document)
        document.lines[(*path, key)] = line
    return found
