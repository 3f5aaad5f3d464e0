"""TaskQueues: read when they change, and told on their status whether their tasks are started (condition Active)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from berth_core.errors import InputError, NotFoundError
from berth_core.model.resources import TASK_QUEUE
from berth_core.tasks.policies import BUILT_IN, Policies, Policy
from berth_core.tasks.queues import Queue, QueueKey, condition, examined
from berth_kube import outside
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.informer import Informer
from berth_kube.queue import Reconciler

Obj = dict[str, Any]
#: Packages name their policies in this group of entry points. Berth's own two stand there, too.
GROUP = "berth.task_policies"
_SAID = ("status", "reason", "message")


def known_policies(points: list[EntryPoint] | None = None) -> dict[str, Policy]:
    """Berth's own policies and those of packages that are installed. Raises InputError."""
    listed = list(entry_points(group=GROUP) if points is None else points)
    own = {f"{policy.__module__}:{policy.__qualname__}" for policy in BUILT_IN.values()}
    known = dict(BUILT_IN)
    others = [one for one in listed if one.value not in own]
    for one, loaded in outside.found(GROUP, "policy", BUILT_IN, others):
        if not callable(loaded):
            raise InputError(f"policy {one.name}: {one.value} is no function: expected one of a Line to its Turn")
        known[one.name] = loaded
    return known


class Queues:
    """Made inside a running loop. ``changed`` is called when queues are others than before."""

    def __init__(self, client: KubeClient, policies: Policies, changed: Callable[[], None]) -> None:
        self._client, self._policies, self._changed = client, policies, changed
        self._informer = Informer(client, TASK_QUEUE)
        self._queues: dict[QueueKey, Queue] = {}
        self._no_filler = ("", "")
        #: Called when ``changed`` is: of two who want to know the second.
        self.differ: Callable[[], None] = lambda: None
        self._visits: Reconciler[QueueKey] = Reconciler("taskqueue", self._say, 1)
        self._informer.on(self._there, lambda _old, new: self._there(new), self._gone)

    def all(self) -> Mapping[QueueKey, Queue]:
        """Every queue; one that cannot be carried out says so itself."""
        return self._queues

    async def run(self) -> None:
        """Until cancelled."""
        await self._informer.run()

    async def wait_synced(self) -> None:
        """Until all were listed."""
        await self._informer.wait_synced()

    async def tell(self) -> None:
        """Write what is to be said of each queue. Until cancelled."""
        await self._visits.run()

    def keep_filler(self, fault: tuple[str, str]) -> None:
        """Why no filler task starts; empty: they do."""
        if fault != self._no_filler:
            self._no_filler = fault
            for obj in self._informer.all():
                self._there(obj)

    def _there(self, obj: Obj) -> None:
        key, queue = _key(obj), examined(obj, self._policies.known)
        if queue.filler and not queue.fault[0]:
            queue = replace(queue, fault=self._no_filler)
        if self._queues.get(key) != queue:
            self._queues[key] = queue
            self.differ()
            self._changed()
        self._visits.queue.add(key)

    def _gone(self, obj: Obj) -> None:
        self._queues.pop(_key(obj), None)
        self._changed()

    async def _say(self, key: QueueKey) -> float | None:
        obj, queue = self._informer.get(key[1], key[0]), self._queues.get(key)
        if obj is None or queue is None:
            return None
        listed = (obj.get("status") or {}).get("conditions") or []
        made: dict[str, Any] = dict(condition(queue))
        old: Obj = next((one for one in listed if one.get("type") == made["type"]), {})
        generation = obj["metadata"].get("generation")
        if all(old.get(field) == made[field] for field in _SAID) and old.get("observedGeneration") == generation:
            return None
        since = old.get("lastTransitionTime") if old.get("status") == made["status"] else None
        when = since or utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        made |= {"lastTransitionTime": when, "observedGeneration": generation}
        others = [one for one in listed if one.get("type") != made["type"]]
        meta = {"uid": obj["metadata"]["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "status": {"conditions": [*others, made]}}
        try:
            await self._client.patch(TASK_QUEUE, key[1], key[0], body, subresource="status")
        except NotFoundError:  # deleted meanwhile
            return None
        return None


def _key(obj: Obj) -> QueueKey:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
