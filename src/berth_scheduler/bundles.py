"""Binds of pods that need nothing else before them, many in one piece: a request of its own costs far more than a bind.

scheduler.py hands such flights over and is told what became of each. Each bind has its pod's uid as precondition and an
answer of its own, so one that is refused costs no other. Waits for no more of them: what has come up while the
connections were busy goes in one piece, and a pod that comes alone goes alone, at once.

The API server takes what comes over one connection one after the other. So a piece is only as large as it can be in
PIECE_SECONDS at the pace of the last ones: behind a slow API server each bind has its own connection again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from berth_core.errors import BerthError
from berth_core.model.resources import POD
from berth_kube.client import KubeClient

from .binding import Flight, binding_of

#: Binds in one piece, at the most; and those that may stand in line before decisions wait.
MOST = 32
#: How long a piece may take, and what a bind is taken to cost before one was seen.
PIECE_SECONDS, FIRST_PACE = 0.5, 0.125
#: Pieces under way: the fewest that keep an API server busy, and the client's connections. In between so many that
#: about IN_FLIGHT binds are.
FEWEST, CONNECTIONS, IN_FLIGHT = 8, 32, 128
#: From so many on in a piece their answers are looked at now and then; who waits for fewer waits for the first.
MANY, LOOK_SECONDS = 4, 0.05

#: Of one flight: its pod is bound, or why that is not known or not so.
Done = Callable[[Flight, "BerthError | None"], None]


class Bundles:
    """``done`` is called for each flight, in the order of the binds of its piece, and must not wait."""

    def __init__(self, client: KubeClient, done: Done) -> None:
        self._client, self._done = client, done
        self._loop = asyncio.get_running_loop()
        self._line: deque[Flight] = deque()
        self._more, self._room, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._room.set()
        self._pace, self._under_way = FIRST_PACE, 0

    def put(self, flight: Flight) -> None:
        """Bind its pod."""
        self._line.append(flight)
        self._more.set()
        if len(self._line) >= MOST:
            self._room.clear()

    @property
    def busy(self) -> bool:
        """Whether a burst is being bound, so that somebody waits for the API server."""
        return self._under_way >= FEWEST // 2

    async def room(self) -> None:
        """Until few wait. What stands in line is late for a pod that is more urgent, and is lost with the Lease."""
        await self._room.wait()

    async def run(self) -> None:
        """Until cancelled; what is under way then is left as it stands."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._more.wait()
                while self._under_way >= min(CONNECTIONS, max(FEWEST, IN_FLIGHT // self._size)):
                    self._ended.clear()
                    await self._ended.wait()
                self._under_way += 1
                group.create_task(self._bind(self._next()))

    @property
    def _size(self) -> int:
        """Binds in a piece, at today's pace."""
        return max(1, min(MOST, int(PIECE_SECONDS / self._pace)))

    def _next(self) -> list[Flight]:
        some = [self._line.popleft() for _number in range(min(self._size, len(self._line)))]
        if not self._line:
            self._more.clear()
        if len(self._line) < MOST:
            self._room.set()
        return some

    async def _bind(self, some: list[Flight]) -> None:
        """One piece."""
        began = self._loop.time()
        look_after = LOOK_SECONDS if len(some) >= MANY else 0.0
        bodies = [binding_of(flight.binding) for flight in some]
        refused: list[BerthError | None]
        try:
            refused = list(await self._client.create_all(POD, bodies, subresource="binding", look_after=look_after))
        except BerthError as exc:  # none was sent: the Lease is lost
            refused = [exc] * len(some)
        self._pace = (self._pace + max(1e-4, self._loop.time() - began) / len(some)) / 2
        self._under_way -= 1
        self._ended.set()
        for flight, error in zip(some, refused, strict=True):
            self._done(flight, error)
