"""Preemption, carried out: victims are told and deleted beside the decisions, and their pod waits until that is done.

The scheduler hands me each pod for which PostFilter has found victims, the queue asks `Preempting` before it tries the
pod again: kube-scheduler's asynchronous preemption (v1.36). Nothing is deleted but the very pod that was chosen, by its
uid. I choose nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from berth_core.errors import BerthError, ConflictError, NotFoundError
from berth_core.framework.contract import SUCCESS, Nomination, Status, unresolvable
from berth_core.framework.nominated import Nominations
from berth_core.model.pod import PodInfo
from berth_core.model.preemption import VictimFacts
from berth_core.model.resources import POD
from berth_kube.client import KubeClient

from .cluster import Cluster
from .reports import Reports

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
WAITS = unresolvable("waiting for the preemption for this pod to be finished")


class Preempting:
    """DefaultPreemption at PreEnqueue: a pod whose victims are being deleted is not tried before all of them are."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._last: dict[str, VictimFacts | None] = {}

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Let the pod in once its last victim is going: then the news of it may come before the answer to us."""
        if pod.uid not in self._last:
            return SUCCESS
        last = self._last[pod.uid]
        return SUCCESS if last is not None and self.leaving(last) else WAITS

    def leaving(self, victim: VictimFacts) -> bool:
        """Whether the pod is gone, or has been asked to go."""
        found = self._cluster.pods.get(victim.name, victim.namespace)
        return found is None or found["info"].uid != victim.uid or found["info"].terminating

    def begin(self, uid: str) -> None:
        """Hold the pod back."""
        self._last[uid] = None

    def only(self, uid: str, last: VictimFacts) -> None:
        """All victims are deleted but this one."""
        self._last[uid] = last

    def end(self, uid: str) -> None:
        """Hold the pod back no more."""
        self._last.pop(uid, None)


class Preemptions:
    """What becomes of victims. ``activate``: try a pod again at once, for no news of a victim will."""

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        reports: Reports,
        preempting: Preempting,
        nominations: Nominations,
        activate: Callable[[str], None],
    ) -> None:
        self._client, self._cluster, self._reports = client, cluster, reports
        self._preempting, self._nominations, self._activate = preempting, nominations, activate
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, pod: Obj, profile: str, nomination: Nomination) -> int:
        """Delete the victims, and return how many. Those that are going already need no second word."""
        victims = [one for one in nomination.victims if not self._preempting.leaving(one)]
        if not nomination.node or not victims:
            return 0
        self._preempting.begin(pod["info"].uid)
        task = asyncio.ensure_future(self._carry_out(pod, profile, nomination.node, victims))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return len(nomination.victims)

    def yield_to(self, priority: int, node: str) -> None:
        """Take their nomination from pods of lower priority: they may no longer fit, and had better look elsewhere."""
        for one in self._nominations.on(node):
            found = self._cluster.pods.get(one.name, one.namespace)
            if one.priority < priority and found is not None and found["info"].uid == one.uid:
                self._reports.nominated(found, "")

    async def stop(self) -> None:
        """Leave what is under way as it is: the next leader finds the pods, the victims and the nominations."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, pod: Obj, profile: str, node: str, victims: Sequence[VictimFacts]) -> None:
        info: PodInfo = pod["info"]
        self.yield_to(info.priority, node)
        news = False
        try:
            *others, last = victims
            await _all([self._end(one, pod, profile, node) for one in others])
            self._preempting.only(info.uid, last)
            news = await self._end(last, pod, profile, node)
        except BerthError as exc:
            _log.warning("preemption for pod %s/%s: %s", info.namespace, info.name, exc.message)
        finally:
            self._preempting.end(info.uid)
        # Of a last victim that somebody else has ended the news may be over, and the pod was held back when it came.
        if not news:
            self._activate(info.uid)

    async def _end(self, victim: VictimFacts, pod: Obj, profile: str, node: str) -> bool:
        """Say why, and delete; False: it is gone, or another one of its name by now, which is what was wanted."""
        condition = self._reports.condition(
            "DisruptionTarget",
            "True",
            "PreemptionByScheduler",
            f"{profile}: preempting to accommodate a higher priority pod",
        )
        body = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        where = (POD, victim.name, victim.namespace)
        try:
            await self._client.patch(*where, body, kind="strategic", subresource="status")
            if not await self._client.delete(*where, uid=victim.uid):
                return False
        except (NotFoundError, ConflictError):
            return False
        self._reports.preempted(victim, pod, profile, node)
        return True


async def _all(works: Sequence[Any]) -> None:
    """Wait for all, whatever becomes of one; raise what the first that failed says."""
    for found in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found
