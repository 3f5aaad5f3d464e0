# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodTopologySpread: keep an app's pods spread over zones, hosts or other domains, as a must or as a wish.

Pods are counted per domain over all nodes, not only those that passed other filters; a constraint's policies say
which nodes count.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..cluster.columns import BoolColumn, FloatColumn, IntColumn, bools, every_row, ints, np
from ..cluster.labels import ABSENT
from ..cluster.snapshot import Snapshot
from ..errors import InputError
from ..framework.contract import (
    ALL_NODES,
    MAX_SCORE,
    MUCH_MORE,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    SKIPPED,
    SUCCESS,
    WORKLOADS_TOO,
    Dirt,
    Narrowing,
    Source,
    Status,
    Verdict,
    unresolvable,
    unschedulable,
)
from ..framework.state import Cycle
from ..model.fields import objects, string
from ..model.labels import is_label_key
from ..model.pod import PodInfo, SpreadConstraint, parse_spread
from .args import known_only
from .resource_scores import round_half_away
from .rows import affinity_matches, pods_match, untolerated_rows

HOSTNAME = "kubernetes.io/hostname"
TOO_SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
SYSTEM_DEFAULTS = (
    SpreadConstraint(3, HOSTNAME, hard=False, selector=None),
    SpreadConstraint(5, "topology.kubernetes.io/zone", hard=False, selector=None),
)


@dataclass(frozen=True)
class PodTopologySpread:
    """Filter and score on topologySpreadConstraints.

    `defaults` apply to pods without constraints of their own, with the selector that the request brings along for it,
    else with that of the pod's services and controller.
    They are empty unless the profile asks for them, other than kube-scheduler's: who places a replica says how it is
    to be spread.
    """

    defaults: tuple[SpreadConstraint, ...] = ()
    system: bool = False
    name: str = "PodTopologySpread"
    filter_dirt: Dirt = Dirt.TOPOLOGY
    score_dirt: Dirt = Dirt.ALL

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> PodTopologySpread:
        """Read defaultConstraints and defaultingType (List or System). Raises InputError with the path."""
        known_only(args, ("defaultConstraints", "defaultingType"), path)
        kind = string(args, "defaultingType", f"{path}.defaultingType", "List")
        listed = objects(args, "defaultConstraints", f"{path}.defaultConstraints")
        if kind not in ("List", "System") or (kind == "System" and listed):
            raise InputError(
                f"{path}.defaultingType: expected List, or System without defaultConstraints; got {kind!r}",
                field=f"{path}.defaultingType",
            )
        if kind == "System":
            return cls(SYSTEM_DEFAULTS, system=True)
        for index in range(len(listed)):
            _check_default(listed, index, f"{path}.defaultConstraints[{index}]")
        return cls(tuple(parse_spread(one, f"{path}.defaultConstraints[{i}]", {}) for i, one in enumerate(listed)))

    def _constraints(self, cycle: Cycle, hard: bool) -> tuple[SpreadConstraint, ...]:
        own, request = cycle.request.pod.spread, cycle.request
        if own:
            return tuple(one for one in own if one.hard == hard)
        if not self.defaults:
            return ()
        selector = request.default_spread or cycle.once(
            "PodTopologySpread/selector", lambda: cycle.snapshot.workloads.selector_of(request.pod)
        )
        if selector is None or not selector.requirements:
            return ()
        return tuple(replace(one, selector=selector) for one in self.defaults if one.hard == hard)

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod without hard constraints."""
        return ALL_NODES if self._constraints(cycle, hard=True) else NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return all pods where there are constraints; whether there are may be for services and controllers to say."""
        if self._constraints(cycle, hard=True) or self._constraints(cycle, hard=False):
            return MUCH_MORE
        return WORKLOADS_TOO if self.defaults else ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the constraints and what decides which nodes and pods count."""
        pod = cycle.request.pod
        constraints = self._constraints(cycle, hard=True)
        return (pod.namespace, pod.labels, constraints, pod.node_selector, pod.required_affinity, pod.tolerations)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows without a topology label, and rows on which the pod would skew a domain too far.

        The first such decides.
        """
        constraints, labels = self._constraints(cycle, hard=True), dict(cycle.request.pod.labels)
        codes = ints(len(rows))
        for one in constraints:
            domains = _domains(cycle, one, constraints)
            counts = domains.counts(cycle, one)
            lowest = int(counts[domains.present].min()) if len(domains.present) >= max(one.min_domains, 1) else 0
            itself = 1 if one.selector is not None and one.selector.matches(labels) else 0
            skewed = (counts + (itself - lowest) > one.max_skew).astype(np.int64)
            skewed[-1] = 2
            found = skewed[cycle.snapshot.labels.domains(one.topology_key)[rows]]
            codes = np.where(codes == 0, found, codes)
        return Verdict(codes, (SUCCESS, TOO_SKEWED, NO_LABEL))

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out for a missing label; a skew is lifted by other pods, not by this node."""
        nodes = cycle.snapshot.nodes
        have = dict(nodes.infos[row].labels)
        missing = [one.topology_key for one in self._constraints(cycle, hard=True) if one.topology_key not in have]
        return f"label {', '.join(missing)} on {{node}}" if missing else ""

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip a pod without soft constraints; else count pods per domain of the rows that passed."""
        constraints = self._constraints(cycle, hard=False)
        if not constraints:
            return SKIPPED
        needed = constraints if cycle.request.pod.spread or not self.system else ()
        complete = _complete(cycle, needed)
        cycle.data["PodTopologySpread/complete"] = complete
        scored = rows[complete[rows]]
        cycle.data["PodTopologySpread/terms"] = [_score_term(cycle, one, scored, needed) for one in constraints]
        return SUCCESS

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return nothing: scores depend on which rows passed, and are never kept."""
        return None

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Add up, per constraint, the pods of the row's domain times a weight that grows with the number of domains."""
        total = np.zeros(len(cycle.snapshot.nodes))
        for term in cycle.data["PodTopologySpread/terms"]:
            total = total + term
        scores: IntColumn = np.where(cycle.data["PodTopologySpread/complete"], round_half_away(total), 0)[rows]
        return scores

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Give the emptiest domains 100; rows without the labels 0."""
        complete: BoolColumn = cycle.data["PodTopologySpread/complete"][rows]
        counted = scores[complete]
        if not len(counted):
            return ints(len(rows))
        highest, lowest = int(counted.max()), int(counted.min())
        if highest == 0:
            return np.where(complete, MAX_SCORE, 0).astype(np.int64)
        scaled: IntColumn = np.where(complete, MAX_SCORE * (highest + lowest - scores) // highest, 0)
        return scaled


def _check_default(listed: list[Mapping[str, Any]], index: int, path: str) -> None:
    one = listed[index]
    key, action = one.get("topologyKey"), one.get("whenUnsatisfiable")
    if one.get("labelSelector") is not None:
        raise InputError(
            f"{path}.labelSelector: a default constraint takes the selector of the workload, not one of its own",
            field=f"{path}.labelSelector",
        )
    if not isinstance(key, str) or not is_label_key(key):
        raise InputError(f"{path}.topologyKey: expected the key of a node label, got {key!r}", field=path)
    if action is None:
        raise InputError(f"{path}.whenUnsatisfiable: expected DoNotSchedule or ScheduleAnyway", field=path)
    if any((other.get("topologyKey"), other.get("whenUnsatisfiable")) == (key, action) for other in listed[:index]):
        raise InputError(f"{path}: expected one constraint for {key} and {action}, got two", field=path)


def _has_all_labels(snapshot: Snapshot, constraints: tuple[SpreadConstraint, ...]) -> BoolColumn:
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


def _complete(cycle: Cycle, constraints: tuple[SpreadConstraint, ...]) -> BoolColumn:
    """Return the nodes that have the labels of all of these constraints."""
    keys = tuple([one.topology_key for one in constraints])
    return cycle.of_nodes(("PodTopologySpread/complete", keys), lambda: _has_all_labels(cycle.snapshot, constraints))


class Domains:
    """Which nodes count for a constraint, and which domains have such a node: made of node objects alone."""

    def __init__(self, snapshot: Snapshot, constraint: SpreadConstraint, counted: BoolColumn) -> None:
        labels = snapshot.labels
        self._key = constraint.topology_key
        ids, size = labels.domains(self._key), labels.size(self._key)
        counted = counted & (ids < size)
        self._left_out = None if counted.all() else ~counted
        present = bools(size)
        present[ids[counted]] = True
        self.present: IntColumn = present.nonzero()[0]
        """The domains."""

    def counts(self, cycle: Cycle, constraint: SpreadConstraint) -> IntColumn:
        """Return per domain the number of matching pods on the counted nodes; the last entry, 0, is for no domain."""
        pods = pods_match(cycle.snapshot, cycle.request.pod.namespace, constraint.selector)
        if self._left_out is not None:
            pods = np.where(self._left_out, 0, pods)
        return cycle.snapshot.labels.sums(self._key, pods)


def _domains(cycle: Cycle, one: SpreadConstraint, constraints: tuple[SpreadConstraint, ...]) -> Domains:
    """Return the domains of one of a pod's constraints: nodes count that have the labels of all `constraints`."""
    pod = cycle.request.pod
    keys = tuple([other.topology_key for other in constraints])
    honoured = (
        (pod.node_selector, pod.required_affinity) if one.honor_affinity else None,
        pod.tolerations if one.honor_taints else None,
    )
    return cycle.of_nodes(
        ("PodTopologySpread/domains", one.topology_key, keys, honoured),
        lambda: Domains(cycle.snapshot, one, _complete(cycle, constraints) & _included(cycle.snapshot, pod, one)),
    )


def _score_term(
    cycle: Cycle, constraint: SpreadConstraint, scored: IntColumn, needed: tuple[SpreadConstraint, ...]
) -> FloatColumn:
    """Return per node: pods of its domain * ln(domains + 2) + (maxSkew - 1); 0 for a node without the label."""
    snapshot, key = cycle.snapshot, constraint.topology_key
    ids = snapshot.labels.domains(key)
    nowhere = snapshot.labels.size(key)
    if key == HOSTNAME:
        # A host is its own domain: counted by itself, whatever the policies say, as kube-scheduler does.
        pods, size = pods_match(snapshot, cycle.request.pod.namespace, constraint.selector), len(scored)
    else:
        size = _size(snapshot, key, ids[scored])
        pods = _domains(cycle, constraint, needed).counts(cycle, constraint)[ids]
    found: FloatColumn = pods.astype(np.float64) * math.log(size + 2) + float(constraint.max_skew - 1)
    found[ids == nowhere] = 0.0
    return found


def _size(snapshot: Snapshot, key: str, ids: IntColumn) -> int:
    """Return the number of different domains, where a missing label is the same domain as the empty value."""
    there = bools(snapshot.labels.size(key) + 1)
    there[ids] = True
    empty = snapshot.labels.find(key, "")
    return int(there.sum()) - (1 if empty != ABSENT and there[empty] and there[-1] else 0)
