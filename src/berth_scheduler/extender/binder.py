"""The bind verb: locks the pod's disks where nobody has done so yet, brings its claims to Bound, and binds the pod.

Called by command.py. Mostly the claims are Bound when kube-scheduler asks (its VolumeBinding waits for that), and only
the pod is left. What is taken is given back where the pod cannot be bound. Asked twice for one pod, as after a time-out
of kube-scheduler's, the second question waits for the answer to the first.
"""

from __future__ import annotations

import asyncio
import logging

from berth_core.app.asking import Ask
from berth_core.errors import BerthError, ConflictError, NotFoundError, StateError, UnschedulableError
from berth_core.framework.binding import Binding
from berth_core.model.placement import Placement
from berth_core.model.pod import PodInfo
from berth_core.model.resources import POD
from berth_kube.client import KubeClient

from ..binding import DefaultBinder
from ..cluster import Cluster
from ..disks import LocalDisks
from .holds import Holds
from .messages import BindAsked, Obj
from .verdicts import Judge

_log = logging.getLogger(__name__)


class Binder:
    """``disks`` waits for claims no longer than kube-scheduler waits for an answer."""

    def __init__(self, client: KubeClient, cluster: Cluster, judge: Judge, holds: Holds, disks: LocalDisks) -> None:
        self._client, self._cluster, self._judge, self._holds, self._disks = client, cluster, judge, holds, disks
        self._binder = DefaultBinder()
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}

    async def bind(self, question: BindAsked) -> None:
        """Raises BerthError where the pod is not bound to that node."""
        node, task = self._running.get(question.uid, ("", None))
        if task is None:
            task = asyncio.ensure_future(self._bind(question))
            self._running[question.uid] = (question.node, task)
            task.add_done_callback(lambda _done: self._running.pop(question.uid, None))
        elif node != question.node:
            raise ConflictError(f"pod {question.namespace}/{question.name} is being bound to node {node}", 409)
        await asyncio.shield(task)

    async def _bind(self, question: BindAsked) -> None:
        pod = await self._pod(question)
        where = (pod.get("spec") or {}).get("nodeName")
        if where == question.node:
            return
        if where:
            raise ConflictError(f"pod {question.namespace}/{question.name} is on node {where} already", 409)
        info = PodInfo.from_manifest(pod)
        asked = self._judge.asked(info)
        if asked.problem:
            raise StateError(asked.problem)
        if asked.berth is not None and asked.berth.node_name != question.node:
            raise StateError(f"the Berth of pod {info.namespace}/{info.name} is on node {asked.berth.node_name}")
        if asked.request.disks:
            await self._with_disks(pod, info, asked, question.node)
        else:
            await self._binder.bind(Binding(pod, asked.request, Placement(question.node), self._client))
        _log.info("bound", extra={"pod": f"{info.namespace}/{info.name}", "node": question.node})

    async def _pod(self, question: BindAsked) -> Obj:
        """The pod as the API server has it now: kube-scheduler's may be old, and the caches' older."""
        found = await self._client.find(POD, question.name, question.namespace)
        if found is None or found["metadata"]["uid"] != question.uid:
            raise NotFoundError(f"pod {question.namespace}/{question.name} is gone", 404)
        return dict(found)

    async def _with_disks(self, pod: Obj, info: PodInfo, asked: Ask, node: str) -> None:
        placement = self._choose(info, asked, node)
        binding = Binding(pod, asked.request, placement, self._client)
        self._disks.begin(binding, asked.claims)
        try:
            await self._disks.hold(binding)
            await self._disks.pre_bind(binding)
            await self._binder.bind(binding)
        except BerthError:
            await self._disks.release(binding)
            raise
        finally:
            self._holds.end(info)

    def _choose(self, info: PodInfo, asked: Ask, node: str) -> Placement:
        """The disks on that node, held from now on."""
        self._holds.release(info)
        outcome = self._judge.place(asked, node)
        if outcome.placement is None:
            self._holds.renew(info)
            raise UnschedulableError(outcome.diagnosis.summary())
        self._holds.begin(info, asked.request, outcome.placement)
        return outcome.placement
