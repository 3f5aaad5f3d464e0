"""What people are told of a pod: events and the condition PodScheduled, in kube-scheduler's words. Decides nothing.

Called by scheduler and binding. A condition is written only where it differs from what the pod has, and the writes of
one pod go one after the other; what cannot be written is logged, as the next attempt will say it again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from typing import Any

from berth_core.errors import BerthError, NotFoundError
from berth_core.model.preemption import VictimFacts
from berth_core.model.resources import POD
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.events import Recorder

_log = logging.getLogger(__name__)

UNSCHEDULABLE, ERROR = "Unschedulable", "SchedulerError"
#: Room for the note of an Event; kube-scheduler cuts at the same length.
NOTE = 1024


class Reports:
    """``recorders``: of each profile, whose name stands in its events. ``now`` is only written down."""

    def __init__(
        self, client: KubeClient, recorders: Mapping[str, Recorder], now: Callable[[], dt.datetime] = utc_now
    ) -> None:
        self._client, self.recorders, self._now = client, dict(recorders), now
        self._tasks: set[asyncio.Task[None]] = set()
        #: by uid: what is to be written of a pod's status once the write that is under way is done
        self._next: dict[str, dict[str, Any]] = {}

    def failed(self, pod: Mapping[str, Any], profile: str, reason: str, message: str, nominated: str | None) -> None:
        """A pod found no place (Unschedulable), or an error kept it from one (SchedulerError).

        ``nominated``: the node on which room is being made; None: nothing is to be written of that.
        """
        self._event(profile, pod, "Warning", "FailedScheduling", _cut(message), "Scheduling")
        body: dict[str, Any] = {}
        if pod["told"] != ("False", reason, message) or self._writing(pod):
            body["conditions"] = [self.condition("PodScheduled", "False", reason, message)]
        if nominated is not None:
            body["nominatedNodeName"] = nominated or None
        if body:
            self._put(pod, body)

    def nominated(self, pod: Mapping[str, Any], node: str) -> None:
        """Another node is nominated to a pod, or ("") none any more."""
        self._put(pod, {"nominatedNodeName": node or None})

    def scheduled(self, pod: Mapping[str, Any], profile: str, node: str) -> None:
        """A pod was bound."""
        meta = pod["metadata"]
        text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self._event(profile, pod, "Normal", "Scheduled", text, "Binding")

    def preempted(self, victim: VictimFacts, by: Mapping[str, Any], profile: str, node: str) -> None:
        """A pod has to go, for another one."""
        names = {"namespace": victim.namespace, "name": victim.name, "uid": victim.uid}
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": names}
        text = f"Preempted by pod {by['metadata']['uid']} on node {node}"
        self._event(profile, item, "Normal", "Preempted", text, "Preempting", by)

    async def flush(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _event(
        self,
        profile: str,
        pod: Mapping[str, Any],
        kind: str,
        reason: str,
        text: str,
        action: str,
        related: Mapping[str, Any] | None = None,
    ) -> None:
        recorder = self.recorders.get(profile)
        if recorder is not None:
            recorder.event(pod, kind, reason, text, action=action, related=related)

    def condition(self, type_: str, status: str, reason: str, message: str) -> dict[str, Any]:
        """A condition that has become so now."""
        since = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}

    def _writing(self, pod: Mapping[str, Any]) -> bool:
        return pod["metadata"]["uid"] in self._next

    def _put(self, pod: Mapping[str, Any], status: dict[str, Any]) -> None:
        """Write it, after what is being written of the same pod: the last word stands."""
        uid = pod["metadata"]["uid"]
        if uid in self._next:
            self._next[uid].update(status)
            return
        self._next[uid] = status
        task = asyncio.ensure_future(self._write_all(pod))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_all(self, pod: Mapping[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        try:
            while self._next[uid]:
                status, self._next[uid] = self._next[uid], {}
                await self._write(pod, status)
        finally:
            del self._next[uid]

    async def _write(self, pod: Mapping[str, Any], status: dict[str, Any]) -> None:
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            await self._client.patch(POD, meta["name"], meta["namespace"], body, kind="strategic", subresource="status")
        except NotFoundError:
            pass  # it is gone, and so is what there was to say
        except BerthError as exc:
            _log.warning("condition of pod %s/%s: %s", meta["namespace"], meta["name"], exc.message)


def _cut(text: str) -> str:
    return text if len(text) <= NOTE else text[: NOTE - 4] + " ..."
