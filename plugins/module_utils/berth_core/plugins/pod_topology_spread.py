# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodTopologySpread: keep an app's pods spread over zones, hosts or other domains, as a must or as a wish.

Pods are counted per domain over all nodes, not only those that passed other filters; a constraint's policies say
which nodes count.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..cluster.columns import IntColumn
from ..errors import InputError
from ..framework.contract import (
    ALL_NODES,
    NOTHING_TO_FILTER,
    PODS_AND_WORKLOADS,
    PODS_TOO,
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
from ..model.pod import SpreadConstraint, parse_spread
from .args import known_only
from .spread_rules import HOSTNAME, Musts, Spread, Wishes

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
        """Return pods elsewhere where there are constraints; that may be for services and controllers to say."""
        if self._constraints(cycle, hard=True) or self._constraints(cycle, hard=False):
            return PODS_AND_WORKLOADS if self.defaults else PODS_TOO
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
        codes: IntColumn = Musts(cycle, self._constraints(cycle, hard=True)).codes()[rows]
        return Verdict(codes, (SUCCESS, TOO_SKEWED, NO_LABEL))

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out for a missing label; a skew is lifted by other pods, not by this node."""
        nodes = cycle.snapshot.nodes
        have = dict(nodes.infos[row].labels)
        missing = [one.topology_key for one in self._constraints(cycle, hard=True) if one.topology_key not in have]
        return f"label {', '.join(missing)} on {{node}}" if missing else ""

    def _wishes(self, cycle: Cycle) -> Wishes | None:
        constraints = self._constraints(cycle, hard=False)
        needed = constraints if cycle.request.pod.spread or not self.system else ()
        return Wishes(cycle, constraints, needed) if constraints else None

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip a pod without soft constraints; else find what each weighs, by the domains of the rows that passed."""
        wishes = self._wishes(cycle)
        if wishes is None:
            return SKIPPED
        cycle.data["PodTopologySpread/wishes"] = (wishes, wishes.weights(rows))
        return SUCCESS

    def follow(self, cycle: Cycle) -> Spread | None:
        """Return what the constraints say from now on, whatever pods come and go."""
        hard, wishes = self._constraints(cycle, hard=True), self._wishes(cycle)
        return Spread(Musts(cycle, hard) if hard else None, wishes) if hard or wishes else None

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return nothing: scores depend on which rows passed, and are never kept."""
        return None

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Add up, per constraint, the pods of the row's domain times a weight that grows with the number of domains."""
        wishes, weights = cycle.data["PodTopologySpread/wishes"]
        scores: IntColumn = wishes.raw(weights, rows)
        return scores

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Give the emptiest domains 100; rows without the labels 0."""
        scaled: IntColumn = cycle.data["PodTopologySpread/wishes"][0].normalized(rows, scores)
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
