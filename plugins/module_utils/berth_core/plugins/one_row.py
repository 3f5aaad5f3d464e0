# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests against one row, in whole numbers: what a pod like the one before is asked about. numpy is slow with one.

Called by NodeResourcesFit and NodeResourcesBalancedAllocation, which ask resource_scores.py about all else; the
formulas are its own, and tests hold both to the same answer. Each function here looks once at what a pod asks for and
returns a function of a row, which holds for as long as no row moves and no node object changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable

from ..cluster.columns import IntColumn
from ..cluster.nodes import NodeTable
from ..framework.contract import MAX_SCORE
from ..model.requests import CPU, EPHEMERAL, MEMORY, PODS

Loads = list[tuple[IntColumn, int, IntColumn]]
"""Resources that every node has: what is taken, what the pod adds, what is allocatable."""


def fits(nodes: NodeTable, wanted: Sequence[tuple[str, int]]) -> Callable[[int], bool]:
    """Return what tells of a row whether the pod and all that it wants have room."""
    columns = [
        (nodes.column(nodes.allocatable, name), nodes.column(nodes.requested, name), value)
        for name, value in ((PODS, 1), *wanted)
    ]

    def judge(row: int) -> bool:
        for allocatable, requested, value in columns:  # noqa: SIM110 - a generator costs more than all that it does
            if value > allocatable.item(row) - requested.item(row):
                return False
        return True

    return judge


def _loads(nodes: NodeTable, requests: Mapping[str, int], resources: Sequence[str], nonzero: bool) -> Loads | None:
    """Return the loads; None where a resource is another than those that are known, or not every node has it."""
    if any(name not in (CPU, MEMORY, EPHEMERAL) or not nodes.everywhere(name) for name in resources):
        return None
    return [
        (
            (nodes.nonzero if nonzero and name in nodes.nonzero else nodes.requested)[name],
            requests.get(name, 0),
            nodes.allocatable[name],
        )
        for name in resources
    ]


def least_allocated_of_one(
    nodes: NodeTable, requests: Mapping[str, int], weighted: Sequence[tuple[str, int]]
) -> Callable[[int], int] | None:
    """Return what rates a row as `least_allocated` does; None where that looks at more than is known here."""
    loads = _loads(nodes, requests, [name for name, _weight in weighted], nonzero=True)
    if loads is None:
        return None
    parts = [(*load, weight) for load, (_name, weight) in zip(loads, weighted)]
    whole = sum(weight for _name, weight in weighted) or 1

    def rate(row: int) -> int:
        total = 0
        for taken, more, allocatable, weight in parts:
            there: int = allocatable.item(row)
            free = (there - taken.item(row) - more) * MAX_SCORE // there
            if free > 0:
                total += free * weight
        return total // whole

    return rate


def balanced_of_one(
    nodes: NodeTable, requests: Mapping[str, int], resources: Sequence[str]
) -> Callable[[int], int] | None:
    """Return what rates a row as `balanced` does; None where the resources are not two that are known here."""
    loads = _loads(nodes, requests, resources, nonzero=False)
    if loads is None or len(loads) != 2:
        return None
    (taken, more, allocatable), (taken2, more2, allocatable2) = loads

    def rate(row: int) -> int:
        used, used2 = taken.item(row), taken2.item(row)
        there, there2 = float(allocatable.item(row)), float(allocatable2.item(row))
        with_pod = _balance(float(used + more) / there, float(used2 + more2) / there2)
        without = _balance(float(used) / there, float(used2) / there2)
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + with_pod - without) // 2

    return rate


def _balance(first: float, second: float) -> int:
    return int((1 - abs((min(first, 1.0) - min(second, 1.0)) / 2)) * float(MAX_SCORE))
