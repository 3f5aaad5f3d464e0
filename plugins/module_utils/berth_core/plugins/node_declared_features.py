# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeDeclaredFeatures: a pod that needs a feature of kubelet's goes to nodes alone that declare it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import IntColumn, np
from ..framework.contract import (
    ALL_NODES,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    Dirt,
    Narrowing,
    Source,
    Verdict,
    unresolvable,
)
from ..framework.state import Cycle
from .rows import one_reason

REFUSAL = unresolvable("node(s) didn't match Pod's required features")


@dataclass(frozen=True)
class NodeDeclaredFeatures:
    """Filter on status.declaredFeatures."""

    name: str = "NodeDeclaredFeatures"
    filter_dirt: Dirt = Dirt.NODE

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod that needs none, which is nearly every pod."""
        return ALL_NODES if cycle.request.pod.features else NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return what the pod needs."""
        return cycle.request.pod.features

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows that lack any of it."""
        infos, needed = cycle.snapshot.nodes.infos, cycle.request.pod.features
        return one_reason(np.array([needed <= infos[int(row)].features for row in rows], dtype=np.bool_), REFUSAL)
