"""A TCP port with a bounded number of connections, of which no client can take all. Used by serve.py and the extender.

Speaks no protocol: ``serve`` is given each connection once its TLS handshake is through. Where a place is missing, the
connection that has waited longest goes, of the address that has most; what is being answered stays. Who has shown a
certificate takes no place and is never cut off for another. What is late is cut off, whatever it sends meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter, OrderedDict
from collections.abc import Awaitable
from typing import Callable, NamedTuple

from berth_core.errors import InputError

from .tls import ServerTls

_log = logging.getLogger(__name__)

#: Why a connection was refused or cut off.
ADDRESS, HANDSHAKES, PLACES, SLOW = "address", "handshakes", "places", "slow"
_WORDS = {
    ADDRESS: "too many of one address",
    HANDSHAKES: "too many unfinished TLS handshakes",
    PLACES: "all places taken",
    SLOW: "handshake or request not whole in time",
}
#: Addresses that have shown a certificate are remembered, the last so many.
_KNOWN = 256
_LOG_SECONDS = 60.0
_PAUSE = 0.5


class Limits(NamedTuple):
    """``places``: connections without a verified certificate, of which ``handshakes`` in their TLS handshake.

    ``handshake_seconds``, ``request_seconds``: for the whole of it; so long may the other side take for an answer, too.
    ``idle_seconds``: between two requests.
    """

    places: int
    per_address: int
    handshakes: int
    handshake_seconds: float
    request_seconds: float
    idle_seconds: float


class Peer:
    """One connection, and what it is waited for. `reader` and `writer` are there once the handshake is through."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def __init__(self, address: str, handshake: bool, cut: Callable[[Peer, str], None]) -> None:
        self.address, self.handshake, self.verified = address, handshake, False
        self.task: asyncio.Task[None] | None = None
        #: Since when the other side has the word (the loop's time); None: it is being answered.
        self.since: float | None = None
        self._cut = cut
        self._timer: asyncio.TimerHandle | None = None

    def waits(self, seconds: float, late: str = SLOW) -> None:
        """The other side has so many seconds; then it is cut off. ``late`` empty: nothing that is told of."""
        loop = asyncio.get_running_loop()
        self.works()
        self.since = loop.time()
        self._timer = loop.call_later(seconds, self._cut, self, late)

    def works(self) -> None:
        """It is this connection's turn."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.since = None


class Port:
    """One listening port. ``port`` 0 takes a free one; `port` says which. Made and used inside a running loop."""

    def __init__(
        self,
        host: str,
        port: int,
        serve: Callable[[Peer], Awaitable[None]],
        limits: Limits,
        tls: ServerTls | None = None,
        refused: Callable[[str], None] | None = None,
    ) -> None:
        """``serve`` may raise OSError, EOFError. ``refused`` is told the reason for each refused connection."""
        self._host, self.port, self._serve, self._limits, self._tls = host, port, serve, limits, tls
        self._refused = refused or (lambda _reason: None)
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._peers: set[Peer] = set()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._untold: Counter[str] = Counter()
        self._told_at = float("-inf")

    async def start(self) -> None:
        """Listen. Raises InputError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                self._host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, address in dict.fromkeys((family, address[:2]) for family, *_rest, address in found):
                made = socket.create_server((str(address[0]), self.port), family=family)
                self._listening.append(made)
                made.setblocking(False)
        except (OSError, UnicodeError) as exc:  # the latter: no name for a resolver
            self._close()
            why = exc.strerror if isinstance(exc, OSError) else ""
            raise InputError(
                f"cannot listen on {self._host}:{self.port}: {why or exc}; expected an address of this host and a port"
                " that is free"
            ) from exc
        self.port = self._listening[0].getsockname()[1]
        self._accepting = [loop.create_task(self._accept(each)) for each in self._listening]

    async def stop(self) -> None:
        """Listen no more, and cut off who is still there."""
        tasks = [*self._accepting, *(peer.task for peer in self._peers if peer.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close()

    def _close(self) -> None:
        for each in self._listening:
            each.close()
        self._listening, self._accepting = [], []

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as exc:  # out of descriptors; or who knocked is gone
                _log.warning("%s:%d: a connection cannot be accepted: %s", self._host, self.port, exc)
                await asyncio.sleep(_PAUSE)
                continue
            self._admit(accepted, address[0])
            await asyncio.sleep(0)  # however many come, the others have their turn

    def _admit(self, accepted: socket.socket, address: str) -> None:
        peer = Peer(address, self._tls is not None, self._cut)
        for reason in (PLACES, ADDRESS, HANDSHAKES):
            limit, crowd = self._crowd(reason, peer)
            if len(crowd) < limit:
                continue
            last = self._last(crowd)
            if last is None:
                accepted.close()
                self._tell(reason, address)
                return
            self._cut(last, reason)
        self._peers.add(peer)
        peer.waits(self._limits.handshake_seconds if peer.handshake else self._limits.request_seconds)
        peer.task = asyncio.get_running_loop().create_task(self._meet(peer, accepted))
        peer.task.add_done_callback(_ended)

    def _crowd(self, reason: str, new: Peer) -> tuple[int, list[Peer]]:
        """How many there may be beside the new one, and who is there."""
        strangers = [one for one in self._peers if not one.verified]
        if reason == ADDRESS:
            known = new.address in self._known
            return self._limits.per_address, [one for one in strangers if one.address == new.address and not known]
        if reason == HANDSHAKES:
            return self._limits.handshakes, [one for one in strangers if one.handshake]
        return self._limits.places, strangers

    def _last(self, crowd: list[Peer]) -> Peer | None:
        """Who goes: nobody who is being answered; the address of a certificate only when there is no other."""
        counts = Counter(peer.address for peer in crowd)
        return min(
            (peer for peer in crowd if peer.since is not None),
            key=lambda peer: (peer.address in self._known, -counts[peer.address], peer.since or 0.0),
            default=None,
        )

    def _cut(self, peer: Peer, reason: str) -> None:
        """Its place is free from now on."""
        self._peers.discard(peer)
        peer.works()
        if peer.task is not None:
            peer.task.cancel()
        if reason:
            self._tell(reason, peer.address)

    async def _meet(self, peer: Peer, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            context = self._tls.context() if self._tls else None
            transport, _protocol = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context)
            peer.reader, peer.writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
            try:
                self._through(peer)
                await self._serve(peer)
            finally:
                transport.abort()
        except (OSError, EOFError):
            pass
        finally:
            peer.works()
            self._peers.discard(peer)
            with contextlib.suppress(OSError):  # also where no transport came to hold it
                accepted.shutdown(socket.SHUT_RDWR)

    def _through(self, peer: Peer) -> None:
        peer.handshake = False
        peer.verified = bool(peer.writer.get_extra_info("peercert"))
        if peer.verified:
            self._known[peer.address] = None
            self._known.move_to_end(peer.address)
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        peer.waits(self._limits.request_seconds)

    def _tell(self, reason: str, address: str) -> None:
        """Count it; say so at once, and then once a minute how many there were."""
        self._refused(reason)
        self._untold[reason] += 1
        now = asyncio.get_running_loop().time()
        if now - self._told_at < _LOG_SECONDS:
            return
        counts = ", ".join(f"{_WORDS[one]}: {number}" for one, number in sorted(self._untold.items()))
        _log.warning("%s:%d refused or cut off connections, last of %s: %s", self._host, self.port, address, counts)
        self._untold.clear()
        self._told_at = now


class Listening:
    """Who listens on one port, ``_port``, and nothing else."""

    _port: Port

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


def _ended(task: asyncio.Task[None]) -> None:
    """What went wrong with one connection is told; the others go on."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        _log.error("a connection failed: %s", failure, exc_info=failure)
