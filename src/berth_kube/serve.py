"""/healthz, /readyz and /metrics of a daemon, with TLS where files are given. The composition roots start me.

I only read: checks are functions that say what is wrong (None: nothing), metrics are those of prometheus-client.
Certificates are read again when their files change; broken ones are told once, and the last good ones stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Mapping
from typing import Callable, NamedTuple

import h11

from berth_core.errors import InputError

from .tls import Pem

_log = logging.getLogger(__name__)

#: Says what is wrong, or None.
Check = Callable[[], "str | None"]

CONNECTIONS = 32
SECONDS = 10.0
MAX_HEAD = 16 * 1024
TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class ServerTls:
    """A serving context that shows today's certificate to each new connection.

    ``client_ca``: authorities; who has no certificate of theirs does not get in.
    """

    def __init__(self, cert: str, key: str, client_ca: str = "") -> None:
        self._cert, self._key, self._client_ca = Pem(path=cert), Pem(path=key), client_ca
        self._stamp: tuple[object, ...] = ()
        self._told = ""
        try:
            self._today = self._load()
        except (OSError, ValueError) as exc:
            raise InputError(f"the serving certificate {cert} with key {key} cannot be used: {exc}") from exc
        # The context that listens is asked at each handshake which one to use.
        self.listening = self._load()
        self.listening.sni_callback = self._choose

    def _load(self) -> ssl.SSLContext:
        self._stamp = self._stamps()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._cert.path or "", self._key.path)
        if self._client_ca:
            context.load_verify_locations(cafile=self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _stamps(self) -> tuple[object, ...]:
        return (self._cert.stamp, self._key.stamp)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._stamps() != self._stamp:
            try:
                self._today = self._load()
                self._told = ""
            except (OSError, ValueError) as exc:  # the stamp is kept: the next change is another try
                if str(exc) != self._told:
                    _log.error("serving certificate %s cannot be used, the last one stays: %s", self._cert.path, exc)
                self._told = str(exc)
        connection.context = self._today


class Server:
    """One port. ``port`` 0 takes a free one; `port` says which. Made and used inside a running loop."""

    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        *,
        tls: tuple[str, str] | None = None,
        health: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
        metrics: Callable[[], bytes] | None = None,
    ) -> None:
        """``tls``: the files of a certificate and its key. ``metrics``: by default those of prometheus-client."""
        self._host, self.port = host, port
        self._tls = ServerTls(*tls) if tls else None
        self._checks = {"/healthz": dict(health or {}), "/livez": dict(health or {}), "/readyz": dict(ready or {})}
        self._metrics = metrics or _prometheus
        self._server: asyncio.AbstractServer | None = None
        self._open = 0

    async def start(self) -> None:
        """Listen. Raises InputError when the address cannot be had."""
        context = self._tls.listening if self._tls else None
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self.port, ssl=context, limit=MAX_HEAD, backlog=CONNECTIONS
            )
        except OSError as exc:
            raise InputError(f"cannot listen on {self._host}:{self.port}: {exc.strerror or exc}") from exc
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, one answer, then closed. Who is slow, or one too many, is cut off."""
        alarm = asyncio.get_running_loop().call_later(SECONDS, writer.transport.abort)
        self._open += 1
        try:
            if self._open <= CONNECTIONS:
                await self._exchange(reader, writer)
                writer.close()
                await writer.wait_closed()
        except (OSError, h11.ProtocolError):
            pass
        finally:
            alarm.cancel()
            self._open -= 1
            with contextlib.suppress(OSError):
                writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(await reader.read(4096))
                continue
            break
        if not isinstance(event, h11.Request):
            return
        answer = await self.respond(event)
        headers = [
            *answer.headers,
            ("content-type", answer.content_type),
            ("content-length", str(len(answer.body))),
            ("connection", "close"),
        ]
        body = b"" if event.method == b"HEAD" else answer.body
        parts = [
            parser.send(h11.Response(status_code=answer.status, headers=headers)),
            parser.send(h11.Data(data=body)),
            parser.send(h11.EndOfMessage()),
        ]
        writer.write(b"".join(part for part in parts if part))
        await writer.drain()

    async def respond(self, request: h11.Request) -> Answer:
        """What is said to a request, by those who need time for it, or more of it than `answer` does."""
        return self.answer(request.method.decode("ascii"), request.target.decode("ascii"))

    def answer(self, method: str, target: str) -> Answer:
        """What is said to a request."""
        path = target.split("?", 1)[0]
        if method not in ("GET", "HEAD"):
            return Answer(405, TEXT, b"only GET\n")
        if path == "/metrics":
            return Answer(200, "text/plain; version=0.0.4; charset=utf-8", self._metrics())
        if path in self._checks:
            wrong = {name: why for name, check in self._checks[path].items() for why in [_asked(check)] if why}
            lines = [f"[-]{name}: {why}" for name, why in wrong.items()] or ["ok"]
            return Answer(503 if wrong else 200, TEXT, ("\n".join(lines) + "\n").encode())
        return Answer(404, TEXT, b"/healthz /readyz /metrics\n")


def caches_server(
    port: int, host: str, synced: Callable[[], bool], certificate: str = "", key: str = ""
) -> Server | None:
    """A server that is ready once every kind was listed; None for port 0. ``certificate``: its file, empty: no TLS."""
    ready = {"caches": lambda: None if synced() else "not every kind was listed yet"}
    tls = (certificate, key) if certificate else None
    return Server(port, host, tls=tls, ready=ready) if port else None


def _asked(check: Check) -> str | None:
    try:
        return check()
    except Exception as exc:  # noqa: BLE001 - a check that fails has not said that all is well
        return f"the check fails: {type(exc).__name__}: {exc}"


def _prometheus() -> bytes:
    import prometheus_client

    return prometheus_client.generate_latest()
