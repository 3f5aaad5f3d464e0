# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DynamicResources: a pod with resource claims is refused, as nobody here allocates them.

Stands in profiles that are read from a configuration, as kube-scheduler's plugin of this name does: the daemon's. A pod
that was bound without its claims allocated would wait on its node for ever, and hold its room there. The pods of
stateful_app, whose claims kube-scheduler allocates (pinned to the locked devices), are chosen a node without me.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..framework.contract import NOTHING_TO_FILTER, Narrowing, unresolvable
from ..framework.state import Cycle
from .args import known_only


@dataclass(frozen=True)
class DynamicResources:
    """Refuse resource claims."""

    name: str = "DynamicResources"

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> DynamicResources:
        """Take kube-scheduler's arguments, which are about allocating. Raises InputError with the path of another."""
        known_only(args, ("filterTimeout", "bindingTimeout"), path)
        return cls()

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Refuse a pod with resource claims, on every node and for good: a pod's claims never change."""
        claims = cycle.request.pod.resource_claims
        if not claims:
            return NOTHING_TO_FILTER
        reason = f"this scheduler does not allocate resource claims, and the pod has {', '.join(claims)}"
        return Narrowing(unresolvable(f"{reason}: give it to kube-scheduler (spec.schedulerName)"))
