# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import IntColumn, bools
from ..framework.contract import ROWS_ALONE, Dirt, Source, Verdict, unresolvable
from ..framework.state import Cycle
from .rows import one_reason

REFUSAL = unresolvable("node(s) didn't match the requested node name")


@dataclass(frozen=True)
class NodeName:
    """Filter on spec.nodeName."""

    name: str = "NodeName"
    filter_dirt: Dirt = Dirt.NODE

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the name that the pod asks for."""
        return cycle.request.pod.node_name

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse all rows but the named one; none without a name."""
        wanted = cycle.request.pod.node_name
        if not wanted:
            return one_reason(bools(len(rows), True), REFUSAL)
        return one_reason(rows == cycle.snapshot.nodes.row_of.get(wanted, -1), REFUSAL)
