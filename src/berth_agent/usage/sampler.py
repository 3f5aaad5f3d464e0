"""Takes a sample of every container every minute and hands it to the store. A Part.

When the store fails, samples of the last minutes are kept and written when it works again; the disks never wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence

from berth_core.app.agent_settings import Usage
from berth_core.errors import ApiError, BerthError
from berth_core.model.resources import NODE

from ..figures import Figures
from ..kubelet import KubeletClient
from ..seams import Object, Tools
from .samples import Sample, samples_of
from .store import Store, open_store

LOG = logging.getLogger("berth_agent.usage")
#: Minutes that a store may be away; older ones are dropped.
_WAITING = 15
_EXPIRE_EVERY = 3600.0
_NODE_FOR = 600.0


class Sampler:
    """One node's samples."""

    def __init__(self, tools: Tools, kubelet: KubeletClient, registry: Figures) -> None:
        self.tools, self.kubelet = tools, kubelet
        self._taken = registry.counter("berth_agent_usage_samples_total", "Samples taken.")
        self._failed = registry.counter("berth_agent_usage_failures_total", "Rounds without samples or store.")
        self._store: Store | None = None
        self._opened: Usage | None = None
        self._waiting: deque[Sequence[Sample]] = deque(maxlen=_WAITING)
        self._expired = float("-inf")
        self._node: tuple[float, Object] | None = None
        self._told = ""

    def wake(self) -> None:
        """Nothing to do: the settings are read each round."""

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await asyncio.sleep(self.tools.settings().intervals.usage)
                await self._round()
        finally:
            if self._store is not None:
                await self._store.close()

    async def _round(self) -> None:
        try:
            await self._open()
            if self._store is None:
                return
            await self._sample()
            await self._write(self._store)
            self._told = ""
        except BerthError as exc:
            self._failed.add()
            if exc.message != self._told:
                LOG.warning("usage: %s", exc.message)
            self._told = exc.message

    async def _open(self) -> None:
        usage = self.tools.settings().usage
        if usage == self._opened:
            return
        if self._store is not None:
            await self._store.close()
        self._store, self._opened = open_store(usage, self.tools.node), usage

    async def _sample(self) -> None:
        """Ask the kubelet; its address is asked of the API server now and then, and remembered."""
        now = time.monotonic()
        if self._node is None or now - self._node[0] > _NODE_FOR:
            try:
                self._node = (now, await self.tools.client.get(NODE, self.tools.node))
            except BerthError:
                if self._node is None:
                    raise
        found = samples_of(await self.kubelet.summary(self._node[1]), int(time.time()))
        if found:
            self._waiting.append(found)
            self._taken.add(len(found))

    async def _write(self, store: Store) -> None:
        while self._waiting:
            try:
                await store.write(self._waiting[0])
            except ApiError as exc:
                if exc.status in range(400, 500) and exc.status != 429:
                    self._waiting.popleft()  # it will never be taken
                raise
            self._waiting.popleft()
        if time.monotonic() - self._expired > _EXPIRE_EVERY:
            await store.expire(int(time.time() - self.tools.settings().usage.retention))
            self._expired = time.monotonic()
