# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""InterPodAffinity's verdicts and scores for one kind of pod: terms are looked up once, and the pods that they speak of
are counted per domain as they come and go (cluster/counts.py).

Made by InterPodAffinity; good until a node object, the terms of the pods that are there, or a namespace changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..cluster.columns import BoolColumn, IntColumn, bools, ints, np
from ..cluster.counts import Counts, DomainSums
from ..cluster.pod_terms import PREFERRED, PREFERRED_ANTI, REQUIRED, REQUIRED_ANTI, CountedTerm
from ..cluster.snapshot import Snapshot
from ..framework.contract import MAX_SCORE
from ..framework.state import Cycle
from ..model.pod_affinity import PodAffinity, PodMatch, PodTerm

FITS, NOT_NEAR, TOO_NEAR, AVOIDED = 0, 1, 2, 3


class Term(NamedTuple):
    """The pods that a term speaks of: per node, and per domain. `ids`: the domain of each row."""

    pods: Counts
    domains: DomainSums
    ids: IntColumn

    def anywhere(self) -> bool:
        """Tell whether there is such a pod in a domain."""
        return bool(self.domains.sums.any())

    def near(self) -> BoolColumn:
        """Return the rows in whose domain there is such a pod."""
        found: BoolColumn = (self.domains.sums > 0)[self.ids]
        return found


def terms_about(cycle: Cycle, kind: int) -> list[CountedTerm]:
    """Return the terms of a kind that pods on the nodes have, and that speak of this one."""
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


def _term(snapshot: Snapshot, key: str, pods: Counts) -> Term:
    ids, size = snapshot.labels.domains(key), snapshot.labels.size(key)
    return Term(pods, pods.by(key, lambda: (ids, size)), ids)


def _own(snapshot: Snapshot, term: PodTerm) -> Term:
    return _term(snapshot, term.topology_key, snapshot.count_matching((_match(snapshot, term),)))


def _theirs(cycle: Cycle, kind: int) -> list[tuple[Term, int]]:
    """Return the terms of pods on the nodes that speak of this one, with their weights."""
    snapshot = cycle.snapshot
    return [
        (_term(snapshot, one.term.topology_key, snapshot.pod_terms.column(one)), one.weight or 1)
        for one in terms_about(cycle, kind)
    ]


class _Near:
    """What the pod requires to be near: pods that all its terms speak of, in the domain of every term.

    The first of a group that wants to be together has no such pod: if nobody else is meant, and it means itself, any
    node with the labels will do.
    """

    def __init__(self, snapshot: Snapshot, pod_namespace: str, labels: dict[str, str], affinity: PodAffinity) -> None:
        matches = tuple(_match(snapshot, term) for term in affinity.required)
        self.pods = snapshot.count_matching(matches)
        self.terms = [_term(snapshot, term.topology_key, self.pods) for term in affinity.required]
        self._labelled = bools(len(snapshot.nodes), True)
        for term in affinity.required:
            self._labelled &= snapshot.labels.domains(term.topology_key) != snapshot.labels.size(term.topology_key)
        self._means_itself = all(one.accepts(pod_namespace, labels) for one in matches)

    def passes(self) -> BoolColumn:
        """Return the rows that are near enough."""
        if self._means_itself and not any(term.anywhere() for term in self.terms):
            return self._labelled
        near = self._labelled
        for term in self.terms:
            near = near & term.near()
        return near


class Rules:
    """What is required: by the pod, and of it by pods that are there."""

    def __init__(self, cycle: Cycle) -> None:
        pod, snapshot = cycle.request.pod, cycle.snapshot
        self._nodes = len(snapshot.nodes)
        self._avoid = [term for term, _weight in _theirs(cycle, REQUIRED_ANTI)]
        self._apart = [_own(snapshot, term) for term in pod.affinity.required_anti]
        near = _Near(snapshot, pod.namespace, dict(pod.labels), pod.affinity) if pod.affinity.required else None
        self._near = near
        self._terms = [*self._avoid, *self._apart, *(near.terms if near else ())]
        self._versions: list[int] | None = None
        self._codes, self._passes = ints(0), bools(0)

    def __bool__(self) -> bool:
        """Tell whether anything is required."""
        return bool(self._terms)

    @property
    def alive(self) -> bool:
        """Tell whether the counts are still kept up to date."""
        return all(one.pods.alive for one in self._terms)

    def avoided(self) -> BoolColumn:
        """Return the rows in whose domain a pod is that avoids the new one."""
        return _any(self._nodes, self._avoid)

    def codes(self) -> IntColumn:
        """Return per row what is said of it first."""
        codes: IntColumn = ints(self._nodes)
        if self._avoid:
            codes[self.avoided()] = AVOIDED
        if self._apart:
            codes[_any(self._nodes, self._apart)] = TOO_NEAR
        if self._near is not None:
            codes[~self._near.passes()] = NOT_NEAR
        return codes

    def passes(self) -> BoolColumn:
        """Return the rows on which all holds."""
        versions = [one.domains.version for one in self._terms]
        if versions != self._versions:
            clear = np.logical_not(_any(self._nodes, [*self._avoid, *self._apart]))
            self._passes = clear if self._near is None else self._near.passes() & clear
            self._versions = versions
        return self._passes


def _any(nodes: int, terms: Iterable[Term]) -> BoolColumn:
    found: BoolColumn | None = None
    for term in terms:
        near = term.near()
        found = near if found is None else found | near
    return bools(nodes) if found is None else found


class Wishes:
    """What is preferred, by the pod and of it: terms and their weights, less than 0 for what is to be avoided."""

    def __init__(self, cycle: Cycle, hard_weight: int, ignore_theirs: bool) -> None:
        affinity, snapshot = cycle.request.pod.affinity, cycle.snapshot
        self._nodes = len(snapshot.nodes)
        own = [
            (_own(snapshot, one.term), sign * one.weight)
            for sign, weighted in ((1, affinity.preferred), (-1, affinity.preferred_anti))
            for one in weighted
        ]
        # As in kube-scheduler: theirs are left out only for a pod that has no wishes itself.
        kinds = ((hard_weight, REQUIRED), (1, PREFERRED), (-1, PREFERRED_ANTI)) if own or not ignore_theirs else ()
        theirs = [(term, sign * weight) for sign, kind in kinds if sign for term, weight in _theirs(cycle, kind)]
        self._all = own + theirs

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self._all)

    @property
    def alive(self) -> bool:
        """Tell whether the counts are still kept up to date."""
        return all(one.pods.alive for one, _weight in self._all)

    def meet(self) -> bool:
        """Tell whether any speaks of a pod in a domain."""
        return any(term.anywhere() for term, _weight in self._all)

    def raw(self, rows: IntColumn) -> IntColumn:
        """Add up all wishes about the rows' domains."""
        at: IntColumn | slice = slice(None) if len(rows) == self._nodes else rows
        total = ints(len(rows))
        for term, weight in self._all:
            total += (term.domains.sums * weight)[term.ids[at]]
        return total


def stretched(scores: IntColumn) -> IntColumn:
    """Return scores from 0 to 100: more is better, and less than nothing is worse than nothing."""
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return ints(len(scores))
    found: IntColumn = (float(MAX_SCORE) * ((scores - lowest) / float(highest - lowest))).astype(np.int64)
    return found


class Affinities:
    """What affinities say, as pods come and go: see framework/contract.py, Followed."""

    def __init__(self, rules: Rules, wishes: Wishes) -> None:
        self._rules, self._wishes = rules, wishes

    @property
    def alive(self) -> bool:
        """Tell whether the counts are still kept up to date."""
        return self._rules.alive and self._wishes.alive

    def passes(self) -> BoolColumn | None:
        """Return the rows on which all that is required holds; None where nothing is."""
        return self._rules.passes() if self._rules else None

    def score(self, rows: IntColumn) -> IntColumn | None:
        """Return the final scores of the rows that passed; None where nothing is preferred."""
        return stretched(self._wishes.raw(rows)) if self._wishes else None
