# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests against one row, in whole numbers: what a pod like the one before is asked about. numpy is slow with one.

Called by NodeResourcesFit and NodeResourcesBalancedAllocation, which ask resource_scores.py about all else; the
formulas are its own, and tests hold both to the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..cluster.columns import IntColumn, ints
from ..cluster.nodes import NodeTable
from ..framework.contract import MAX_SCORE
from ..model.requests import CPU, EPHEMERAL, MEMORY, PODS


class LoadOfOne(NamedTuple):
    """A resource that every node has, on one of them: before and after the pod, and what is allocatable."""

    before: int
    after: int
    allocatable: int


def fits(nodes: NodeTable, wanted: Sequence[tuple[str, int]], row: int) -> bool:
    """Tell whether the pod and all that it wants have room."""
    if nodes.requested[PODS].item(row) >= nodes.allocatable[PODS].item(row):
        return False
    for name, value in wanted:
        free = nodes.column(nodes.allocatable, name).item(row) - nodes.column(nodes.requested, name).item(row)
        if value > free:
            return False
    return True


def loads_of_one(
    nodes: NodeTable, requests: Mapping[str, int], resources: Sequence[str], row: int, nonzero: bool
) -> list[LoadOfOne] | None:
    """Return the loads; None where a resource is another than those that are known, or not every node has it."""
    found = []
    for name in resources:
        if name not in (CPU, MEMORY, EPHEMERAL) or not nodes.everywhere(name):
            return None
        before = (nodes.nonzero if nonzero and name in nodes.nonzero else nodes.requested)[name].item(row)
        found.append(LoadOfOne(before, before + requests.get(name, 0), nodes.allocatable[name].item(row)))
    return found


def least_allocated_of_one(loads: Sequence[LoadOfOne], weights: Sequence[int]) -> IntColumn:
    """Return what `least_allocated` returns."""
    total = sum(
        max((one.allocatable - one.after) * MAX_SCORE // one.allocatable, 0) * weight
        for one, weight in zip(loads, weights)
    )
    return ints(1, total // (sum(weights) or 1))


def balanced_of_one(loads: Sequence[LoadOfOne]) -> IntColumn | None:
    """Return what `balanced` returns; None where the resources are not two."""
    if len(loads) != 2:
        return None
    first, second = loads
    with_pod = _balance(_share(first.after, first.allocatable), _share(second.after, second.allocatable))
    without = _balance(_share(first.before, first.allocatable), _share(second.before, second.allocatable))
    return ints(1, MAX_SCORE // 2 + (MAX_SCORE // 2 + with_pod - without) // 2)


def _share(used: int, allocatable: int) -> float:
    return min(float(used) / float(allocatable), 1.0)


def _balance(first: float, second: float) -> int:
    return int((1 - abs((first - second) / 2)) * float(MAX_SCORE))
