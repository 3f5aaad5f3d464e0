"""PodsWatchSnapshotSource: list-watch of tasks' pods that goes on from the checkpoint: a restart misses nothing.

Where the version is too old (410, as status or in the stream) it lists again; what went meanwhile is found by the list.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from berth_core.errors import BerthError, GoneError, InputError
from berth_core.model.resources import POD
from berth_core.tasks.pods import PodState, read_pod
from berth_core.tasks.task import UID_LABEL
from berth_kube.client import KubeClient
from berth_kube.informer import SHORT_WATCH, WATCH_SECONDS, pause
from berth_kube.reading import Listing
from berth_kube.watch import Event

from .store import PodSnapshotStore

_log = logging.getLogger(__name__)


async def list_pods(client: KubeClient, shared: Callable[[PodState], PodState]) -> tuple[list[PodState], int]:
    """Every pod of a task, as of one version. ``shared``: with what is known of it already (`PodSnapshotStore`)."""
    try:
        return await _read_pages(client.pages(POD, labels=UID_LABEL), shared)
    except GoneError:  # took longer than the server remembers: once more, in one go
        return await _read_pages(client.pages(POD, labels=UID_LABEL, limit=0), shared)


async def _read_pages(
    listed: AsyncGenerator[Listing, None], shared: Callable[[PodState], PodState]
) -> tuple[list[PodState], int]:
    """Of a page no more is kept than the states that are new: all pods as they are would be a hundred MB."""
    version, found = 0, []
    async with aclosing(listed) as pages:
        async for page in pages:
            version = version or int(page.version or 0)
            found += [shared(pod) for pod in map(read, page.items) if pod is not None]
            page.items.clear()
    return found, version


def read(item: dict[str, Any]) -> PodState | None:
    """The state of a pod; one that cannot be read is told of and left out."""
    try:
        return read_pod(item)
    except InputError as exc:
        _log.error("a pod of a task cannot be read: %s", exc.message)
        return None


class PodsWatchSnapshotSource:
    """Fills a store. It goes on from the store's snapshot, where that has a version. ``lists``: whole lists so far."""

    def __init__(self, client: KubeClient, store: PodSnapshotStore, seconds: float = WATCH_SECONDS) -> None:
        self._client, self._store, self._seconds = client, store, seconds
        self._version = store.snapshot.version
        self._loop = asyncio.get_running_loop()
        self._failures = 0
        self._unsure = bool(self._version)
        self.synced = asyncio.Event()
        self.lists = 0

    async def run(self) -> None:
        """Until cancelled. Nothing that the API server does ends it."""
        while True:
            try:
                await self._once()
            except GoneError as exc:
                _log.info("pods of tasks: %s; listing again", exc.message)
                self._version = 0
                await self._failed()
            except BerthError as exc:
                if not self._failures:
                    _log.warning("%s; trying again until it works", exc.message)
                self._unsure = True
                await self._failed()

    async def _once(self) -> None:
        if self._version and self._unsure:
            await self._same_history()
        if not self._version:
            pods, self._version = await list_pods(self._client, self._store.shared)
            self.lists += 1
            self._store.replace(pods, self._version)
        self._unsure = False
        self.synced.set()
        await self._watch()

    async def _same_history(self) -> None:
        """A version that is to come is watched in silence: after a restore of etcd everything is listed anew."""
        page = await self._client.page(POD, labels=UID_LABEL, limit=1)
        if int(page.version or 0) < self._version:
            _log.warning(
                "pods of tasks: the API server is at %s, before %d; listing again", page.version, self._version
            )
            self._version = 0
            self._store.rewound()

    async def _watch(self) -> None:
        began, told = self._loop.time(), False
        seconds = self._seconds * (1.0 + random.random())  # noqa: S311 - not all at one moment
        async with self._client.watch(POD, str(self._version), seconds=seconds, labels=UID_LABEL) as events:
            async for event in events:
                self._take(event)
                told, self._failures = True, 0
        if not told and self._loop.time() - began < SHORT_WATCH:
            await self._failed()

    def _take(self, event: Event) -> None:
        self._version = max(self._version, int(event.version or 0))
        if event.type == "BOOKMARK":
            self._store.tell(None, self._version)
            return
        pod = read(event.object)
        self._store.tell(pod, self._version, there=event.type != "DELETED")

    async def _failed(self) -> None:
        self._failures += 1
        await asyncio.sleep(pause(self._failures, random.random()))  # noqa: S311 - not all at one moment
