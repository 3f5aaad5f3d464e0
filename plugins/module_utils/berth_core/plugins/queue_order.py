# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SchedulingGates and PrioritySort: which pods may be placed, and which first.

Pure halves of a scheduling queue: who keeps the queue asks them, and brings the time along.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..framework.contract import SUCCESS, Status, unresolvable
from ..model.pod import PodInfo


@dataclass(frozen=True)
class SchedulingGates:
    """A pod with gates waits until somebody has taken the last one away."""

    name: str = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Refuse a pod that has gates."""
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.gates)}]") if pod.gates else SUCCESS


@dataclass(frozen=True)
class PrioritySort:
    """The highest priority first; of one priority the pod that has waited longest."""

    name: str = "PrioritySort"

    def queue_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        """Return what pods are sorted by, the smallest first. `queued_at`: when the pod came into the queue."""
        return (-pod.priority, queued_at)
