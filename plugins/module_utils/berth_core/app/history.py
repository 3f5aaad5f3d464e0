# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened lately, as the objects themselves remember it: when they were made, and when a condition last turned.

The report shows it. There is no other memory: what an object has forgotten is not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK
from .overview import Lists

KINDS = (LOCAL_DISK, LOCAL_DEVICE, BERTH)


class Happened(NamedTuple):
    """``time`` as the API server writes it (UTC, sorts as text)."""

    time: str
    about: str
    text: str


def history(lists: Lists, most: int = 200) -> list[Happened]:
    """The latest first, at most so many."""
    found = [
        one
        for kind in KINDS
        for thing in lists[kind.kind]
        for one in _of(kind.describe(thing["metadata"]["name"], thing["metadata"].get("namespace")), thing)
    ]
    return sorted(found, reverse=True)[:most]


def _of(about: str, thing: Mapping[str, Any]) -> Iterator[Happened]:
    made = thing["metadata"].get("creationTimestamp")
    if made:
        yield Happened(str(made), about, "made")
    for one in (thing.get("status") or {}).get("conditions") or ():
        turned = one.get("lastTransitionTime")
        if turned:
            why = ": ".join(str(one[key]) for key in ("reason", "message") if one.get(key))
            yield Happened(str(turned), about, f"{one.get('type')} is {one.get('status')}{f' ({why})' if why else ''}")
