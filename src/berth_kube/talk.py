"""One HTTP/1.1 connection of a server that takes bodies: requests in, JSON out. Used by the extender and by programs.

Who is slow, and how many there may be, is listening.py's matter. Knows no paths.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import h11

from .listening import Limits, Peer
from .serve import MAX_HEAD

#: So much of a refused body is still read, that its sender comes to read why.
DISCARD = 4 << 20
_CHUNK = 256 << 10


class Talk:
    """One connection."""

    def __init__(self, peer: Peer, limits: Limits) -> None:
        self.parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self.peer, self._limits = peer, limits
        self._reader, self._writer = peer.reader, peer.writer
        #: Nothing of the next request has come. The first one is due from the start.
        self._idle = False

    async def event(self) -> Any:
        """The next part of a request. Raises h11.RemoteProtocolError."""
        while True:
            event = self.parser.next_event()
            if event is not h11.NEED_DATA:
                return event
            data = await self._reader.read(_CHUNK)
            if self._idle:
                self._idle = False
                self.peer.waits(self._limits.request_seconds)
            self.parser.receive_data(data)

    def next(self) -> None:
        """Another request may come, or a part of it lies here."""
        self.parser.start_next_cycle()
        self._idle = not self.parser.trailing_data[0]
        if self._idle:
            self.peer.waits(self._limits.idle_seconds, late="")
        else:
            self.peer.waits(self._limits.request_seconds)

    async def invite(self) -> None:
        """Tell a careful client that its body is welcome."""
        if self.parser.they_are_waiting_for_100_continue:
            await self._write(self.parser.send(h11.InformationalResponse(status_code=100, headers=[])))

    async def send(self, status: int, document: Any, close: bool = False, allow: str = "POST") -> None:
        """One answer; nothing where the other side cannot be answered any more."""
        if self.parser.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = json.dumps(document, separators=(",", ":")).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        headers += [("allow", allow)] * (status == 405) + [("connection", "close")] * close
        parts = [
            self.parser.send(h11.Response(status_code=status, headers=headers)),
            self.parser.send(h11.Data(data=body)),
            self.parser.send(h11.EndOfMessage()),
        ]
        self.peer.waits(self._limits.request_seconds)
        await self._write(b"".join(part for part in parts if part))

    async def _write(self, data: bytes | None) -> None:
        self._writer.write(data or b"")
        await self._writer.drain()

    async def discard(self) -> None:
        """Read a little on, unlooked at: a connection that is cut off at once takes the answer with it."""
        with contextlib.suppress(asyncio.TimeoutError, OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()
            await asyncio.wait_for(self._read_on(), 2.0)

    async def _read_on(self) -> None:
        left = DISCARD
        while left > 0:
            data = await self._reader.read(_CHUNK)
            if not data:
                return
            left -= len(data)
