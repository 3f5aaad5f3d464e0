"""HTTP/1.1 as bytes: a request becomes bytes, bytes become an answer. Called by connection.py alone. Touches no socket.

Here the parser is pure Python (h11). http1_fast.py does the same with a compiled one; no other file names a parser.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Optional, Protocol, Union

import h11

#: Headers of an API server's answer are well under this; more is refused.
MAX_HEAD = 64 * 1024


class Head:
    """Status and headers of an answer; header names are in lower case, repeated ones keep their order."""

    __slots__ = ("_headers", "status")

    def __init__(self, status: int, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.status, self._headers = status, headers

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """All of them."""
        return self._headers

    def header(self, name: str) -> str:
        """The first header of that (lower case) name; empty where there is none."""
        return next(iter(self.all(name)), "")

    def all(self, name: str) -> list[str]:
        """Every header of that (lower case) name."""
        return [value for key, value in self.headers if key == name]


class End:
    """The answer is complete."""


END = End()
#: None: more bytes are needed first.
Part = Optional[Union[Head, bytes, End]]


class FramingError(Exception):
    """The other side does not speak HTTP/1.1, or stopped in the middle of an answer."""


class ClosedError(FramingError):
    """The other side closes before it has answered all that it was asked."""


class Framed(Protocol):
    """What a connection needs of either."""

    @property
    def pipelines(self) -> bool:
        """Whether a request may follow another before that one is answered."""

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """The bytes of one request."""

    def receive(self, data: bytes) -> None:
        """Bytes from the socket."""

    def next(self) -> Part:
        """The next part of the answer."""

    def reusable(self) -> bool:
        """Whether another exchange may follow."""


def inflate(head: Head) -> zlib._Decompress | None:
    """What unpacks the answer's body; None where it is not packed."""
    gzipped = head.header("content-encoding").lower() == "gzip"
    return zlib.decompressobj(zlib.MAX_WBITS | 16) if gzipped else None


def plain(unpack: zlib._Decompress | None, data: bytes) -> bytes:
    """Some of the body, unpacked where it was packed."""
    if unpack is None:
        return data
    try:
        return unpack.decompress(data)
    except zlib.error as exc:
        raise FramingError(f"the answer's gzip is broken: {exc}") from exc


class Framing:
    """One connection's worth of exchanges, one after the other."""

    pipelines = False

    def __init__(self) -> None:
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._inflate: zlib._Decompress | None = None

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """The bytes of one request; ``headers`` has no content-length, the body's is added."""
        fields = list(headers.items())
        if body is not None:
            fields.append(("content-length", str(len(body))))
        try:
            parts = [self._parser.send(h11.Request(method=method, target=target, headers=fields))]
            if body:
                parts.append(self._parser.send(h11.Data(data=body)))
            parts.append(self._parser.send(h11.EndOfMessage()))
        except h11.LocalProtocolError as exc:
            raise FramingError(f"this request cannot be sent: {exc}") from exc
        return b"".join(part for part in parts if part)

    def receive(self, data: bytes) -> None:
        """Bytes from the socket; empty ones: the other side has closed."""
        try:
            self._parser.receive_data(data)
        except h11.RemoteProtocolError as exc:
            raise FramingError(str(exc)) from exc

    def next(self) -> Part:
        """The next part of the answer, or None while bytes are missing."""
        while True:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError as exc:
                raise FramingError(str(exc)) from exc
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.Response):
                return self._head(event)
            if isinstance(event, h11.Data):
                return plain(self._inflate, bytes(event.data))
            if isinstance(event, h11.EndOfMessage):
                if self._inflate is not None and not self._inflate.eof:
                    raise FramingError("the answer's gzip is broken: it ends early")
                return END
            if not isinstance(event, h11.InformationalResponse):
                raise FramingError("the connection was closed")

    def reusable(self) -> bool:
        """True when the exchange is over and the connection may carry another; then it is ready for it."""
        if self._parser.our_state is h11.DONE and self._parser.their_state is h11.DONE:
            self._parser.start_next_cycle()
            return True
        return False

    def _head(self, event: h11.Response) -> Head:
        headers = tuple((key.decode("ascii"), value.decode("latin-1")) for key, value in event.headers)
        head = Head(event.status_code, headers)
        self._inflate = inflate(head)
        return head
