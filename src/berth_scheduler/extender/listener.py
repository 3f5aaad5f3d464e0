"""POST requests with JSON bodies over HTTP/1.1, many on one connection. command.py starts me.

I know no verbs: `answer` is given a path and a body. A body is refused (413) as soon as it is known to be too large, by
its own word or while it arrives; so is one more than memory is set aside for (503). What is not HTTP is answered with
400 and cut off. Whoever is slow is cut off too, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import h11

from berth_core.errors import InputError
from berth_kube.serve import MAX_HEAD, ServerTls

from .messages import Refused

_log = logging.getLogger(__name__)

CONNECTIONS = 64
#: 5,000 whole nodes with 50 images each have some 60 MB.
MAX_BODY = 64 << 20
#: Of all bodies together.
BUDGET = 256 << 20
IDLE_SECONDS = 120.0
SECONDS = 30.0
#: So much of a refused body is still read, that its sender comes to read why.
DISCARD = 4 << 20
_CHUNK = 256 << 10

#: Says status and JSON value for (path, body). Raises Refused.
Answer = Callable[[str, bytes], Awaitable[Any]]


class Listener:
    """One port; ``port`` 0 takes a free one, and `port` says which. ``paths``: what may be asked for."""

    def __init__(
        self, host: str, port: int, paths: frozenset[str], answer: Answer, tls: ServerTls | None = None
    ) -> None:
        self._host, self.port, self._paths, self._answer, self._tls = host, port, paths, answer, tls
        self._server: asyncio.AbstractServer | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._held = 0

    async def start(self) -> None:
        """Listen. Raises InputError when the address cannot be had."""
        context = self._tls.listening if self._tls else None
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self.port, ssl=context, limit=_CHUNK)
        except OSError as exc:
            raise InputError(f"cannot listen on {self._host}:{self.port}: {exc.strerror or exc}") from exc
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more, and cut off who is still there."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS:
            writer.transport.abort()
            return
        self._open.add(writer)
        talk = _Talk(reader, writer)
        try:
            while await self._exchange(talk):
                talk.parser.start_next_cycle()
        except (OSError, TimeoutError, h11.ProtocolError):
            pass
        finally:
            self._open.discard(writer)
            with contextlib.suppress(OSError):
                writer.transport.abort()

    async def _exchange(self, talk: _Talk) -> bool:
        """One request and its answer. False: the connection is at its end."""
        held = bytearray()
        try:
            request = await talk.event(IDLE_SECONDS)
            if not isinstance(request, h11.Request):
                return False
            path = request.target.decode("ascii", "replace").split("?", 1)[0]
            self._check(request, path)
            await self._read(talk, held)
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
            event = await talk.event(SECONDS)
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

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._reader, self._writer = reader, writer

    async def event(self, seconds: float) -> Any:
        """The next part of a request. Raises TimeoutError, h11.RemoteProtocolError."""
        while True:
            event = self.parser.next_event()
            if event is not h11.NEED_DATA:
                return event
            async with asyncio.timeout(seconds):
                self.parser.receive_data(await self._reader.read(_CHUNK))

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
        await self._write(b"".join(part for part in parts if part))

    async def _write(self, data: bytes | None) -> None:
        self._writer.write(data or b"")
        async with asyncio.timeout(SECONDS):
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
