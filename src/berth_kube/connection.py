"""One connection to a server: opened with verified TLS, one exchange after the other, given up at a deadline.

wire.py makes me, sending.py and watch.py read what I say went wrong. I know HTTP only through http1.py.

A deadline aborts the connection instead of cancelling the task that waits: the waiting side then sees the end of the
stream. That leaves cancellation to mean one thing, that somebody wants the task to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Mapping
from typing import Callable, NamedTuple

from .http1 import END, Framed, Framing, FramingError, Head

CONNECT_SECONDS = 10.0
#: An idle connection older than this is not trusted to be alive: load balancers forget connections silently.
IDLE_SECONDS = 60.0
READ_BYTES = 64 * 1024


class Endpoint(NamedTuple):
    """Where the server is. ``prefix`` goes before every path; ``server_name`` is what its certificate must say."""

    host: str
    port: int
    prefix: str = ""
    tls: bool = True
    server_name: str | None = None

    @property
    def authority(self) -> str:
        """The Host header's value."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class WireError(Exception):
    """No (whole) answer. ``sent``: the server may have carried the request out; ``kind``: see the words below."""

    def __init__(self, kind: str, text: str, sent: bool) -> None:
        super().__init__(text)
        self.kind, self.text, self.sent = kind, text, sent
        #: the connection had carried an earlier exchange: it may just have been closed for being idle
        self.kept = False


#: kinds of a WireError
NAME, REFUSED, CERTIFICATE, TIMEOUT, CLOSED, PROTOCOL = (
    "Name",
    "Refused",
    "Certificate",
    "Timeout",
    "Closed",
    "Protocol",
)


class Connection:
    """One connection: one exchange at a time. Made by `connect`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, framing: Framed) -> None:
        self._reader, self._writer, self._framing = reader, writer, framing
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None
        self._expired = False
        self.idle_since = self._loop.time()
        self.fresh = True

    def alive(self) -> bool:
        """False when the server has closed it, or it has been idle for too long."""
        too_old = self._loop.time() - self.idle_since > IDLE_SECONDS
        return not (too_old or self._reader.at_eof() or self._writer.transport.is_closing())

    def until(self, deadline: float) -> None:
        """From now on the connection is aborted when the loop's clock reaches ``deadline``."""
        self._disarm()
        self._alarm = self._loop.call_at(deadline, self._expire)

    async def start(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Head:
        """Send one request, return the head of its answer."""
        try:
            data = self._framing.request(method, target, headers, body)
        except FramingError as exc:
            raise WireError(PROTOCOL, str(exc), sent=False) from exc
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:  # answered before all was read, or gone: reading tells which
            pass
        part = await self._part()
        if not isinstance(part, Head):
            raise WireError(PROTOCOL, "the answer has no head", sent=True)
        return part

    async def read(self) -> bytes:
        """The next bytes of the answer; empty at its end."""
        while True:
            part = await self._part()
            if part is END:
                return b""
            if isinstance(part, bytes) and part:
                return part

    async def _part(self) -> object:
        try:
            while True:
                part = self._framing.next()
                if part is not None:
                    return part
                self._framing.receive(await self._reader.read(READ_BYTES))
        except (FramingError, OSError) as exc:
            if self._expired:
                raise WireError(TIMEOUT, "no complete answer in time", sent=True) from exc
            kind = PROTOCOL if isinstance(exc, FramingError) and not self._reader.at_eof() else CLOSED
            raise WireError(kind, str(exc) or type(exc).__name__, sent=True) from exc

    def finish(self) -> bool:
        """The answer was read. True when the connection may be used again."""
        self._disarm()
        self.fresh = False
        self.idle_since = self._loop.time()
        return self._framing.reusable() and self.alive()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._disarm()
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Until the transport is really gone."""
        with contextlib.suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()

    def _expire(self) -> None:
        self._expired = True
        self._writer.transport.abort()

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


async def connect(
    endpoint: Endpoint, context: ssl.SSLContext | None, deadline: float, framing: Callable[[], Framed] = Framing
) -> Connection:
    """A new connection. Raises WireError (nothing was sent)."""
    loop = asyncio.get_running_loop()
    seconds = max(0.0, min(CONNECT_SECONDS, deadline - loop.time()))
    opening = loop.create_task(_open(endpoint, context))
    try:
        await asyncio.wait({opening}, timeout=seconds)
        if not opening.done():
            raise WireError(TIMEOUT, f"no connection within {seconds:.0f} s", sent=False)
        reader, writer = opening.result()
    except asyncio.CancelledError:
        opening.add_done_callback(_abandon)
        raise
    except OSError as exc:
        raise connect_error(exc) from exc
    finally:
        opening.cancel()
    _keep_alive(writer.get_extra_info("socket"))
    return Connection(reader, writer, framing())


async def _open(
    endpoint: Endpoint, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if context is None:
        return await asyncio.open_connection(endpoint.host, endpoint.port)
    name = endpoint.server_name or endpoint.host
    return await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, server_hostname=name)


def _abandon(opening: asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """A connection that was ready just when nobody wanted it any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].transport.abort()


def connect_error(exc: OSError) -> WireError:
    """Why there is no connection, in one word and one line."""
    if isinstance(exc, ssl.SSLError):
        return WireError(CERTIFICATE, _tls_text(exc), sent=False)
    if isinstance(exc, socket.gaierror):
        return WireError(NAME, f"its name does not resolve: {exc.strerror}", sent=False)
    text = errno.errorcode.get(exc.errno or 0, type(exc).__name__)
    return WireError(REFUSED, f"{exc.strerror or exc} ({text})", sent=False)


def _tls_text(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate does not verify: {exc.verify_message}"
    return f"TLS fails: {exc.reason or exc}"


def _keep_alive(sock: socket.socket | None) -> None:
    """A host that vanished is noticed after about a minute, also under a watch that says nothing by itself."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
