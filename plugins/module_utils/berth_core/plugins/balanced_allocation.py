# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeResourcesBalancedAllocation: prefer the node whose resources the pod brings into balance.

v1.36 rates the change that the pod makes, not the state after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from ..cluster.columns import IntColumn, ints
from ..errors import InputError
from ..framework.contract import ROWS_ALONE, SKIPPED, SUCCESS, Dirt, Source, Status
from ..framework.state import Cycle
from ..model.requests import CPU, MEMORY
from .args import known_only, weighted_resources
from .one_row import balanced_of_one
from .resource_scores import balanced, load


@dataclass(frozen=True)
class NodeResourcesBalancedAllocation:
    """Score on requests."""

    resources: tuple[str, ...] = (CPU, MEMORY)
    name: str = "NodeResourcesBalancedAllocation"
    score_dirt: Dirt = Dirt.ROW

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> NodeResourcesBalancedAllocation:
        """Read resources; a weight can only be 1. Raises InputError with the path."""
        known_only(args, ("resources",), path)
        listed = weighted_resources(args, path)
        for index, (name, weight) in enumerate(listed):
            where = f"{path}.resources[{index}]"
            if weight != 1:
                raise InputError(f"{where}.weight: expected 1, got {weight}", field=f"{where}.weight")
            if name in [other for other, _weight in listed[:index]]:
                raise InputError(f"{where}.name: expected each resource once, got {name}", field=f"{where}.name")
        return cls(tuple(name for name, _weight in listed))

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip a pod that requests nothing: it balances nothing, and would gather with its likes on one node."""
        for name, value in cycle.request.pod.requests:
            if value and name in self.resources:
                return SUCCESS
        return SKIPPED

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return the requests."""
        return cycle.request.pod.requests

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate the change of balance."""
        rate = self.row_score(cycle) if len(rows) == 1 else None
        if rate is not None:
            return ints(1, rate(rows.item()))
        requests = dict(cycle.request.pod.requests)
        loads = [load(cycle.snapshot, name, requests.get(name, 0), rows, nonzero=False) for name in self.resources]
        return balanced(loads, len(rows))

    def row_score(self, cycle: Cycle) -> Callable[[int], int] | None:
        """Return what rates one row."""
        return balanced_of_one(cycle.snapshot.nodes, dict(cycle.request.pod.requests), self.resources)
