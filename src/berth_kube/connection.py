"""One connection to a server: one exchange after the other, given up at a deadline. connecting.py opens it.

An exchange is a request and its answer, or a bundle: several requests in one write, and their answers in that order.

Used by wire.py, which tells of it in the words of exchange.py. Knows HTTP only through http1.py.

A deadline aborts the connection instead of cancelling the task that waits: the waiting side then sees the end of the
stream. That leaves cancellation to mean one thing, that somebody wants the task to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from .exchange import CLOSED, PROTOCOL, TIMEOUT, Ask, Outcome, Response, WireError
from .http1 import ClosedError, Framed, FramingError, Head

#: An idle connection older than this is not trusted to be alive: load balancers forget connections silently.
IDLE_SECONDS = 60.0
#: A stream that holds more which nobody has read yet is not read on.
READ_BYTES = 256 * 1024
#: A stream of more pieces a second, for WINDOW seconds, is looked at now and then where its reader wants that.
MANY, WINDOW = 500, 0.05


class Connection(asyncio.Protocol):
    """One connection: one exchange at a time. Made by `connect`.

    A protocol of callbacks, not a stream: what arrives goes to the parser at once, and who waits is woken when all of
    what he waits for is there. A request costs one future, whatever the number of pieces its answer comes in.
    """

    _transport: asyncio.Transport

    def __init__(self, framing: Framed) -> None:
        self._framing = framing
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._alarm: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        self._broken: WireError | None = None
        self._out: list[bytes] = []
        self._expired = self._closing = self._paused = False
        self._window, self._pieces, self._busy = 0.0, 0, False
        self.idle_since = self._loop.time()
        self.fresh = True
        self._begin()

    def _begin(self) -> None:
        """Ready for the next exchange."""
        self._head: Head | None = None
        self._parts: list[bytes] = []
        self._held = self._asked = 0
        self._answers: list[Response] = []
        self._ended = self._streams = False
        self._look_after = 0.0
        self._waiter: asyncio.Future[None] | None = None

    # -- for wire.py and watch.py ------------------------------------------------------------------------------------

    def alive(self) -> bool:
        """False when the server has closed it, or it has been idle for too long."""
        too_old = self._loop.time() - self.idle_since > IDLE_SECONDS
        return not (too_old or self._broken or self._closing)

    def until(self, deadline: float) -> None:
        """From now on the connection is aborted when the loop's clock reaches ``deadline``.

        The timer of an earlier exchange is let run and looks what holds by then: most requests cost none.
        """
        self._deadline = deadline
        if self._alarm is not None and self._alarm.when() > deadline:
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None:
            self._alarm = self._loop.call_at(deadline, self._expire)

    async def exchange(self, asks: Sequence[Ask], look_after: float = 0.0) -> list[Outcome]:
        """Send the requests in one piece, or one after the other where the framing knows no better.

        For each its answer, or why it has none. ``look_after``: what has come is read so many seconds later, and again
        after as many until all are answered; who waits is woken once, whatever their number.
        """
        if len(asks) > 1 and not self._framing.pipelines:
            return await self._one_by_one(asks)
        found: list[Outcome | None] = [self._render(ask) for ask in asks]
        sent = [index for index, one in enumerate(found) if one is None]
        if sent:
            self._asked = len(sent)
            self._transport.write(b"".join(self._out))
            if look_after:
                self._look_after = look_after
                self._pause_a_while()
            while not (self._ended or self._broken):
                await self._wait()
        self._out.clear()
        for number, index in enumerate(sent):
            found[index] = self._answers[number] if number < len(self._answers) else self._broken
        return cast("list[Outcome]", found)

    async def _one_by_one(self, asks: Sequence[Ask]) -> list[Outcome]:
        found: list[Outcome] = []
        for number, ask in enumerate(asks):
            found += await self.exchange([ask])
            last = number == len(asks) - 1
            if not last and not (isinstance(found[-1], Response) and self._framing.reusable()):
                closed = WireError(CLOSED, "the connection was closed", sent=False)
                return found + [closed] * (len(asks) - number - 1)
            if not last:
                self._begin()
        return found

    async def start(self, method: str, target: str, headers: Mapping[str, str], look_after: float = 0.0) -> Head:
        """Send one request whose answer is read in pieces, by `read`; returns its head.

        ``look_after``: while very much comes, what follows within so many seconds is taken with it in one piece. What
        comes now and then is never kept waiting.
        """
        self._streams, self._asked, self._look_after = True, 1, look_after
        refused = self._render(Ask(method, target, headers))
        if refused is not None:
            raise refused
        self._transport.write(self._out.pop())
        while self._head is None:
            await self._news()
        return self._head

    async def read(self) -> bytes:
        """The next bytes of the answer; empty at its end."""
        while not self._parts:
            if self._ended:
                return b""
            await self._news()
        data = b"".join(self._parts)
        self._parts, self._held = [], 0
        if self._paused:
            self._loop.call_later(self._look_after, self._look)
        return data

    def finish(self) -> bool:
        """The answer was read. True when the connection may be used again."""
        self._deadline = None
        self.fresh = False
        self.idle_since = self._loop.time()
        usable = self._framing.reusable() and self.alive()
        self._begin()
        return usable

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._closing, self._deadline = True, None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._transport.abort()

    async def closed(self) -> None:
        """Until the transport is really gone."""
        await asyncio.shield(self._gone)

    def _render(self, ask: Ask) -> WireError | None:
        """Put the bytes of a request behind those that wait to be sent. One that cannot be sent costs no other."""
        try:
            self._out.append(self._framing.request(ask.method, ask.target, ask.headers, ask.body))
        except FramingError as exc:
            return WireError(PROTOCOL, str(exc), sent=False)
        return None

    async def _news(self) -> None:
        """Until something has come. Raises WireError where nothing will any more."""
        if self._broken is None:
            await self._wait()
        if self._broken is not None and not self._ended:
            raise self._broken

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter

    # -- what the transport calls ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer; what nobody has asked for is none, and must not become that of the next request."""
        if not self._asked:
            self._fail(CLOSED, ConnectionResetError("the connection was closed"))
            self._transport.abort()
            return
        try:
            try:
                self._framing.receive(data)
            finally:
                self._collect()
        except FramingError as exc:
            self._fail(CLOSED if isinstance(exc, ClosedError) or not data else PROTOCOL, exc)

    def eof_received(self) -> None:
        """The server has closed: that ends an answer, or breaks it."""
        self._closing = True
        if self._broken is None and not self._ended:
            self.data_received(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if not self._gone.done():
            self._gone.set_result(None)
        self._closing = True
        self._fail(CLOSED, exc or ConnectionResetError("the connection was closed"))

    def _collect(self) -> None:
        part = self._framing.next()
        while part is not None:
            if isinstance(part, bytes):
                self._parts.append(part)
                self._held += len(part)
                self._pieces += 1
            elif isinstance(part, Head):
                self._head = part
            else:
                self._answered()
            part = self._framing.next()
        if self._ended or self._streams:
            self._wake()
            slower = self._held > READ_BYTES or (self._look_after and self._parts and self._is_busy())
            if slower and not self._paused and not self._ended:  # the reader is slower, or wants to be
                self._pause()
        elif self._look_after and not self._paused:
            self._pause_a_while()

    def _is_busy(self) -> bool:
        now = self._loop.time()
        if now - self._window > WINDOW:
            self._busy = self._pieces > MANY * (now - self._window)
            self._window, self._pieces = now, 0
        return self._busy

    def _answered(self) -> None:
        """An answer is whole."""
        if not self._streams:
            assert self._head is not None  # noqa: S101 - the parser ends no answer that has none
            parts = self._parts
            self._answers.append(Response(self._head, parts[0] if len(parts) == 1 else b"".join(parts)))
            self._parts, self._held = [], 0
        self._ended = self._streams or len(self._answers) == self._asked

    def _pause(self) -> None:
        self._paused = True
        self._transport.pause_reading()

    def _pause_a_while(self) -> None:
        self._pause()
        self._loop.call_later(self._look_after, self._look)

    def _look(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            self._transport.resume_reading()

    def _fail(self, kind: str, exc: Exception) -> None:
        if self._broken is None:
            text = str(exc) or type(exc).__name__
            self._broken = WireError(kind, text, sent=True)
            if self._expired:
                self._broken = WireError(TIMEOUT, "no complete answer in time", sent=True)
            self._broken.__cause__ = exc
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _expire(self) -> None:
        self._alarm = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._alarm = self._loop.call_at(self._deadline, self._expire)
            return
        self._expired = True
        self._transport.abort()
