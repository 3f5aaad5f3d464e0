# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeResourcesBalancedAllocation: prefer the node whose resources the pod brings into balance.

v1.36 rates the change that the pod makes, not the state after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cluster.columns import IntColumn
from ..framework.contract import SUCCESS, Code, Dirt, Status
from ..framework.state import Cycle
from ..model.requests import CPU, MEMORY
from .args import known_only, weighted_resources
from .resource_scores import balanced, load


@dataclass(frozen=True)
class NodeResourcesBalancedAllocation:
    """Score on requests."""

    resources: tuple[str, ...] = (CPU, MEMORY)
    name: str = "NodeResourcesBalancedAllocation"
    score_dirt: Dirt = Dirt.ROW

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> NodeResourcesBalancedAllocation:
        """Read resources; weights are accepted, and mean nothing here. Raises InputError with the path."""
        known_only(args, ("resources",), path)
        return cls(tuple(name for name, _weight in weighted_resources(args, path)))

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip a pod that requests nothing: it balances nothing, and would gather with its likes on one node."""
        requests = dict(cycle.request.pod.requests)
        return SUCCESS if any(requests.get(name, 0) for name in self.resources) else Status(Code.SKIP)

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return the requests."""
        return cycle.request.pod.requests

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate the change of balance."""
        requests = dict(cycle.request.pod.requests)
        loads = [load(cycle.snapshot, name, requests.get(name, 0), rows, nonzero=False) for name in self.resources]
        return balanced(loads, len(rows))
