"""POST requests with JSON bodies over HTTP/1.1, many on one connection. Started by command.py.

Knows no verbs: `answer` is given a path and a body. A body is refused (413) as soon as it is known to be too large, by
its own word or while it arrives; so is one more than memory is set aside for (503). What is not HTTP is answered with
400 and cut off. Whoever is slow is cut off too (berth_kube/listening.py), and nobody else notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import h11

from berth_kube.listening import Limits, Peer, Port
from berth_kube.serve import MAX_HEAD
from berth_kube.tls import ServerTls

from .messages import Refused

LIMITS = Limits(
    places=64, per_address=16, handshakes=64, handshake_seconds=5.0, request_seconds=30.0, idle_seconds=120.0
)
#: 5,000 whole nodes with 50 images each have some 60 MB.
MAX_BODY = 64 << 20
#: Of all bodies together.
BUDGET = 256 << 20
#: So much of a refused body is still read, that its sender comes to read why.
DISCARD = 4 << 20
_CHUNK = 256 << 10

#: Says status and JSON value for (path, body). Raises Refused.
Answer = Callable[[str, bytes], Awaitable[Any]]


class Listener:
    """One port; ``port`` 0 takes a free one, and `port` says which. ``paths``: what may be asked for."""

    def __init__(
        self,
        host: str,
        port: int,
        paths: frozenset[str],
        answer: Answer,
        tls: ServerTls | None = None,
        refused: Callable[[str], None] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._port = Port(host, port, self._serve, limits, tls, refused)
        self._paths, self._answer, self._limits = paths, answer, limits
        self._held = 0

    @property
    def port(self) -> int:
        """The port, also where it was given as 0, once it listens."""
        return self._port.port

    async def start(self) -> None:
        """Listen. Raises InputError when the address cannot be had."""
        await self._port.start()

    async def stop(self) -> None:
        """Listen no more, and cut off who is still there."""
        await self._port.stop()

    async def _serve(self, peer: Peer) -> None:
        talk = _Talk(peer, self._limits)
        with contextlib.suppress(h11.ProtocolError):
            while await self._exchange(talk):
                talk.next()

    async def _exchange(self, talk: _Talk) -> bool:
        """One request and its answer. False: the connection is at its end."""
        held = bytearray()
        try:
            request = await talk.event()
            if not isinstance(request, h11.Request):
                return False
            path = request.target.decode("ascii", "replace").split("?", 1)[0]
            self._check(request, path)
            await self._read(talk, held)
            talk.peer.works()
            document = await self._answer(path, bytes(held))
        except Refused as exc:
            await talk.send(exc.status, {"Error": exc.message}, close=True)
            await talk.discard()
            return False
        except h11.RemoteProtocolError as exc:
            await talk.send(400, {"Error": f"this is not HTTP/1.1: {exc}"}, close=True)
            return False
        finally:
            self._held -= len(held)
        await talk.send(200, document)
        return talk.parser.our_state is h11.DONE and talk.parser.their_state is h11.DONE

    def _check(self, request: h11.Request, path: str) -> None:
        if path not in self._paths:
            raise Refused(404, f"{path}: expected {', '.join(sorted(self._paths))}")
        if request.method != b"POST":
            raise Refused(405, f"{request.method.decode('ascii', 'replace')}: expected POST")
        size = next((value for name, value in request.headers if name == b"content-length"), b"0")
        if int(size) > MAX_BODY:  # h11 has seen to it that it is a number
            raise Refused(413, f"the body has {int(size)} bytes: expected at most {MAX_BODY}")

    async def _read(self, talk: _Talk, held: bytearray) -> None:
        """The whole body, counted while it arrives."""
        await talk.invite()
        while True:
            event = await talk.event()
            if isinstance(event, h11.EndOfMessage):
                return
            if not isinstance(event, h11.Data):
                raise h11.RemoteProtocolError("the request ended in the middle")
            held += event.data
            self._held += len(event.data)
            if len(held) > MAX_BODY:
                raise Refused(413, f"the body has more than {MAX_BODY} bytes")
            if self._held > BUDGET:
                raise Refused(503, "too many large requests at one moment: ask again")


class _Talk:
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

    async def send(self, status: int, document: Any, close: bool = False) -> None:
        """One answer; nothing where the other side cannot be answered any more."""
        if self.parser.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = json.dumps(document, separators=(",", ":")).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        headers += [("allow", "POST")] * (status == 405) + [("connection", "close")] * close
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
        left = DISCARD
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(2.0):
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                while left > 0:
                    data = await self._reader.read(_CHUNK)
                    if not data:
                        return
                    left -= len(data)
