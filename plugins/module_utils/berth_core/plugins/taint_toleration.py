# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TaintToleration: taints keep pods away (NoSchedule, NoExecute) or make a node less wanted (PreferNoSchedule)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import IntColumn, np
from ..framework.contract import ROWS_ALONE, Dirt, Source, Verdict, unresolvable
from ..framework.state import Cycle
from ..model.taint import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, tolerated
from .rows import default_normalize, one_reason, untolerated_rows

REFUSAL = unresolvable("node(s) had untolerated taint(s)")


@dataclass(frozen=True)
class TaintToleration:
    """Filter and score on spec.taints."""

    name: str = "TaintToleration"
    filter_dirt: Dirt = Dirt.NODE
    score_dirt: Dirt = Dirt.NODE

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the tolerations."""
        return cycle.request.pod.tolerations

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows with a taint that keeps the pod away."""
        return one_reason(~untolerated_rows(cycle.snapshot, cycle.request.pod.tolerations, rows), REFUSAL)

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out: all taints that would have to go or be tolerated."""
        nodes, tolerations = cycle.snapshot.nodes, cycle.request.pod.tolerations
        taints = nodes.taint_sets[int(nodes.taint_set[row])]
        in_the_way = [
            str(one) for one in taints if one.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(one, tolerations)
        ]
        return f"tolerate {', '.join(in_the_way)} of {{node}}"

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return the tolerations."""
        return cycle.request.pod.tolerations

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Count the PreferNoSchedule taints that are not tolerated, once per distinct set of taints."""
        tolerations = tuple(one for one in cycle.request.pod.tolerations if one.effect in ("", PREFER_NO_SCHEDULE))
        counts = [
            sum(one.effect == PREFER_NO_SCHEDULE and not tolerated(one, tolerations) for one in taints)
            for taints in cycle.snapshot.nodes.taint_sets
        ]
        column: IntColumn = np.array(counts, dtype=np.int64)[cycle.snapshot.nodes.taint_set[rows]]
        return column

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Give the fewest taints the most."""
        return default_normalize(scores, reverse=True)
