"""Plugins from outside at the two points where the queue asks them: their fault keeps one pod back, and no other.

profiles.py puts me before them; kube-scheduler's own need no guard. Everywhere else the scheduler looks after itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from berth_core.framework.contract import PreEnqueue, Status, unschedulable
from berth_core.model.pod import PodInfo

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GuardedGate:
    """A PreEnqueue that raises, or answers with no Status, keeps its pod back, as one does that says no."""

    name: str
    plugin: PreEnqueue

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Ask the plugin."""
        try:
            status = self.plugin.pre_enqueue(pod)
            if not isinstance(status, Status):
                raise TypeError(f"expected a Status, got {status!r}")
        except Exception as exc:  # noqa: BLE001 - plugins from outside
            _log.warning("pod %s/%s: %s", pod.namespace, pod.name, _fault(self.name, exc))
            return unschedulable(_fault(self.name, exc))
        return status


def guarded_order(name: str, sort_key: Callable[[PodInfo, float], Any]) -> Callable[[PodInfo, float], Any]:
    """A QueueSort that raises puts its pod behind all others, where such pods stand in the order of arrival."""

    def order(pod: PodInfo, queued_at: float) -> Any:
        try:
            return 0, sort_key(pod, queued_at)
        except Exception as exc:  # noqa: BLE001 - plugins from outside
            _log.warning("pod %s/%s: %s", pod.namespace, pod.name, _fault(name, exc))
            return 1, queued_at

    return order


def _fault(name: str, exc: Exception) -> str:
    return f"plugin {name} failed: {type(exc).__name__}: {exc}"
