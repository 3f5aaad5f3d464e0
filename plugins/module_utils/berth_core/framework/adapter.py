# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets a plugin that looks at one node at a time stand where columns are expected.

For plugins from outside. A per-node filter answers a Status for a node, a per-node score an integer; the adapters ask
them row by row. They get the node's facts and the request, and must not keep either.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Callable

from ..cluster.columns import IntColumn, ints
from ..model.node import NodeInfo
from ..model.placement import PlacementRequest
from .contract import SUCCESS, Dirt, Status, Verdict, shape_key
from .state import Cycle


@dataclass(frozen=True)
class PerNodeFilter:
    """A filter column from a function of one node."""

    name: str
    judge: Callable[[PlacementRequest, NodeInfo], Status]
    filter_dirt: Dirt = Dirt.ALL

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the whole request: nothing is known about what the function looks at."""
        return shape_key(cycle.request)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Ask for each row."""
        table: list[Status] = [SUCCESS]
        codes = ints(len(rows))
        for position, row in enumerate(rows):
            status = self.judge(cycle.request, cycle.snapshot.nodes.infos[int(row)])
            if status.ok:
                continue
            if status not in table:
                table.append(status)
            codes[position] = table.index(status)
        return Verdict(codes, tuple(table))


@dataclass(frozen=True)
class PerNodeScore:
    """A score column from a function of one node."""

    name: str
    rate: Callable[[PlacementRequest, NodeInfo], int]
    score_dirt: Dirt = Dirt.ALL

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return the whole request."""
        return shape_key(cycle.request)

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Ask for each row."""
        scores = ints(len(rows))
        for position, row in enumerate(rows):
            scores[position] = self.rate(cycle.request, cycle.snapshot.nodes.infos[int(row)])
        return scores
