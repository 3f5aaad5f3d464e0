"""Evictions: has pods of tasks go as disrupted, and remembers which were asked to."""

from __future__ import annotations

import logging
from collections.abc import Callable

from berth_core.errors import BerthError, ConflictError
from berth_core.tasks.pods import PodState

from .kubernetes_client import KubernetesClient

_log = logging.getLogger(__name__)


class Evictions:
    """``queue_of``: the queue of a task, by its uid."""

    def __init__(self, client: KubernetesClient, queue_of: Callable[[str], str]) -> None:
        self._client, self._queue_of = client, queue_of
        #: uids of pods that were asked to go.
        self._asked: set[str] = set()
        #: Queues of which a pod could not be evicted: that is told once, until one can.
        self._refused: set[str] = set()

    def __contains__(self, pod: PodState) -> bool:
        return pod.uid in self._asked

    def forget(self, pod: PodState) -> None:
        """It is over."""
        self._asked.discard(pod.uid)

    async def evict(self, pod: PodState, why: str) -> bool:
        """Have it go as disrupted, which costs its task no try. False: it stays as yet."""
        self._asked.add(pod.uid)
        queue = self._queue_of(pod.task_uid)
        try:
            await self._client.evict(pod)
        except BerthError as exc:
            known = isinstance(exc, ConflictError) or queue in self._refused
            how = logging.DEBUG if known else logging.WARNING
            _log.log(how, "%s; so it stays as yet, although %s", exc.message, why)
            if not isinstance(exc, ConflictError):
                self._refused.add(queue)
            self._asked.discard(pod.uid)
            return False
        self._refused.discard(queue)
        _log.info("pod %s/%s is evicted: %s", pod.namespace, pod.name, why)
        return True
