# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The items of a TaskBatch: tasks with arguments, variables and needs of their own. What they are, and how many fit.

Raises InputError that names the item. Where an item stands, in an object or in a file, its caller says (`Place`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple

from ..errors import InputError
from ..model.fields import Object, string, string_map, strings

#: How an error calls a field of the item of that index; of the item itself, where the field is empty.
Place = Callable[[int, str], str]
#: What an item may have.
KEYS = ("name", "args", "env", "needs")
MOST_ITEMS = 10_000
#: Bytes of all items: etcd takes objects of 1.5 MiB, and template, status and metadata are in there, too.
LARGEST_ITEMS = 1024 * 1024
LONGEST_ITEM_NAME, LONGEST_TEXT = 63, 4096
MOST_ARGS, MOST_ENV, MOST_NEEDS = 256, 64, 256
_WAYS = "submit several batches, or an array (count) whose tasks read their part of a file"


class Item(NamedTuple):
    """One element of a list. `needs`: indexes of those that are to succeed before it starts."""

    name: str
    args: tuple[str, ...] | None
    env: tuple[tuple[str, str], ...]
    needs: tuple[int, ...]


def read_items(listed: Sequence[Object], place: Place, where: str) -> tuple[Item, ...]:
    """The items as values. `where`: what an error calls the whole list."""
    index: dict[str, int] = {}
    for at, one in enumerate(listed):
        name = string(one, "name", place(at, "name"), str(at))
        if name in index:
            other = place(index[name], "").rpartition(": ")[2]
            raise InputError(f"{place(at, 'name')} is {name!r}, as that of {other}")
        index[name] = at
    found = tuple(_item(one, name, index, at, place) for (name, at), one in zip(index.items(), listed))
    circle = _circle(found)
    if circle:
        names = " -> ".join(found[at].name for at in circle)
        raise InputError(f"{where} wait for each other and never start: {names}")
    return found


def _item(one: Object, name: str, index: Mapping[str, int], at: int, place: Place) -> Item:
    needs = strings(one, "needs", place(at, "needs"))
    unknown = [need for need in needs if need not in index]  # a difference of sets looks at every name of the list
    if unknown:
        raise InputError(f"{place(at, 'needs')} names {unknown[0]!r}: expected names of other items")
    env = string_map(one, "env", place(at, "env"))
    args = strings(one, "args", place(at, "args")) if one.get("args") is not None else None
    return Item(name, args, tuple(sorted(env.items())), tuple(sorted({index[each] for each in needs})))


def check_items(listed: Sequence[Object], place: Place, where: str) -> None:
    """Refuse what the API server would not take: too many, too large, or with a field out of bounds."""
    if len(listed) > MOST_ITEMS:
        raise InputError(f"{where} has more than {MOST_ITEMS} items: expected at most so many; {_WAYS}")
    total, fit = 0, 0
    for at, item in enumerate(read_items(listed, place, where)):
        _check_item(item, at, place)
        total += _stored(listed[at])
        fit = at + 1 if total <= LARGEST_ITEMS else fit
    if total > LARGEST_ITEMS:
        raise InputError(
            f"{where} takes {total} bytes in the API: expected at most {LARGEST_ITEMS}, into which the first {fit} of"
            f" {len(listed)} items fit; {_WAYS}"
        )


def _check_item(item: Item, at: int, place: Place) -> None:
    if not 1 <= len(item.name) <= LONGEST_ITEM_NAME:
        raise InputError(
            f"{place(at, 'name')} has {len(item.name)} characters: expected 1 to {LONGEST_ITEM_NAME} of them"
        )
    args, env = item.args or (), dict(item.env)
    for field, found, most in (("args", args, MOST_ARGS), ("env", env, MOST_ENV), ("needs", item.needs, MOST_NEEDS)):
        if len(found) > most:
            raise InputError(f"{place(at, field)} has {len(found)} entries: expected at most {most}")
    for field, texts in (("args", args), ("env", tuple(env.values()))):
        longest = max(map(len, texts), default=0)
        if longest > LONGEST_TEXT:
            raise InputError(
                f"{place(at, field)} has a text of {longest} characters: expected at most {LONGEST_TEXT}; "
                "a longer one belongs into a ConfigMap that the template mounts"
            )


def _stored(item: Object) -> int:
    """Bytes as the API server keeps it: JSON in UTF-8, in which `<`, `>` and `&` are written as six characters."""
    text = json.dumps(item, ensure_ascii=False, separators=(",", ":"), default=str)
    return len(text.encode("utf-8", "replace")) + 5 * sum(map(text.count, "<>&")) + 1


def _circle(items: Sequence[Item]) -> list[int]:
    """Indexes of items that need each other, the first one again at the end; empty where there are none."""
    done: set[int] = set()
    for start in range(len(items)):
        path: list[int] = []
        on_path: set[int] = set()
        stack = [(start, iter((start,)))]
        while stack:
            _of, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                if path:
                    last = path.pop()
                    on_path.discard(last)
                    done.add(last)
            elif following in on_path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                on_path.add(following)
                stack.append((following, iter(items[following].needs)))
    return []


def plain(listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Items without what was not given."""
    return [{key: value for key, value in one.items() if value is not None} for one in listed]
