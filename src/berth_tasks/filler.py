"""FillerWork: looks what nodes use while there is filler work, and ends filler tasks where others come to use more.

Who starts is decided in the backend's rounds, after all others; how much room there is says
berth_core.tasks.filler_room.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from berth_core.tasks import offers
from berth_core.tasks.account import Charge
from berth_core.tasks.filler_room import Filler

from .backend import KubernetesTaskSchedulerBackend
from .nodes import Nodes
from .queues import Queues

#: What arrives within so many seconds is looked at together.
GATHER = 0.5
#: After an eviction that was refused it is tried again so many seconds later.
AGAIN = 5.0
#: A pod that nobody has placed on its node within so many seconds is sent to another one.
PATIENCE = 60.0


class FillerWork:
    """Made inside a running loop. ``room`` is called after each look."""

    def __init__(
        self, backend: KubernetesTaskSchedulerBackend, nodes: Nodes, queues: Queues, room: Callable[[], None]
    ) -> None:
        self._usage, self._backend, self._queues, self._room = backend.usage, backend, queues, room
        self._allocations = backend.allocations
        self._loop = asyncio.get_running_loop()
        self._wake, self._looks = asyncio.Event(), False
        nodes.arrived = backend.allocations.arrived = queues.differ = self._wake.set
        #: When a pod without a node was seen first.
        self._unplaced: dict[Charge, float] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._looks = self._needed()
            if self._looks:
                await self._usage.look(self._allocations.fillers())
                self._queues.keep_filler(self._usage.fault)
                await self._give_way()
                self._room()
            else:
                self._usage.forget()
            await self._until_next()

    # -- figures (metrics.Now) -------------------------------------------------------------------------------------

    def room(self) -> dict[str, int]:
        """What filler tasks may have on all nodes together, by resource."""
        if not self._looks:
            return {}
        return offers.total(
            one.free for one in self._usage.offers(self._allocations.filled(), self._allocations.fillers())
        )

    def running(self) -> dict[tuple[str, str], int]:
        """Filler tasks that have a pod, or are about to, by namespace and queue."""
        queues = (self._backend.tasks.queue_of(one.charge[0]).partition("/") for one in self._allocations.fillers())
        return dict(Counter((namespace, name) for namespace, _slash, name in queues))

    # -- one look --------------------------------------------------------------------------------------------------

    def _needed(self) -> bool:
        return any(queue.filler for queue in self._backend.queues().values()) or bool(self._allocations.fillers())

    async def _until_next(self) -> None:
        end = self._loop.time() + self._usage.interval
        while True:
            try:
                async with asyncio.timeout_at(end):
                    await self._wake.wait()
            except TimeoutError:
                return
            self._wake.clear()
            if not self._looks and self._needed():
                return
            await asyncio.sleep(GATHER)
            await self._give_way()

    async def _give_way(self) -> None:
        fillers = self._allocations.fillers()
        if not fillers:
            return
        chosen = self._usage.gives_way(self._allocations.filled(), fillers)
        ends = dict.fromkeys(chosen, "others use what they have reserved there")
        for one in self._nowhere(fillers):
            self._backend.fillers.avoid(one.charge, one.node)
            ends[one.charge] = f"nobody has placed it on node {one.node}"
        done = await asyncio.gather(*(self._backend.end(key, why) for key, why in ends.items()))
        if not all(done):
            self._loop.call_later(AGAIN, self._wake.set)

    def _nowhere(self, fillers: Sequence[Filler]) -> list[Filler]:
        """Those whose pod has waited too long for its node: what keeps it from there is not looked at here."""
        now, waiting = self._loop.time(), [one for one in fillers if one.pod[1] and not one.started and not one.going]
        self._unplaced = {one.charge: self._unplaced.get(one.charge, now) for one in waiting}
        return [one for one in waiting if now - self._unplaced[one.charge] > PATIENCE]
