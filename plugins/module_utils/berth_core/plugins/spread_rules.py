# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodTopologySpread's verdicts and scores for one kind of pod: what node objects say is found once, pods are counted
per domain as they come and go (cluster/counts.py).

Made by PodTopologySpread, which says what they mean; good until a node object changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..cluster.columns import BoolColumn, FloatColumn, IntColumn, bools, every_row, ints, np
from ..cluster.counts import Counts, DomainSums
from ..cluster.labels import ABSENT
from ..cluster.snapshot import Snapshot
from ..framework.contract import MAX_SCORE
from ..framework.state import Cycle
from ..model.pod import PodInfo, SpreadConstraint
from .resource_scores import round_half_away
from .rows import affinity_matches, pods_match, untolerated_rows

HOSTNAME = "kubernetes.io/hostname"
FITS, SKEWED, UNLABELLED = 0, 1, 2
Constraints = tuple[SpreadConstraint, ...]


def _has_all_labels(snapshot: Snapshot, constraints: Constraints) -> BoolColumn:
    found = bools(len(snapshot.nodes), True)
    for one in constraints:
        found &= snapshot.labels.ids(one.topology_key) != ABSENT
    return found


def _included(snapshot: Snapshot, pod: PodInfo, constraint: SpreadConstraint) -> BoolColumn:
    """Return the nodes whose pods count, by the constraint's nodeAffinityPolicy and nodeTaintsPolicy."""
    every = every_row(len(snapshot.nodes))
    found = bools(len(every), True)
    if constraint.honor_affinity:
        found &= affinity_matches(snapshot, pod, every)
    if constraint.honor_taints:
        found &= ~untolerated_rows(snapshot, pod.tolerations, every)
    return found


def _complete(cycle: Cycle, constraints: Constraints) -> BoolColumn:
    """Return the nodes that have the labels of all of these constraints."""
    keys = tuple([one.topology_key for one in constraints])
    return cycle.of_nodes(("PodTopologySpread/complete", keys), lambda: _has_all_labels(cycle.snapshot, constraints))


class Domains:
    """Which nodes count for a constraint, and which domains have such a node: made of node objects alone.

    `counted`: of each row its domain, the number of domains where its pods do not count.
    """

    def __init__(self, snapshot: Snapshot, constraint: SpreadConstraint, included: BoolColumn) -> None:
        labels = snapshot.labels
        ids, self.size = labels.domains(constraint.topology_key), labels.size(constraint.topology_key)
        self.counted: IntColumn = np.where(included, ids, self.size)
        present = bools(self.size + 1)
        present[self.counted] = True
        present[-1] = False
        self.present: IntColumn = present.nonzero()[0]
        """The domains."""


def _sums(cycle: Cycle, one: SpreadConstraint, constraints: Constraints) -> tuple[Domains, Counts, DomainSums]:
    """Return the domains of one of a pod's constraints, where nodes count that have the labels of all `constraints`,
    and the matching pods: per node, and per domain."""
    pod, keys = cycle.request.pod, tuple([other.topology_key for other in constraints])
    honoured = (
        (pod.node_selector, pod.required_affinity) if one.honor_affinity else None,
        pod.tolerations if one.honor_taints else None,
    )
    key = ("PodTopologySpread/domains", one.topology_key, keys, honoured)
    domains = cycle.of_nodes(
        key, lambda: Domains(cycle.snapshot, one, _complete(cycle, constraints) & _included(cycle.snapshot, pod, one))
    )
    pods = pods_match(cycle.snapshot, pod.namespace, one.selector)
    return domains, pods, pods.by(key, lambda: (domains.counted, domains.size))


class _Must:
    """One hard constraint."""

    def __init__(self, cycle: Cycle, one: SpreadConstraint, constraints: Constraints) -> None:
        domains, self.pods, self.sums = _sums(cycle, one, constraints)
        self._ids = cycle.snapshot.labels.domains(one.topology_key)
        self._present = domains.present
        self._enough = len(domains.present) >= max(one.min_domains, 1)
        itself = one.selector is not None and one.selector.matches(dict(cycle.request.pod.labels))
        self._most = one.max_skew - (1 if itself else 0)

    def codes(self) -> IntColumn:
        """Return per row what is said of it."""
        sums = self.sums.sums
        lowest = int(sums[self._present].min()) if self._enough else 0
        verdicts: IntColumn = (sums > self._most + lowest).astype(np.int64)
        verdicts[-1] = UNLABELLED
        return verdicts[self._ids]


class Musts:
    """All hard constraints of a pod."""

    def __init__(self, cycle: Cycle, constraints: Constraints) -> None:
        self._all = [_Must(cycle, one, constraints) for one in constraints]
        self._nodes = len(cycle.snapshot.nodes)
        self._versions: list[int] | None = None
        self._codes, self._passes = ints(0), bools(0)

    @property
    def alive(self) -> bool:
        """Tell whether the counts are still kept up to date."""
        return all(one.pods.alive for one in self._all)

    def _refresh(self) -> None:
        versions = [one.sums.version for one in self._all]
        if versions != self._versions:
            self._codes = self._all[0].codes() if self._all else ints(self._nodes)
            for one in self._all[1:]:  # the first that says something decides
                self._codes = np.where(self._codes == FITS, one.codes(), self._codes)
            self._passes = self._codes == FITS
            self._versions = versions

    def codes(self) -> IntColumn:
        """Return per row what the first constraint that does not hold says of it."""
        self._refresh()
        return self._codes

    def passes(self) -> BoolColumn:
        """Return the rows on which all hold."""
        self._refresh()
        return self._passes


class _Wish:
    """One soft constraint."""

    def __init__(self, cycle: Cycle, one: SpreadConstraint, needed: Constraints) -> None:
        snapshot, self._key = cycle.snapshot, one.topology_key
        self._labels, self._ids = snapshot.labels, snapshot.labels.domains(one.topology_key)
        self._nowhere = snapshot.labels.size(one.topology_key)
        self._more = float(one.max_skew - 1)
        # A host is its own domain: counted by itself, whatever the policies say, as kube-scheduler does.
        self._by_host = one.topology_key == HOSTNAME
        if self._by_host:
            self.pods = pods_match(snapshot, cycle.request.pod.namespace, one.selector)
            self._without = self._ids == self._nowhere
            self._gaps = bool(self._without.any())
        else:
            _domains, self.pods, self._sums = _sums(cycle, one, needed)

    def weight(self, scored: IntColumn) -> float:
        """Return how much a pod of a row's domain counts: the more domains the rows to be scored have, the more."""
        return math.log((len(scored) if self._by_host else self._size(scored)) + 2)

    def _size(self, scored: IntColumn) -> int:
        """Return the number of different domains, where a missing label is the same domain as the empty value."""
        there = bools(self._nowhere + 1)
        there[self._ids[scored]] = True
        empty = self._labels.find(self._key, "")
        return int(np.count_nonzero(there)) - (1 if empty != ABSENT and there[empty] and there[-1] else 0)

    def values(self, weight: float, rows: IntColumn | slice) -> FloatColumn:
        """Return pods of the row's domain * weight + (maxSkew - 1); 0 for a row without the label."""
        found: FloatColumn
        if self._by_host:
            found = self.pods.column[rows].astype(np.float64) * weight + self._more
            if self._gaps:
                found[self._without[rows]] = 0.0
            return found
        table = self._sums.sums.astype(np.float64) * weight + self._more
        table[-1] = 0.0
        found = table[self._ids[rows]]
        return found


class Wishes:
    """All soft constraints of a pod. `needed`: those whose labels a node must have to be scored."""

    def __init__(self, cycle: Cycle, constraints: Constraints, needed: Constraints) -> None:
        self._all = [_Wish(cycle, one, needed) for one in constraints]
        complete = _complete(cycle, needed)
        self._complete = None if complete.all() else complete
        self._nodes = len(complete)

    @property
    def alive(self) -> bool:
        """Tell whether the counts are still kept up to date."""
        return all(one.pods.alive for one in self._all)

    def weights(self, rows: IntColumn) -> list[float]:
        """Return the weights of all constraints, where these rows have passed the filters."""
        scored = rows if self._complete is None else rows[self._complete[rows]]
        return [one.weight(scored) for one in self._all]

    def raw(self, weights: Sequence[float], rows: IntColumn) -> IntColumn:
        """Add up, per constraint, the pods of the row's domain times its weight."""
        at: IntColumn | slice = slice(None) if len(rows) == self._nodes else rows
        total = self._all[0].values(weights[0], at)
        for one, weight in zip(self._all[1:], weights[1:]):
            total = total + one.values(weight, at)
        scores = round_half_away(total)
        if self._complete is None:
            return scores
        known: IntColumn = np.where(self._complete[rows], scores, 0)
        return known

    def normalized(self, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Give the emptiest domains 100; rows without the labels 0."""
        counted = scores if self._complete is None else scores[self._complete[rows]]
        if not len(counted):
            return ints(len(rows))
        highest, lowest = int(counted.max()), int(counted.min())
        scaled: IntColumn
        if highest == 0:
            scaled = ints(len(rows), MAX_SCORE)
        else:
            scaled = MAX_SCORE * (highest + lowest - scores) // highest
        return scaled if self._complete is None else np.where(self._complete[rows], scaled, 0)


class Spread:
    """What a pod's constraints say, as pods come and go: see framework/contract.py, Followed."""

    def __init__(self, musts: Musts | None, wishes: Wishes | None) -> None:
        self._musts, self._wishes = musts, wishes

    @property
    def alive(self) -> bool:
        """Tell whether the counts are still kept up to date."""
        return all(one is None or one.alive for one in (self._musts, self._wishes))

    def passes(self) -> BoolColumn | None:
        """Return the rows on which all hard constraints hold; None where there are none."""
        return None if self._musts is None else self._musts.passes()

    def score(self, rows: IntColumn) -> IntColumn | None:
        """Return the final scores of the rows that passed; None where there is nothing to score."""
        if self._wishes is None:
            return None
        return self._wishes.normalized(rows, self._wishes.raw(self._wishes.weights(rows), rows))
