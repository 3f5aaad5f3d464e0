"""/healthz, /readyz and /metrics of a daemon, with TLS where files are given. Started by the composition roots.

Only reads: checks are functions that say what is wrong (None: nothing), metrics are those of prometheus-client.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Callable, NamedTuple

import h11

from .listening import Limits, Listening, Peer, Port
from .tls import ServerTls

#: Says what is wrong, or None.
Check = Callable[[], "str | None"]

#: One request each: who scrapes and who probes needs two or three.
LIMITS = Limits(places=32, per_address=8, handshakes=16, handshake_seconds=5.0, request_seconds=10.0, idle_seconds=10.0)
MAX_HEAD = 16 * 1024
TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Server(Listening):
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
        refused: Callable[[str], None] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """``tls``: the files of a certificate and its key. ``metrics``: by default those of prometheus-client."""
        self._checks = {"/healthz": dict(health or {}), "/livez": dict(health or {}), "/readyz": dict(ready or {})}
        self._metrics = metrics or _prometheus
        self._limits = limits
        self._port = Port(host, port, self._serve, limits, ServerTls(*tls) if tls else None, refused)

    async def _serve(self, peer: Peer) -> None:
        """One request, one answer, then closed."""
        with contextlib.suppress(h11.ProtocolError):
            await self._exchange(peer)

    async def _exchange(self, peer: Peer) -> None:
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        while (event := parser.next_event()) is h11.NEED_DATA:
            parser.receive_data(await peer.reader.read(4096))
        if not isinstance(event, h11.Request):
            return
        peer.works()
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
        peer.waits(self._limits.request_seconds)
        peer.writer.write(b"".join(part for part in parts if part))
        peer.writer.close()
        await peer.writer.wait_closed()

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
    port: int,
    host: str,
    synced: Callable[[], bool],
    certificate: str = "",
    key: str = "",
    refused: Callable[[str], None] | None = None,
) -> Server | None:
    """A server that is ready once every kind was listed; None for port 0. ``certificate``: its file, empty: no TLS."""
    ready = {"caches": lambda: None if synced() else "not every kind was listed yet"}
    tls = (certificate, key) if certificate else None
    return Server(port, host, tls=tls, ready=ready, refused=refused) if port else None


def _asked(check: Check) -> str | None:
    try:
        return check()
    except Exception as exc:  # noqa: BLE001 - a check that fails has not said that all is well
        return f"the check fails: {type(exc).__name__}: {exc}"


def _prometheus() -> bytes:
    import prometheus_client

    return prometheus_client.generate_latest()
