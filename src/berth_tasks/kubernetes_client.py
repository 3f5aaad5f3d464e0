"""KubernetesClient: makes and deletes the pods of tasks, and reads the ends of their logs. Nobody else here does.

Nothing is lost where a process dies between two of these: a try's pod has one name, and is deleted by its uid.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote

from berth_core.errors import BerthError, ConflictError, NotFoundError, StateError
from berth_core.model.resources import POD
from berth_core.tasks.pods import PodState, manifest, read_pod
from berth_core.tasks.task import Task
from berth_kube.client import KubeClient

from .pod_cleanup import PodCleanup

_log = logging.getLogger(__name__)

LOG_SECONDS = 5.0
LOG_CHARACTERS = 4096


class KubernetesClient:
    """Made inside a running loop. ``log_lines`` 0: no log is read."""

    def __init__(self, client: KubeClient, log_lines: int) -> None:
        self._client, self._log_lines = client, log_lines
        self._cleanup = PodCleanup(client, self.kill)

    async def run(self) -> None:
        """Delete what `clean_up` was told of. Until cancelled."""
        await self._cleanup.run()

    async def submit(self, task: Task, number: int, together: int = 0, fills: str = "") -> PodState:
        """Make the pod of a try, or find the one that an earlier process made. ``together``: bound with so many.

        ``fills``: the node in whose filler room it runs.

        Raises ApiError's children, and StateError where another pod has its name.
        """
        body = manifest(task, number, together, fills)
        meta = body["metadata"]
        try:
            made = await self._client.create(POD, body)
        except ConflictError:
            made = await self._client.get(POD, meta["name"], meta["namespace"])
        pod = read_pod(made)
        if pod is None or pod.charge != (task.uid, number):
            raise StateError(f"Pod {meta['namespace']}/{meta['name']} is there and is not of this task: delete it")
        return replace(pod, task_key=task.key, task_uid=task.uid)  # the same texts, and not others that are equal

    async def kill(self, pod: PodState) -> None:
        """Delete just this pod; one that is gone already is no error."""
        try:
            await self._client.delete(POD, pod.name, pod.namespace, uid=pod.uid)
        except ConflictError:  # another one has its name by now
            _log.debug("pod %s/%s is another one by now", pod.namespace, pod.name)

    async def evict(self, pod: PodState) -> None:
        """Have just this pod go as disrupted, which costs its task no try; one that is gone already is no error.

        Raises ApiError's children: ConflictError where it has changed and perhaps ended, as nobody would know of that
        end any more; UnavailableError where a PodDisruptionBudget forbids it.
        """
        seen = {"uid": pod.uid, "resourceVersion": str(pod.version)}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": seen},
        }
        try:
            await self._client.create(POD, body, subresource="eviction", read=False)
        except NotFoundError:
            _log.debug("pod %s/%s is gone by now", pod.namespace, pod.name)

    def clean_up(self, pods: Iterable[PodState]) -> None:
        """Delete these soon, with others by one request: ended pods of Tasks that are final."""
        for pod in pods:
            self._cleanup.add(pod)

    async def log_tail(self, pod: PodState) -> str:
        """The end of the log of the container whose end it is; empty where nobody can tell (its node is gone)."""
        if not self._log_lines or not pod.node:
            return ""
        path = f"{POD.path(pod.name, pod.namespace, 'log')}?tailLines={self._log_lines}"
        path += f"&container={quote(pod.details.container)}" if pod.details.container else ""
        try:
            text = await self._client.raw(path, timeout=LOG_SECONDS)
        except BerthError as exc:
            _log.info("the log of pod %s/%s cannot be kept: %s", pod.namespace, pod.name, exc.message)
            return ""
        return text.decode("utf-8", "replace")[-LOG_CHARACTERS:]
