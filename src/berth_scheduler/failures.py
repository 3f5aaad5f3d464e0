"""A pod that was not placed: it is told why, goes back into the queue, and gives way to those of its group.

Called by scheduler.py after each decision that came to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from berth_core.errors import BerthError
from berth_core.framework.queue import QueuedPod
from berth_core.model.pod import PodInfo
from berth_core.plugins.coscheduling import group_of

from .desk import Desk
from .metrics import ERROR
from .metrics import UNSCHEDULABLE as REFUSED
from .profiles import Running
from .reports import ERROR as SCHEDULER_ERROR
from .reports import UNSCHEDULABLE

_log = logging.getLogger(__name__)

Obj = dict[str, Any]


class Failures:
    """Made inside a running loop. ``began``: when the attempt did."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._loop = asyncio.get_running_loop()

    def error(self, queued: QueuedPod, pod: Obj, exc: Exception, began: float) -> None:
        """The decision itself failed."""
        if not isinstance(exc, BerthError):
            _log.exception("pod %s/%s: the decision failed", queued.pod.namespace, queued.pod.name)
        message = exc.message if isinstance(exc, BerthError) else f"{type(exc).__name__}: {exc}"
        self.failed(queued, pod, message, began)

    def refuse(
        self,
        queued: QueuedPod,
        pod: Obj,
        message: str,
        plugins: frozenset[str],
        began: float,
        nominated: str | None = "",
    ) -> None:
        """``plugins`` refused it. ``nominated``: the node on which room is made for the pod; None: as it was."""
        queued.refused_by, queued.pending = plugins, frozenset()
        self._desk.metrics.refused(plugins, queued.profile)
        self._back(queued, pod, UNSCHEDULABLE, message, began, nominated)

    def failed(self, queued: QueuedPod, pod: Obj, message: str, began: float) -> None:
        """Something went wrong that was no plugin's word: it is tried again after a while."""
        queued.refused_by, queued.pending = frozenset(), frozenset()
        self._back(queued, pod, SCHEDULER_ERROR, message, began, "")

    def _back(
        self, queued: QueuedPod, pod: Obj, reason: str, message: str, began: float, nominated: str | None
    ) -> None:
        now = self._loop.time()
        self._desk.metrics.attempt(REFUSED if reason == UNSCHEDULABLE else ERROR, queued.profile, now - began)
        _log.info("not placed", extra={"pod": f"{queued.pod.namespace}/{queued.pod.name}", "why": message})
        self._desk.queue.refused(queued, now)
        says = nominated is not None and self._desk.nominations.decide(pod["info"], nominated)
        self._desk.reports.failed(pod, queued.profile, reason, message, nominated if says else None)
        running = self._desk.profiles.get(queued.profile)
        if running is not None:
            self._give_way(running, queued.pod, message)
        self._desk.wake.set()

    def _give_way(self, running: Running, pod: PodInfo, message: str) -> None:
        """Who waits for a pod that has no place gives its own back, and the group is held back as a whole."""
        group = group_of(pod)
        if group is not None and running.permits:
            self._desk.held_back.failed(group, self._loop.time(), f"{pod.name}: {message}")
        for name, plugin in running.permits:
            try:
                uids = frozenset(plugin.give_way(pod, self._desk.room.waiting()))
            except Exception:  # noqa: BLE001 - plugins from outside
                _log.exception("pod %s/%s: plugin %s could not give way", pod.namespace, pod.name, name)
                continue
            self._desk.room.reject(uids, name, f"{pod.namespace}/{pod.name} of the same group has no place")
