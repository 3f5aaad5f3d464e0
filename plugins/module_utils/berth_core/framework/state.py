# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of one scheduling cycle: the only way for a plugin to hand data from one extension point to the next.

Made by framework/cycle.py for each request and thrown away after it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Callable, TypeVar

from ..cluster.snapshot import Snapshot
from ..model.placement import PlacementRequest

Data = TypeVar("Data")
MAX_OF_NODES = 256
"""Things about nodes that are kept at once: beyond it all are made anew, as after a change of a node."""


class Cycle:
    """One request against one snapshot. `data` belongs to the plugins, each under keys that start with its own name."""

    def __init__(self, snapshot: Snapshot, request: PlacementRequest) -> None:
        self.snapshot = snapshot
        self.request = request
        self.data: dict[Hashable, Any] = {}

    @property
    def pod(self) -> Any:
        """Return the pod that is to be placed."""
        return self.request.pod

    def once(self, key: Hashable, make: Callable[[], Data]) -> Data:
        """Return what was made under this key in this cycle, making it at the first call."""
        if key not in self.data:
            self.data[key] = make()
        made: Data = self.data[key]
        return made

    def of_nodes(self, key: Hashable, make: Callable[[], Data]) -> Data:
        """Return what was made under this key since a node object last changed, in this cycle or in an earlier one.

        Only for what depends on nothing but node objects and the key: what runs on the nodes must not come into it.
        """
        snapshot = self.snapshot
        now = (snapshot.layout_generation, snapshot.node_generation)
        then, kept = snapshot.memo.get("of_nodes", (None, {}))
        if then != now or len(kept) > MAX_OF_NODES:
            kept = {}
            snapshot.memo["of_nodes"] = (now, kept)
        if key not in kept:
            kept[key] = make()
        made: Data = kept[key]
        return made
