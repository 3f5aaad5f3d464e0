# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeUnschedulable: a cordoned node takes no pods, except those that tolerate the cordon's taint."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import IntColumn, bools
from ..framework.contract import ROWS_ALONE, Dirt, Source, Verdict, unresolvable
from ..framework.state import Cycle
from ..model.taint import NO_SCHEDULE, Taint, tolerated
from .rows import one_reason

REFUSAL = unresolvable("node(s) were unschedulable")
CORDON = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


@dataclass(frozen=True)
class NodeUnschedulable:
    """Filter on spec.unschedulable."""

    name: str = "NodeUnschedulable"
    filter_dirt: Dirt = Dirt.NODE

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return whether the pod tolerates a cordon: nothing else of it matters."""
        return tolerated(CORDON, cycle.request.pod.tolerations)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse cordoned rows."""
        if tolerated(CORDON, cycle.request.pod.tolerations):
            return one_reason(bools(len(rows), True), REFUSAL)
        return one_reason(~cycle.snapshot.nodes.unschedulable[rows], REFUSAL)

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out."""
        return "uncordon {node}"
