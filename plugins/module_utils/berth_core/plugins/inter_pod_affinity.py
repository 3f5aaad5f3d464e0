# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""InterPodAffinity: near the pods that a pod names, away from those it avoids, and away from those that avoid it.

Everything is counted per topology domain over all nodes, and pods that are going away count until they are gone. What
pods on the nodes require is also a wish of theirs about the new pod: it scores with hardPodAffinityWeight.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cluster.columns import IntColumn
from ..cluster.pod_terms import PREFERRED, PREFERRED_ANTI, REQUIRED, REQUIRED_ANTI
from ..errors import InputError
from ..framework.contract import (
    ALL_NODES,
    NOTHING_TO_FILTER,
    PODS_AND_TERMS,
    SKIPPED,
    SUCCESS,
    TERMS_TOO,
    Dirt,
    Narrowing,
    Source,
    Status,
    Verdict,
    unresolvable,
    unschedulable,
)
from ..framework.state import Cycle
from ..model.fields import boolean, integer
from .affinity_rules import Affinities, Rules, Wishes, stretched, terms_about
from .args import known_only

NOT_NEAR = unresolvable("node(s) didn't match pod affinity rules")
TOO_NEAR = unschedulable("node(s) didn't match pod anti-affinity rules")
AVOIDED = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
MAX_HARD_WEIGHT = 100


@dataclass(frozen=True)
class InterPodAffinity:
    """Filter and score on podAffinity and podAntiAffinity, of the pod and of those that are there."""

    hard_weight: int = 1
    ignore_preferred_of_existing: bool = False
    name: str = "InterPodAffinity"
    filter_dirt: Dirt = Dirt.TOPOLOGY
    score_dirt: Dirt = Dirt.ALL

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> InterPodAffinity:
        """Read hardPodAffinityWeight and ignorePreferredTermsOfExistingPods. Raises InputError with the path."""
        known_only(args, ("hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"), path)
        where = f"{path}.hardPodAffinityWeight"
        weight = integer(args, "hardPodAffinityWeight", where, 1)
        if not 0 <= weight <= MAX_HARD_WEIGHT:
            raise InputError(f"{where}: expected 0 to {MAX_HARD_WEIGHT}, got {weight}", field=where)
        ignore = "ignorePreferredTermsOfExistingPods"
        return cls(weight, boolean(args, ignore, f"{path}.{ignore}"))

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod that requires nothing and that nobody avoids."""
        affinity = cycle.request.pod.affinity
        if affinity.required or affinity.required_anti:
            return ALL_NODES
        return ALL_NODES if terms_about(cycle, REQUIRED_ANTI) and Rules(cycle).avoided().any() else NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return pods elsewhere where this one speaks of others, or others of it, which is for their terms to say."""
        spoken_of = any(terms_about(cycle, kind) for kind in (REQUIRED, REQUIRED_ANTI, PREFERRED, PREFERRED_ANTI))
        return PODS_AND_TERMS if cycle.request.pod.affinity or spoken_of else TERMS_TOO

    def follow(self, cycle: Cycle) -> Affinities | None:
        """Return what the terms say from now on, whatever pods come and go."""
        rules, wishes = Rules(cycle), self._wishes(cycle)
        return Affinities(rules, wishes) if rules or wishes else None

    def _wishes(self, cycle: Cycle) -> Wishes:
        return Wishes(cycle, self.hard_weight, self.ignore_preferred_of_existing)

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return who the pod is and what it requires."""
        pod = cycle.request.pod
        return (pod.namespace, pod.labels, pod.affinity.required, pod.affinity.required_anti)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows that are not near enough, too near, or avoided by a pod that is there. The first decides."""
        codes: IntColumn = Rules(cycle).codes()[rows]
        return Verdict(codes, (SUCCESS, NOT_NEAR, TOO_NEAR, AVOIDED))

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip where no wish meets a pod that is there."""
        affinity = cycle.request.pod.affinity
        if not (affinity.preferred or affinity.preferred_anti or cycle.snapshot.pod_terms):
            return SKIPPED
        wishes = self._wishes(cycle)
        if not wishes.meet():
            return SKIPPED
        cycle.data["InterPodAffinity/wishes"] = wishes
        return SUCCESS

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return nothing: scores depend on pods everywhere, and are never kept."""
        return None

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Return the wishes of the row's domains: more is better, and less than nothing is worse than nothing."""
        scores: IntColumn = cycle.data["InterPodAffinity/wishes"].raw(rows)
        return scores

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Stretch from 0 to 100."""
        return stretched(scores)
