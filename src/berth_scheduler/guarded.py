"""Plugins from outside at the two points where the queue asks them: their fault keeps one pod back, and no other.

profiles.py puts the guard before them; kube-scheduler's own need no guard. Everywhere else the scheduler looks after
itself.
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
    """A QueueSort that raises, or answers with what cannot be sorted by, puts its pod behind all others.

    Such pods stand there in the order of arrival.
    """

    def order(pod: PodInfo, queued_at: float) -> Any:
        try:
            key = sort_key(pod, queued_at)
            sorted((key, key))  # None, a mapping, a column cannot be
        except Exception as exc:  # noqa: BLE001 - plugins from outside
            _log.warning("pod %s/%s: %s", pod.namespace, pod.name, _fault(name, exc))
            return 1, queued_at
        return 0, _Place(key, queued_at)

    return order


class _Place:
    """A plugin's answer for one pod. Two of which each can be sorted by, and not beside the other (a number, a text),
    stand in the order of arrival."""

    __slots__ = ("key", "queued_at")

    def __init__(self, key: Any, queued_at: float) -> None:
        self.key, self.queued_at = key, queued_at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and not self < other and not other < self

    def __lt__(self, other: _Place) -> bool:
        try:
            return bool(self.key < other.key)
        except Exception:  # noqa: BLE001 - plugins from outside
            return self.queued_at < other.queued_at

    __hash__ = None  # type: ignore[assignment]


def _fault(name: str, exc: Exception) -> str:
    return f"plugin {name} failed: {type(exc).__name__}: {exc}"
