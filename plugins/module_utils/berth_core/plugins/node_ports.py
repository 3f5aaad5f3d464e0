# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodePorts: a port of the host is taken once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import IntColumn, bools
from ..framework.contract import (
    ALL_NODES,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    Dirt,
    Narrowing,
    Source,
    Verdict,
    unschedulable,
)
from ..framework.state import Cycle
from .rows import one_reason

REFUSAL = unschedulable("node(s) didn't have free ports for the requested pod ports")


@dataclass(frozen=True)
class NodePorts:
    """Filter on hostPort."""

    name: str = "NodePorts"
    filter_dirt: Dirt = Dirt.ROW

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod without host ports."""
        return ALL_NODES if cycle.request.pod.host_ports else NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the ports."""
        return cycle.request.pod.host_ports

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows on which one of the ports is taken. Few nodes have any: they are looked up by port."""
        nodes = cycle.snapshot.nodes
        free = bools(len(nodes), True)
        for port in cycle.request.pod.host_ports:
            for name in cycle.snapshot.nodes_with_port(port):
                if name in nodes.row_of:
                    free[nodes.row_of[name]] = False
        return one_reason(free[rows], REFUSAL)

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out."""
        name = cycle.snapshot.nodes.names[row]
        taken = [one for one in cycle.request.pod.host_ports if name in cycle.snapshot.nodes_with_port(one)]
        return f"free host port {', '.join(f'{one.port}/{one.protocol}' for one in taken)} on {{node}}"
