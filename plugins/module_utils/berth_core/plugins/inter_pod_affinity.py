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

from ..cluster.columns import BoolColumn, IntColumn, bools, ints, np
from ..cluster.labels import ABSENT
from ..cluster.pod_terms import PREFERRED, PREFERRED_ANTI, REQUIRED, REQUIRED_ANTI, CountedTerm
from ..cluster.snapshot import Snapshot
from ..errors import InputError
from ..framework.contract import (
    ALL_NODES,
    MAX_SCORE,
    MUCH_MORE,
    NOTHING_TO_FILTER,
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
from ..model.pod_affinity import PodMatch, PodTerm
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
        if affinity.required or affinity.required_anti or _avoided(cycle) is not None:
            return ALL_NODES
        return NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return all pods where this one speaks of others, or others of it, which is for their terms to say."""
        spoken_of = any(_terms_about(cycle, kind) for kind in (REQUIRED, REQUIRED_ANTI, PREFERRED, PREFERRED_ANTI))
        return MUCH_MORE if cycle.request.pod.affinity or spoken_of else TERMS_TOO

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return who the pod is and what it requires."""
        pod = cycle.request.pod
        return (pod.namespace, pod.labels, pod.affinity.required, pod.affinity.required_anti)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows that are not near enough, too near, or avoided by a pod that is there. The first decides."""
        affinity = cycle.request.pod.affinity
        codes = ints(len(rows))
        avoided = _avoided(cycle)
        if avoided is not None:
            codes[avoided[rows]] = 3
        if affinity.required_anti:
            codes[_too_near(cycle)[rows]] = 2
        if affinity.required:
            codes[~_near(cycle)[rows]] = 1
        return Verdict(codes, (SUCCESS, NOT_NEAR, TOO_NEAR, AVOIDED))

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Add up all wishes per domain; skip where there are none."""
        affinity, snapshot = cycle.request.pod.affinity, cycle.snapshot
        wishes = bool(affinity.preferred or affinity.preferred_anti)
        if not wishes and (self.ignore_preferred_of_existing or not snapshot.pod_terms):
            return SKIPPED
        total, found = ints(len(snapshot.nodes)), False
        for sign, weighted in ((1, affinity.preferred), (-1, affinity.preferred_anti)):
            for one in weighted:
                counts = snapshot.count_matching((_match(snapshot, one.term),))
                found |= _add_domains(snapshot, one.term, counts, sign * one.weight, total)
        for sign, kind in ((self.hard_weight, REQUIRED), (1, PREFERRED), (-1, PREFERRED_ANTI)):
            for counted in _terms_about(cycle, kind) if sign else ():
                counts = snapshot.pod_terms.column(counted)
                found |= _add_domains(snapshot, counted.term, counts, sign * (counted.weight or 1), total)
        if not found:
            return SKIPPED
        cycle.data["InterPodAffinity/scores"] = total
        return SUCCESS

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return nothing: scores depend on pods everywhere, and are never kept."""
        return None

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Return the wishes of the row's domains: more is better, and less than nothing is worse than nothing."""
        scores: IntColumn = cycle.data["InterPodAffinity/scores"][rows]
        return scores

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Stretch from 0 to 100."""
        lowest, highest = int(scores.min()), int(scores.max())
        if lowest == highest:
            return ints(len(scores))
        stretched: IntColumn = (float(MAX_SCORE) * ((scores - lowest) / float(highest - lowest))).astype(np.int64)
        return stretched


def _terms_about(cycle: Cycle, kind: int) -> list[CountedTerm]:
    pod, snapshot = cycle.request.pod, cycle.snapshot
    if not snapshot.pod_terms.any(kind):
        return []
    return snapshot.pod_terms.about(kind, pod.namespace, dict(pod.labels), snapshot.namespaces.get(pod.namespace, {}))


def _match(snapshot: Snapshot, term: PodTerm) -> PodMatch:
    """Carry out a namespace selector of the pod that is being placed.

    As in kube-scheduler, one that a namespace without any labels would satisfy means every namespace.
    """
    selector = term.namespace_selector
    if selector is None:
        return PodMatch(frozenset(term.namespaces), term.selector)
    if selector.matches({}):
        return PodMatch(None, term.selector)
    selected = {name for name, labels in snapshot.namespaces.items() if selector.matches(labels)}
    return PodMatch(frozenset(selected.union(term.namespaces)), term.selector)


def _domain_sums(snapshot: Snapshot, key: str, counts: IntColumn) -> IntColumn:
    """Return per node the sum over its domain; 0 for a node without the label."""
    sums = snapshot.labels.sums(key, counts)
    sums[-1] = 0
    found: IntColumn = sums[snapshot.labels.domains(key)]
    return found


def _add_domains(snapshot: Snapshot, term: PodTerm, counts: IntColumn, weight: int, total: IntColumn) -> bool:
    """Add weight times the pods of each domain to `total`; tell whether there was any such pod in a domain."""
    sums = _domain_sums(snapshot, term.topology_key, counts)
    total += weight * sums
    return bool(sums.any())


def _avoided(cycle: Cycle) -> BoolColumn | None:
    """Return the nodes in whose domain a pod is that avoids the new one; None where there is no such node."""

    def find() -> BoolColumn | None:
        if not cycle.snapshot.pod_terms.any(REQUIRED_ANTI):
            return None
        found = bools(len(cycle.snapshot.nodes))
        for counted in _terms_about(cycle, REQUIRED_ANTI):
            counts = cycle.snapshot.pod_terms.column(counted)
            found |= _domain_sums(cycle.snapshot, counted.term.topology_key, counts) > 0
        return found if found.any() else None

    return cycle.once("InterPodAffinity/avoided", find)


def _too_near(cycle: Cycle) -> BoolColumn:
    """Return the nodes in whose domain a pod is that the new one avoids."""
    snapshot, found = cycle.snapshot, bools(len(cycle.snapshot.nodes))
    for term in cycle.request.pod.affinity.required_anti:
        counts = snapshot.count_matching((_match(snapshot, term),))
        found |= _domain_sums(snapshot, term.topology_key, counts) > 0
    return found


def _near(cycle: Cycle) -> BoolColumn:
    """Return the nodes with a pod, in the domain of every term, that all terms speak of.

    The first of a group that wants to be together has no such pod: if nobody else is meant, and it means itself, any
    node with the labels will do.
    """
    snapshot, pod = cycle.snapshot, cycle.request.pod
    matches = tuple(_match(snapshot, term) for term in pod.affinity.required)
    counts = snapshot.count_matching(matches)
    labelled, near, nobody = bools(len(snapshot.nodes), True), bools(len(snapshot.nodes), True), True
    for term in pod.affinity.required:
        sums = _domain_sums(snapshot, term.topology_key, counts)
        labelled &= snapshot.labels.ids(term.topology_key) != ABSENT
        near &= sums > 0
        nobody = nobody and not bool(sums.any())
    if nobody and all(one.accepts(pod.namespace, dict(pod.labels)) for one in matches):
        return labelled
    return near & labelled
