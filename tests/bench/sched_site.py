"""Where one scheduler is measured once: a namespace, filled quickly, watched without much work, emptied afterwards.

A pod that is bound leaves the selection of pods without a node. So the bench is told once for each pod, and never of
what becomes of it on its node: API server and bench do little that is not the scheduler's work.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from berth_core.model.resources import (
    CSI_STORAGE_CAPACITY,
    EVENT,
    NAMESPACE,
    POD,
    PV,
    PVC,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    Resource,
)
from berth_dev.cluster import Cluster
from berth_kube.client import KubeClient
from berth_kube.informer import Informer

Obj = dict[str, Any]
Item = TypeVar("Item")
AT_ONCE = 16
#: Seconds after which a run is given up.
PATIENCE = 1200.0
#: After so long without another Event all are written.
QUIET_SECONDS = 5.0


class Site:
    """``scheduler``: the name that the pods of this run bear; ``folder`` is for files of the run."""

    def __init__(self, cluster: Cluster, client: KubeClient, namespace: str, scheduler: str, folder: Path) -> None:
        self.cluster, self.client, self.folder = cluster, client, folder
        self.namespace, self.scheduler = namespace, scheduler

    async def make(self) -> None:
        """The namespace, when pods can be made in it."""
        await self.client.create(NAMESPACE, {"metadata": {"name": self.namespace}})

        async def account() -> bool:
            return await self.client.find(SERVICE_ACCOUNT, "default", self.namespace) is not None

        await until(account, "no service account in a new namespace")

    async def create(self, resource: Resource, bodies: Iterable[Obj]) -> None:
        """Create these, many at once."""
        await each(bodies, lambda body: self.client.create(resource, body, read=False))

    async def count(self, resource: Resource, namespace: str | None = "") -> int:
        """How many there are, asked cheaply. ``namespace`` empty: this one; None: all."""
        path = resource.path(None, self.namespace if namespace == "" else namespace)
        answer = json.loads(await self.client.raw(f"{path}?limit=1"))
        return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)

    async def told(self, used: Callable[[], float]) -> float:
        """Wait until no more Events come; returns what ``used`` said when the last one was there."""
        count, cpu, seen = -1, 0.0, 0.0
        while count < 0 or time.monotonic() < seen + QUIET_SECONDS:
            now = await self.count(EVENT)
            if now != count:
                count, cpu, seen = now, used(), time.monotonic()
            await asyncio.sleep(0.5)
        return cpu

    async def events(self) -> int:
        """Events that the scheduler of this run wrote."""
        listed = (await self.client.list(EVENT, self.namespace)).items
        return Counter(event.get("reportingController") for event in listed)[self.scheduler]

    async def pods(self) -> list[Obj]:
        return (await self.client.list(POD, self.namespace)).items

    async def clear(self) -> None:
        """Away with pods, claims, volumes and the class: who is measured next has none of them in its caches."""
        for resource, namespace in ((POD, self.namespace), (PVC, self.namespace), (PV, None)):
            await self._empty(resource, namespace)
        await self.client.delete(STORAGE_CLASS, self.namespace)
        await until(self._untold, "the controller still tells of disks of the class")

    async def _untold(self) -> bool:
        """Nobody tells kube-scheduler how much room there is of the class; it would look at that for each node."""
        told = (await self.client.list(CSI_STORAGE_CAPACITY)).items
        return not any(one["storageClassName"] == self.namespace for one in told)

    async def _empty(self, resource: Resource, namespace: str | None) -> None:
        async def delete(one: Obj) -> None:
            meta = one["metadata"]
            await self.client.delete(resource, meta["name"], meta.get("namespace"), grace_seconds=0)

        async def gone() -> bool:
            return await self.count(resource, namespace) == 0

        await each((await self.client.list(resource, namespace)).items, delete)
        await until(gone, f"{resource.plural} do not go")


class Binds:
    """Use as an async context manager: when each of so many pods was seen bound (time.monotonic)."""

    def __init__(self, site: Site, wanted: int) -> None:
        self.times: dict[str, float] = {}
        self._wanted, self._done = wanted, asyncio.Event()
        self._pods = Informer(site.client, POD, site.namespace, fields="spec.nodeName=", transform=_named)
        self._pods.on(delete=self._bound)

    def _bound(self, pod: Obj) -> None:
        self.times.setdefault(pod["metadata"]["name"], time.monotonic())
        if len(self.times) == self._wanted:
            self._done.set()

    async def __aenter__(self) -> Binds:
        self._watching = asyncio.ensure_future(self._pods.run())
        await self._pods.wait_synced()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def all(self, check: Callable[[], None]) -> float:
        """Wait until all are bound; returns when the last one was. ``check`` raises when it is of no use to wait."""
        end = time.monotonic() + PATIENCE
        while not self._done.is_set():
            check()
            if time.monotonic() > end:
                raise SystemExit(f"sched/: {len(self.times)} of {self._wanted} pods are bound, no more")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._done.wait(), 2)
        return max(self.times.values())


def _named(pod: Obj) -> Obj:
    meta = pod["metadata"]
    return {"metadata": {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion")}}


async def each(items: Iterable[Item], do: Callable[[Item], Awaitable[object]]) -> None:
    """Do it for each, AT_ONCE at a time."""
    waiting = iter(items)

    async def some() -> None:
        for item in waiting:
            await do(item)

    await asyncio.gather(*(some() for _number in range(AT_ONCE)))


async def until(condition: Callable[[], Awaitable[bool]], otherwise: str, pause: float = 0.2) -> None:
    """Wait until it holds; ends the bench with ``otherwise`` when it never does."""
    end = time.monotonic() + PATIENCE
    while not await condition():
        if time.monotonic() > end:
            raise SystemExit(f"sched/: {otherwise}")
        await asyncio.sleep(pause)


async def at_rate(items: Sequence[Obj], per_second: float, do: Callable[[Obj], Awaitable[object]]) -> list[float]:
    """Begin one every so often, whether or not those before are through; returns when each began (time.monotonic)."""
    start, began, running = time.monotonic(), [], []
    for index, item in enumerate(items):
        await asyncio.sleep(max(0.0, start + index / per_second - time.monotonic()))
        began.append(time.monotonic())
        running.append(asyncio.ensure_future(do(item)))
    await asyncio.gather(*running)
    return began
