"""Why a task's pod does not go on: its node cannot be reached, or it does not start. Its task says so meanwhile.

A pod on such a node may go on to run there, so no second one is made; one that does not start may start at any time,
and keeps what it takes. Called by the lifecycle manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from berth_core.tasks.pods import PENDING, PodState

from .nodes import Nodes
from .store import PodSnapshotStore
from .task_registry import TaskKey

NODE_UNREACHABLE, POD_PENDING = "NodeUnreachable", "PodPending"
#: So many times as long a pod may be Pending of which nobody says why: thousands may wait for a scheduler's turn.
SILENT = 10


class Held(NamedTuple):
    """As a status says it; both are empty where nothing holds the pod up."""

    reason: str = ""
    message: str = ""


class HeldUp:
    """Of pods that are in the store. ``seconds``: how long one is Pending before its task says why."""

    def __init__(self, nodes: Nodes, store: PodSnapshotStore, seconds: float) -> None:
        self._nodes, self._store, self._seconds = nodes, store, seconds
        self._loop = asyncio.get_running_loop()
        #: Since when a pod is Pending, by its uid.
        self._since: dict[str, float] = {}

    def listen(self, wake: Callable[[TaskKey], None]) -> None:
        """``wake`` is told of the tasks with pods on a node that cannot be reached from now on, or can."""

        def changed(node: str) -> None:
            for pod in self._store.snapshot.all():
                if pod.node == node:
                    wake(pod.task_key)

        self._nodes.readiness = changed

    def of(self, pod: PodState, template: Mapping[str, Any]) -> tuple[Held, float | None]:
        """What holds the pod up; and after how many seconds it is to be asked again, where it starts or does not.

        ``template``: its task's.
        """
        if self._nodes.silent(pod.node):  # a Node that is not there has its pods ended
            return _unreachable(pod), None
        if pod.phase != PENDING:
            self._since.pop(pod.uid, None)
            return Held(), None
        seconds = self._seconds if pod.details.reason else self._seconds * SILENT
        left = self._since.setdefault(pod.uid, self._loop.time()) + seconds - self._loop.time()
        return (Held(), left) if left > 0 else (_pending(pod, template), None)

    def forget(self, uid: str) -> None:
        """The pod is gone, or has ended."""
        self._since.pop(uid, None)


def _unreachable(pod: PodState) -> Held:
    return Held(
        NODE_UNREACHABLE,
        f"node {pod.node} cannot be reached, where the pod may go on to run: the task goes on when the node is "
        "back, its Node is deleted, or it bears the taint node.kubernetes.io/out-of-service",
    )


def _pending(pod: PodState, template: Mapping[str, Any]) -> Held:
    where = f"is bound to node {pod.node} and does not start" if pod.node else "is bound to no node"
    claims = "" if pod.node else _claims(template)
    words = pod.details.message or f"{claims}see `kubectl describe pod {pod.name} --namespace {pod.namespace}`"
    return Held(pod.details.reason or POD_PENDING, f"pod {pod.name} {where}: {words}")


def _claims(template: Mapping[str, Any]) -> str:
    """What a pod of which no scheduler says anything waits for, most often, where it has claims: they are not made."""
    kinds = (("resourceClaimTemplateName", "ResourceClaimTemplate"), ("resourceClaimName", "ResourceClaim"))
    named = [
        f"{kind} {each[field]}"
        for each in template["spec"].get("resourceClaims") or ()
        for field, kind in kinds
        if each.get(field)
    ]
    return f"it may wait for {', '.join(named)}; " if named else ""
