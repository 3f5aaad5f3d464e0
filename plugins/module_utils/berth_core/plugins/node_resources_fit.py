# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeResourcesFit: what a pod requests must be free on the node; and nodes are rated by how full they would be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from ..cluster.columns import IntColumn, at_rows, ints, np
from ..cluster.nodes import NodeTable
from ..errors import InputError
from ..framework.contract import ROWS_ALONE, SUCCESS, Code, Dirt, Source, Status, Verdict
from ..framework.state import Cycle
from ..model.fields import integer, mapping, objects, string, strings
from ..model.labels import is_label_key
from ..model.pod import PodInfo
from ..model.quantity import format_bytes, format_cpu
from ..model.requests import CPU, EPHEMERAL, MEMORY, PODS, is_extended, is_scalar
from .args import known_only, weighted_resources
from .one_row import fits, least_allocated_of_one
from .resource_scores import least_allocated, load, most_allocated, requested_to_capacity

STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


@dataclass(frozen=True)
class NodeResourcesFit:
    """Filter and score on requests.

    `shape`: points (utilization 0 to 100, score 0 to 100) of RequestedToCapacityRatio.
    """

    strategy: str = "LeastAllocated"
    resources: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))
    shape: tuple[tuple[int, int], ...] = ()
    ignored: tuple[str, ...] = ()
    ignored_groups: tuple[str, ...] = ()
    name: str = "NodeResourcesFit"
    filter_dirt: Dirt = Dirt.ROW
    score_dirt: Dirt = Dirt.ROW

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> NodeResourcesFit:
        """Read ignoredResources, ignoredResourceGroups and scoringStrategy. Raises InputError with the path."""
        known_only(args, ("ignoredResources", "ignoredResourceGroups", "scoringStrategy"), path)
        source, where = mapping(args, "scoringStrategy", f"{path}.scoringStrategy"), f"{path}.scoringStrategy"
        known_only(source, ("type", "resources", "requestedToCapacityRatio"), where)
        strategy = string(source, "type", f"{where}.type", "LeastAllocated")
        if strategy not in STRATEGIES:
            raise InputError(
                f"{where}.type: expected one of {', '.join(STRATEGIES)}, got {strategy!r}", field=f"{where}.type"
            )
        if strategy != STRATEGIES[2] and source.get("requestedToCapacityRatio") is not None:
            raise InputError(
                f"{where}.requestedToCapacityRatio: expected only with type {STRATEGIES[2]}, got it with {strategy}",
                field=f"{where}.requestedToCapacityRatio",
            )
        return cls(
            strategy=strategy,
            resources=weighted_resources(source, where),
            shape=_shape(source, where) if strategy == STRATEGIES[2] else (),
            ignored=_names(args, "ignoredResources", path),
            ignored_groups=_names(args, "ignoredResourceGroups", path, group=True),
        )

    def _wanted(self, pod: PodInfo) -> list[tuple[str, int]]:
        """Return what must be free, in the order in which it is reported.

        Ignored extended resources are not looked at.
        """
        requests = dict(pod.requests)
        basic = [(name, requests[name]) for name in (CPU, MEMORY, EPHEMERAL) if requests.get(name, 0) > 0]
        return basic + [
            (name, value)
            for name, value in pod.requests
            if is_scalar(name) and value != 0 and not (is_extended(name) and self._ignores(name))
        ]

    def _ignores(self, name: str) -> bool:
        return name in self.ignored or name.split("/", 1)[0] in self.ignored_groups

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the requests."""
        return cycle.request.pod.requests

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows where something is short; all that is short is named."""
        nodes, wanted = cycle.snapshot.nodes, self._wanted(cycle.request.pod)
        if len(rows) == 1 and fits(nodes, wanted)(rows.item()):
            return Verdict(ints(1), (SUCCESS,))
        at: IntColumn | slice = at_rows(rows, len(nodes))
        short = nodes.requested[PODS][at] >= nodes.allocatable[PODS][at]
        for name, value in wanted:
            short |= nodes.column(nodes.requested, name)[at] > nodes.column(nodes.allocatable, name)[at] - value
        codes, out = ints(len(rows)), short.nonzero()[0]
        if not len(out):
            return Verdict(codes, (SUCCESS,))
        kinds, inverse = np.unique(_lacking(nodes, wanted, rows[out]), return_inverse=True)
        codes[out] = inverse + 1
        return Verdict(codes, (SUCCESS, *(_status(int(kind), wanted) for kind in kinds)))

    def row_filter(self, cycle: Cycle) -> Callable[[int], bool]:
        """Return what judges one row."""
        return fits(cycle.snapshot.nodes, self._wanted(cycle.request.pod))

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out: what must be freed, or how large the node would have to be."""
        nodes, free, larger = cycle.snapshot.nodes, [], []
        if nodes.requested[PODS][row] + 1 > nodes.allocatable[PODS][row]:
            free.append("room for 1 pod")
        for name, value in self._wanted(cycle.request.pod):
            allocatable = int(nodes.column(nodes.allocatable, name)[row])
            short = value - (allocatable - int(nodes.column(nodes.requested, name)[row]))
            if value > allocatable:
                larger.append(_amount(name, value))
            elif short > 0:
                free.append(_amount(name, short))
        phrases = [f"free {' and '.join(free)} on {{node}}"] if free else []
        phrases += [f"at least {' and '.join(larger)} allocatable on {{node}}"] if larger else []
        return " and ".join(phrases)

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return the requests as they are scored."""
        return cycle.request.pod.score_requests

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate by the strategy."""
        rate = self.row_score(cycle) if len(rows) == 1 else None
        if rate is not None:
            return ints(1, rate(rows.item()))
        requests = dict(cycle.request.pod.score_requests)
        loads = [
            load(cycle.snapshot, name, requests.get(name, 0), rows, nonzero=True) for name, _weight in self.resources
        ]
        if self.strategy == "LeastAllocated":
            return least_allocated(loads, self.resources, len(rows))
        if self.strategy == "MostAllocated":
            return most_allocated(loads, self.resources, len(rows))
        return requested_to_capacity(loads, self.resources, self.shape, len(rows)) if loads else ints(len(rows))

    def row_score(self, cycle: Cycle) -> Callable[[int], int] | None:
        """Return what rates one row."""
        if self.strategy != "LeastAllocated":
            return None
        return least_allocated_of_one(cycle.snapshot.nodes, dict(cycle.request.pod.score_requests), self.resources)


def _lacking(nodes: NodeTable, wanted: list[tuple[str, int]], rows: IntColumn) -> IntColumn:
    """Return what is short as bits, two per resource: short now, and short even on the empty node."""
    lacking: IntColumn = (nodes.requested[PODS][rows] >= nodes.allocatable[PODS][rows]).astype(np.int64)
    for bit, (name, value) in enumerate(wanted, 1):
        allocatable = nodes.column(nodes.allocatable, name)[rows]
        lacking |= np.where(value > allocatable - nodes.column(nodes.requested, name)[rows], 1 << 2 * bit, 0)
        lacking |= np.where(value > allocatable, 2 << 2 * bit, 0)
    return lacking


def _status(kind: int, wanted: list[tuple[str, int]]) -> Status:
    if kind == 0:
        return SUCCESS
    reasons = ["Too many pods"] if kind & 1 else []
    reasons += [f"Insufficient {name}" for bit, (name, _value) in enumerate(wanted, 1) if kind >> 2 * bit & 1]
    beyond = any(kind >> 2 * bit & 2 for bit in range(1, len(wanted) + 1))
    return Status(Code.UNRESOLVABLE if beyond else Code.UNSCHEDULABLE, tuple(reasons))


def _amount(name: str, value: int) -> str:
    if name == CPU:
        return f"{format_cpu(value)} cpu"
    return f"{format_bytes(value)} {name}" if name in (MEMORY, EPHEMERAL) else f"{value} {name}"


def _names(args: Mapping[str, Any], key: str, path: str, group: bool = False) -> tuple[str, ...]:
    """Read names of resources, or of their groups: what stands before the slash."""
    found = strings(args, key, f"{path}.{key}")
    for index, name in enumerate(found):
        if not is_label_key(name) or (group and "/" in name):
            what = "the domain of resources, without a slash" if group else "the name of a resource"
            raise InputError(f"{path}.{key}[{index}]: expected {what}, got {name!r}", field=f"{path}.{key}[{index}]")
    return found


def _shape(source: Mapping[str, Any], path: str) -> tuple[tuple[int, int], ...]:
    """Read the points; scores 0 to 10 of the configuration become 0 to 100."""
    where = f"{path}.requestedToCapacityRatio.shape"
    ratio = mapping(source, "requestedToCapacityRatio", f"{path}.requestedToCapacityRatio")
    points = tuple(
        (integer(one, "utilization", f"{where}.utilization"), integer(one, "score", f"{where}.score") * 10)
        for one in objects(ratio, "shape", where)
    )
    rising = all(left < right for (left, _low), (right, _high) in zip(points, points[1:]))
    if not points or not rising or any(not 0 <= x <= 100 or not 0 <= y <= 100 for x, y in points):
        raise InputError(
            f"{where}: expected at least one point, with utilization (0 to 100) strictly rising and score from 0 to 10",
            field=where,
        )
    return points
