"""The program's own endpoint, for results that are too large for a termination message. TLS, one token a Task.

    PUT /results/TASK/POD     Authorization: Bearer TOKEN     the result's JSON, its length said beforehand

Who has no token of a Task that runs is answered 401 before a byte of the body is read, after a comparison in constant
time; a body that is too large 413, with both sizes; a second one of a pod 409, unless it is the same. A request has 30
seconds in all. Nothing here is unpickled or run.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
from pathlib import Path
from typing import NamedTuple

import h11

from berth_core.errors import InputError
from berth_core.model.addresses import server_of
from berth_kube.listening import Limits, Listening, Peer, Port
from berth_kube.talk import Talk
from berth_kube.tls import ServerTls

LIMITS = Limits(
    places=128, per_address=64, handshakes=64, handshake_seconds=10.0, request_seconds=30.0, idle_seconds=5.0
)
#: A Task's name, and a pod's uid, are no longer than this.
_LONGEST = 64


class Endpoint(NamedTuple):
    """Where pods send their results.

    ``url``: as pods reach it, https://HOST:PORT. ``certificate`` and ``key``: PEM files that serve HOST; ``authority``:
    the PEM file by which pods know them (the certificate itself, where it is its own). ``most``: bytes of a result.
    """

    url: str
    certificate: str
    key: str
    authority: str
    host: str = "0.0.0.0"  # noqa: S104 - pods are elsewhere; without a token of theirs nobody is listened to
    port: int = 8443
    most: int = 1024 * 1024
    seconds: int = 60


class _Waited:
    """One Task: its token, and what has come for it, by pod."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.pod, self.body = "", b""


class _Refused(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Results(Listening):
    """One listening port. Keeps one result a Task, the last pod's. Made and used inside a running loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        found = server_of(endpoint.url)
        if not endpoint.url.startswith("https://") or found is None:
            raise InputError(f"url of the endpoint is {endpoint.url!r}: expected https://HOST:PORT, as pods reach it")
        try:
            self.authority = Path(endpoint.authority).read_text(encoding="ascii")
        except (OSError, UnicodeError) as exc:
            raise InputError(f"authority of the endpoint: {endpoint.authority} cannot be read: {exc}") from exc
        tls = ServerTls(endpoint.certificate, endpoint.key)
        self._port = Port(endpoint.host, endpoint.port, self._serve, LIMITS, tls)
        self._waited: dict[str, _Waited] = {}
        self._nobody = _Waited()

    def expect(self, task: str) -> str:
        """From now on a result of this Task is taken; its token."""
        return self._waited.setdefault(task, _Waited()).token

    def forget(self, task: str) -> bytes | None:
        """None is taken any more; what has come last."""
        found = self._waited.pop(task, None)
        return found.body if found is not None and found.pod else None

    async def _serve(self, peer: Peer) -> None:
        """One request, one answer."""
        talk = Talk(peer, LIMITS)
        with contextlib.suppress(h11.ProtocolError):
            try:
                request = await talk.event()
                if isinstance(request, h11.Request):
                    await self._take(talk, request)
                    await talk.send(200, {}, close=True)
            except _Refused as exc:
                await talk.send(exc.status, {"error": str(exc)}, close=True, allow="PUT")
                await talk.discard()

    async def _take(self, talk: Talk, request: h11.Request) -> None:
        task, pod = _path(request)
        waited = self._authorized(request, task)
        size = _length(request)
        if size > self.endpoint.most:
            raise _Refused(413, f"the result of Task {task} has {size} bytes: at most {self.endpoint.most} are taken")
        await talk.invite()
        body = bytearray()
        while not isinstance(event := await talk.event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise _Refused(400, "the request ended in the middle")
            body += event.data  # never more than its length says: h11 sees to that
        if waited.pod == pod and waited.body != body:
            raise _Refused(409, f"pod {pod} of Task {task} has sent its result before")
        waited.pod, waited.body = pod, bytes(body)

    def _authorized(self, request: h11.Request, task: str) -> _Waited:
        waited = self._waited.get(task)
        given = next((value for name, value in request.headers if name == b"authorization"), b"")
        wanted = f"Bearer {(waited or self._nobody).token}".encode("ascii")
        if not hmac.compare_digest(bytes(given), wanted) or waited is None:
            raise _Refused(401, "this is not the token of a Task that runs")
        return waited


def _path(request: h11.Request) -> tuple[str, str]:
    parts = request.target.decode("ascii", "replace").split("/")
    if len(parts) != 4 or parts[:2] != ["", "results"] or not all(0 < len(part) <= _LONGEST for part in parts[2:]):
        raise _Refused(404, "expected /results/TASK/POD")
    if request.method != b"PUT":
        raise _Refused(405, "expected PUT")
    return parts[2], parts[3]


def _length(request: h11.Request) -> int:
    size = next((value for name, value in request.headers if name == b"content-length"), None)
    if size is None:
        raise _Refused(411, "expected a Content-Length")
    return int(size)
