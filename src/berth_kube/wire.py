"""Connections to one server, kept alive and bounded in number. Called by sending.py alone. Knows nothing of the API.

What failed is told as a `WireError`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Callable

from .connecting import connect
from .connection import IDLE_SECONDS, Connection
from .exchange import PROTOCOL, TIMEOUT, Ask, Endpoint, Outcome, Response, WireError
from .http1 import Framed, Framing, Head


class Wire:
    """A bounded pool of connections for requests, and connections of their own for streams.

    ``context`` is asked at each new connection, so that changed certificates are taken up. Made inside a running loop.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        context: Callable[[], ssl.SSLContext | None],
        limit: int,
        framing: Callable[[], Framed] = Framing,
    ) -> None:
        self._endpoint, self._context, self._limit, self._framing = endpoint, context, limit, framing
        self._loop = asyncio.get_running_loop()
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._busy = 0
        self._closed = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def line(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    async def enter(self, deadline: float | None) -> None:
        """Wait for one of the ``limit`` places, in the order of asking; without a deadline as long as it takes."""
        if self._busy < self._limit and not self._waiting:
            self._busy += 1
            return
        place: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(place)
        alarm = None if deadline is None else self._loop.call_at(deadline, _give_up, place)
        try:
            await place  # whoever leaves hands over the place itself
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave()
            raise
        finally:
            if alarm is not None:
                alarm.cancel()

    def leave(self) -> None:
        """Give the place to the next."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._busy -= 1

    async def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, deadline: float
    ) -> Response:
        """One exchange of who has a place. Where the server closes a kept connection meanwhile, the kind is CLOSED."""
        (answer,) = await self.bundle([Ask(method, target, headers, body)], deadline)
        if isinstance(answer, WireError):
            raise answer
        return answer

    async def bundle(self, asks: Sequence[Ask], deadline: float, look_after: float = 0.0) -> list[Outcome]:
        """Several of who has one place, in one piece: see `Connection.exchange`. Raises WireError: nothing was sent."""
        connection = self._kept() or await self._new(deadline)
        try:
            connection.until(deadline)
            asks = [Ask(one[0], self._endpoint.prefix + one[1], self._headers(one[2]), one[3]) for one in asks]
            found = await connection.exchange(asks, look_after)
        except BaseException:
            self.drop(connection)
            raise
        failed = [one for one in found if isinstance(one, WireError)]
        for one in failed:
            one.kept = not connection.fresh or len(failed) < len(found)
        if not failed and connection.finish():
            self._idle.append(connection)
            self._sweep_later()
        else:
            self.drop(connection)
        return found

    async def stream(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        deadline: float,
        limit: float,
        look_after: float = 0.0,
    ) -> tuple[Head, Connection]:
        """Head by ``deadline``, then bytes from ``connection.read()`` until ``limit``; ends with `drop`.

        ``look_after``: see `Connection.start`.
        """
        connection = await self._new(deadline)
        try:
            connection.until(deadline)
            head = await connection.start(method, self._endpoint.prefix + target, self._headers(headers), look_after)
        except BaseException:
            self.drop(connection)
            raise
        connection.until(limit)
        return head, connection

    def drop(self, connection: Connection) -> None:
        """Close a connection."""
        connection.abort()
        self._open.discard(connection)

    def forget_idle(self) -> None:
        """Close what is idle: the next request opens a connection with today's certificates."""
        while self._idle:
            self.drop(self._idle.pop())

    async def close(self) -> None:
        """Abort everything, and wait until the sockets are gone. No connection is opened any more."""
        self._closed = True
        connections = list(self._open)
        self._idle.clear()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in connections:
            self.drop(connection)
        await asyncio.gather(*(connection.closed() for connection in connections))

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {"host": self._endpoint.authority, **headers}

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive():
                return connection
            self.drop(connection)
        return None

    def _sweep_later(self) -> None:
        """What a burst needed is not kept for good: thousands of clients would hold as many connections each."""
        if self._sweep is None and not self._closed:
            self._sweep = self._loop.call_later(IDLE_SECONDS, self._forget_old)

    def _forget_old(self) -> None:
        self._sweep = None
        kept = [each for each in self._idle if each.alive()]
        for each in set(self._idle).difference(kept):
            self.drop(each)
        self._idle = kept
        if kept:
            self._sweep_later()

    async def _new(self, deadline: float) -> Connection:
        self._refuse_closed()
        connection = await connect(self._endpoint, self._context(), deadline, self._framing)
        self._open.add(connection)
        try:
            self._refuse_closed()  # it may have been closed meanwhile
        except WireError:
            self.drop(connection)
            raise
        return connection

    def _refuse_closed(self) -> None:
        if self._closed:
            raise WireError(PROTOCOL, "this client is closed", sent=False)


def _give_up(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_exception(WireError(TIMEOUT, "all connections are busy", sent=False))
