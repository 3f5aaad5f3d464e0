# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others than tasks take of nodes: pods, berths whose pod is not there yet, pods for which room is being made.

One replica is known under one key (namespace, pod name) from up to three sources, of which the strongest counts, as in
cluster/occupants.py: so no replica counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .offers import Free

Key = tuple[str, str]
#: A pod on its node; a berth; a pod with status.nominatedNodeName. The strongest first.
POD, BERTH, NOMINATED = 0, 1, 2


class Takes(NamedTuple):
    """So much of that node."""

    node: str
    uses: Mapping[str, int]


class Taken:
    """The sums by node. Not for threads."""

    def __init__(self) -> None:
        self._sources: dict[Key, list[Takes | None]] = {}
        self._sums: dict[str, Free] = {}

    def on(self, node: str) -> Mapping[str, int]:
        """What is taken there, by resource."""
        return self._sums.get(node, {})

    def put(self, key: Key, source: int, takes: Takes | None) -> bool:
        """Set or clear what one source says of a replica. Returns whether something may be free that was not."""
        sources = self._sources.setdefault(key, [None, None, None])
        before = _strongest(sources)
        sources[source] = takes
        after = _strongest(sources)
        if after is None:
            del self._sources[key]
        if before == after:
            return False
        for one, sign in ((before, -1), (after, 1)):
            if one is not None:
                self._count(one, sign)
        return before is not None

    def _count(self, one: Takes, sign: int) -> None:
        sums = self._sums.setdefault(one.node, {})
        for name, value in one.uses.items():
            sums[name] = sums.get(name, 0) + sign * value


def _strongest(sources: list[Takes | None]) -> Takes | None:
    return sources[POD] or sources[BERTH] or sources[NOMINATED]
