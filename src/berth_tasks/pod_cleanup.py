"""PodCleanup: ended pods of final tasks go together, by one deletecollection for many.

A request for many knows no uids of pods. It names the uids of their Tasks, which are final, and only what has ended:
such a pod is a try of that Task, whose end is recorded, and no other is to come. A single one is deleted by its own
uid, and so is each where the request is refused. What is left when the process dies is found by who comes after it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from berth_core.errors import BerthError
from berth_core.model.resources import POD
from berth_core.tasks.pods import PodState
from berth_core.tasks.task import UID_LABEL
from berth_kube.client import KubeClient
from berth_kube.informer import pause

_log = logging.getLogger(__name__)

#: What ends within so many seconds is deleted together; while at least so many more come in that time, up to so many
#: times as long: what ends in a flood costs a hundredth of a request each.
GATHER, FLOOD, LONGEST = 0.5, 5, 6
#: Tasks in one request. The server deletes one pod after the other, each by two writes: a busy one takes a quarter of
#: a second for each, and ends a request after a minute.
MOST = 100
PATIENCE = 55.0
#: Requests at one time, and so connections that starts and ends of tasks have to do without.
AT_ONCE = 4
ENDED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"


class PodCleanup:
    """Made inside a running loop. ``one`` deletes a single pod by its uid."""

    def __init__(self, client: KubeClient, one: Callable[[PodState], Awaitable[None]]) -> None:
        self._client, self._one = client, one
        self._waiting: dict[str, PodState] = {}
        self._due = asyncio.Event()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._failures = 0

    def add(self, pod: PodState) -> None:
        """Delete it soon."""
        self._waiting[pod.uid] = pod
        self._due.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._due.wait()
            await self._gather()
            self._due.clear()
            pods, self._waiting = self._waiting, {}
            left = await asyncio.gather(*(self._together(part) for part in _parts(pods.values())))
            await self._again([pod for part in left for pod in part])

    async def _gather(self) -> None:
        for _pause in range(LONGEST):
            before = len(self._waiting)
            await asyncio.sleep(GATHER)
            if len(self._waiting) < before + FLOOD or len(self._waiting) >= MOST:
                return

    async def _again(self, left: Sequence[PodState]) -> None:
        self._failures = self._failures + 1 if left else 0
        if left:
            await asyncio.sleep(pause(self._failures, random.random()))  # noqa: S311 - not all at one moment
        for pod in left:
            self.add(pod)

    async def _together(self, pods: Sequence[PodState]) -> list[PodState]:
        """Returns those that are left."""
        async with self._room:
            return await self._deleted(pods)

    async def _deleted(self, pods: Sequence[PodState]) -> list[PodState]:
        if len(pods) > 1:
            uids = ",".join(sorted({pod.task_uid for pod in pods}))
            try:
                await self._client.delete_selected(
                    POD, pods[0].namespace, labels=f"{UID_LABEL} in ({uids})", fields=ENDED, timeout=PATIENCE
                )
            except BerthError as exc:
                _log.info("%s; they are deleted one by one", exc.message)
            else:
                return []
        return [pod for pod in pods if not await self._alone(pod)]

    async def _alone(self, pod: PodState) -> bool:
        try:
            await self._one(pod)
        except BerthError as exc:
            if not self._failures:
                _log.warning("%s; trying again until it works", exc.message)
            return False
        return True


def _parts(pods: Iterable[PodState]) -> list[list[PodState]]:
    """By namespace, and not too many at once."""
    found: dict[str, list[PodState]] = defaultdict(list)
    for pod in pods:
        found[pod.namespace].append(pod)
    return [mine[at : at + MOST] for mine in found.values() for at in range(0, len(mine), MOST)]
