"""Preemption, carried out: victims are told and deleted beside the decisions, and their pod waits until that is done.

The scheduler hands over each pod for which PostFilter has found victims, the queue asks `Preempting` before it tries
the pod again: kube-scheduler's asynchronous preemption (v1.36). Nothing is deleted but the very pod that was chosen, by
its uid. Chooses nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from berth_core.errors import BerthError, NotFoundError
from berth_core.framework.contract import SUCCESS, Nomination, Status, unresolvable
from berth_core.framework.nominated import Nominations
from berth_core.model.pod import PodInfo
from berth_core.model.preemption import VictimFacts
from berth_core.model.resources import POD
from berth_kube.client import KubeClient

from .binding import ASK_AGAIN
from .cluster import Cluster
from .reports import Reports

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
WAITS = unresolvable("waiting for the preemption for this pod to be finished")


class Preempting:
    """DefaultPreemption at PreEnqueue: a pod whose victims are being deleted is not tried before all of them are.

    Nor before the watch has told of each. An answer to a deletion is there sooner than its news: until that comes the
    victims count on their node, and the pod, woken by something else meanwhile, would end others in their place.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._victims: dict[str, Sequence[VictimFacts] | None] = {}
        self._news = asyncio.Event()
        cluster.pods.on(update=lambda _old, _new: self._news.set(), delete=lambda _pod: self._news.set())

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Let the pod in once all its victims are going: then the news of it may come before the answer."""
        if pod.uid not in self._victims:
            return SUCCESS
        victims = self._victims[pod.uid]
        return SUCCESS if victims is not None and self._told(victims) else WAITS

    def leaving(self, victim: VictimFacts) -> bool:
        """Whether the pod is gone, or has been asked to go, as far as the watch has told."""
        found = self._cluster.pods.get(victim.name, victim.namespace)
        return found is None or found["info"].uid != victim.uid or found["info"].terminating

    def _told(self, victims: Sequence[VictimFacts]) -> bool:
        return all(self.leaving(one) for one in victims)

    def begin(self, uid: str) -> None:
        """Hold the pod back."""
        self._victims[uid] = None

    def asked_to_go(self, uid: str, victims: Sequence[VictimFacts]) -> None:
        """All victims are deleted, or the last of them is about to be: the pod is held back for their news alone."""
        self._victims[uid] = victims

    async def end(self, uid: str) -> None:
        """Until there is that news, then hold the pod back no more."""
        while not self._told(self._victims.get(uid) or ()):
            self._news.clear()
            await self._news.wait()
        self._victims.pop(uid, None)


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
            if one.priority >= priority:
                continue
            found = self._cluster.pods.get(one.name, one.namespace)
            if found is None or found["info"].uid != one.uid:
                continue
            if self._nominations.decide(found["info"], ""):
                self._reports.nominated(found, "")

    async def stop(self) -> None:
        """Leave what is under way as it is: the next leader finds the pods, the victims and the nominations."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, pod: Obj, profile: str, node: str, victims: Sequence[VictimFacts]) -> None:
        info: PodInfo = pod["info"]
        self.yield_to(info.priority, node)
        ended: list[VictimFacts] = []
        news = False
        try:
            *others, last = victims
            first = await _all([self._end(one, pod, profile, node, ended) for one in others])
            self._preempting.asked_to_go(info.uid, victims)
            news = await self._end(last, pod, profile, node, ended) and all(first)
        except BerthError as exc:
            _log.warning("preemption for pod %s/%s: %s", info.namespace, info.name, exc.message)
        self._preempting.asked_to_go(info.uid, ended)
        await self._preempting.end(info.uid)
        # Of a victim that somebody else has ended the news may be over, and the pod was held back when it came.
        if not news:
            self._activate(info.uid)

    async def _end(self, victim: VictimFacts, pod: Obj, profile: str, node: str, ended: list[VictimFacts]) -> bool:
        """Say why, and delete; False: somebody else has ended it, which is what was wanted. ``ended``: it goes there.

        Raises BerthError where the pod is certainly still there.
        """
        ours = False
        try:
            ours = await self._delete(victim, profile)
        except NotFoundError:
            pass
        except BerthError:  # a conflict may be about another pod of its name, and an answer may be lost
            if await self._stays(victim):
                raise
        ended.append(victim)
        if ours:
            self._reports.preempted(victim, pod, profile, node)
        return ours

    async def _delete(self, victim: VictimFacts, profile: str) -> bool:
        condition = self._reports.condition(
            "DisruptionTarget",
            "True",
            "PreemptionByScheduler",
            f"{profile}: preempting to accommodate a higher priority pod",
        )
        body = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        where = (POD, victim.name, victim.namespace)
        await self._client.patch(*where, body, kind="strategic", subresource="status")
        return await self._client.delete(*where, uid=victim.uid)

    async def _stays(self, victim: VictimFacts) -> bool:
        """Whether the pod is there and has not been asked to go. Asks until somebody knows.

        Else its pod would be tried again, not knowing of the room that has been made for it, and end others.
        """
        told = ""
        while True:
            try:
                meta = (await self._client.get(POD, victim.name, victim.namespace))["metadata"]
            except NotFoundError:
                return False
            except BerthError as exc:  # a refusal, too: who has just started refuses everybody
                if type(exc).__name__ != told:
                    told = type(exc).__name__
                    where = f"{victim.namespace}/{victim.name}"
                    _log.warning("pod %s: not known whether it was deleted: %s; asking again", where, exc.message)
                await asyncio.sleep(ASK_AGAIN)
                continue
            return bool(meta["uid"] == victim.uid and not meta.get("deletionTimestamp"))


async def _all(works: Sequence[Awaitable[bool]]) -> list[bool]:
    """Wait for all, whatever becomes of one; raise what the first that failed says."""
    answers = []
    for found in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found
        answers.append(found)
    return answers
