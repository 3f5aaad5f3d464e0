"""POST requests with JSON bodies over HTTP/1.1, many on one connection. Started by command.py.

Knows no verbs: `answer` is given a path and a body. A body is refused (413) as soon as it is known to be too large, by
its own word or while it arrives; so is one more than memory is set aside for (503). What is not HTTP is answered with
400 and cut off. Whoever is slow is cut off too (berth_kube/listening.py), and nobody else notices.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import h11

from berth_kube.listening import Limits, Listening, Peer, Port
from berth_kube.talk import Talk
from berth_kube.tls import ServerTls

from .messages import Refused

LIMITS = Limits(
    places=64, per_address=16, handshakes=64, handshake_seconds=5.0, request_seconds=30.0, idle_seconds=120.0
)
#: 5,000 whole nodes with 50 images each have some 60 MB.
MAX_BODY = 64 << 20
#: Of all bodies together.
BUDGET = 256 << 20

#: Says status and JSON value for (path, body). Raises Refused.
Answer = Callable[[str, bytes], Awaitable[Any]]


class Listener(Listening):
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

    async def _serve(self, peer: Peer) -> None:
        talk = Talk(peer, self._limits)
        with contextlib.suppress(h11.ProtocolError):
            while await self._exchange(talk):
                talk.next()

    async def _exchange(self, talk: Talk) -> bool:
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

    async def _read(self, talk: Talk, held: bytearray) -> None:
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
