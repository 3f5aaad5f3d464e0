"""The same as http1.py by a compiled parser (httptools, that is llhttp), for a daemon that sends very many requests.

`framing` says which one there is. Only who asks for it takes it: the agent is pure Python, and stays so on a host that
happens to have the package. Requests are put together here, refused where a text would break out of its place.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Callable

from .http1 import END, MAX_HEAD, Framed, Framing, FramingError, Head, Part, inflate, plain

try:
    import httptools
except ImportError:  # pragma: no cover - the tests have it
    FOUND = False
else:
    FOUND = True

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"[\x21-\x7e]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
#: The head of nearly every answer to a write, and its headers. What looks different goes to the parser.
_PLAIN = re.compile(rb"HTTP/1\.1 (2(?!04)\d\d) [^\r\n]*(?:\r\n[A-Za-z0-9-]+: [!-~][^\r\n]*)+\r\n\r\n")
_FIELD = re.compile(r"\r\n([^:]+): ([^\r]+)")
_PARSED = frozenset({"transfer-encoding", "content-encoding", "connection", "upgrade", "trailer"})


def framing() -> Callable[[], Framed]:
    """Return what makes the framing of a connection: the fast one where it can be had."""
    return FastFraming if FOUND else Framing


class FastFraming:
    """One connection's worth of exchanges, one after the other."""

    def __init__(self) -> None:
        self._parts: deque[Any] = deque()
        self._inflate: zlib._Decompress | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: list[tuple[str, str]] = []
        self._head_bytes = 0
        self._in_body = self._complete = self._keep = self._more = self._until_close = False

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """The bytes of one request; ``headers`` has no content-length, the body's is added."""
        if not (_TOKEN.fullmatch(method) and _TARGET.fullmatch(target)):
            raise FramingError(f"this request cannot be sent: {method} {target!r} is no request line")
        lines = [f"{method} {target} HTTP/1.1\r\n".encode("ascii")]
        lines += [_line(name, value) for name, value in headers.items()]
        if body is None:
            lines.append(b"\r\n")
        else:
            lines += (b"content-length: %d\r\n\r\n" % len(body), body)
        return b"".join(lines)

    def receive(self, data: bytes) -> None:
        """Bytes from the socket; empty ones: the other side has closed."""
        if not data:
            self._closed()
            return
        if not self._head_bytes and not self._complete and self._whole(data):
            return
        if not self._in_body:
            self._head_bytes += len(data)
        if self._complete:
            self._more = True
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            raise FramingError("the server wants another protocol") from exc
        except httptools.HttpParserError as exc:
            if isinstance(exc.__context__, FramingError):
                raise exc.__context__ from None
            raise FramingError(f"the answer is not HTTP/1.1: {exc}") from exc
        if not self._in_body and self._head_bytes > MAX_HEAD:
            raise FramingError(f"the answer's head has more than {MAX_HEAD} bytes")

    def _whole(self, data: bytes) -> bool:
        """Take an answer that came in one piece and whose length stands in it: no callback for each of its headers."""
        match = _PLAIN.match(data)
        if match is None or match.end() > MAX_HEAD:
            return False
        body = data[match.end() :]
        text = data[: match.end() - 2].decode("latin-1")
        headers = tuple([(name.lower(), value) for name, value in _FIELD.findall(text)])
        known = dict(headers)
        if len(known) < len(headers) or known.get("content-length") != str(len(body)) or _PARSED & known.keys():
            return False
        self._parts += (Head(int(match[1]), headers), body, END)
        self._head_bytes, self._complete, self._keep = len(data), True, True
        return True

    def next(self) -> Part:
        """The next part of the answer, or None while bytes are missing."""
        return self._parts.popleft() if self._parts else None

    def reusable(self) -> bool:
        """True when the exchange is over and the connection may carry another; then it is ready for it."""
        if not (self._complete and self._keep) or self._more or self._parts:
            return False
        self._headers = []
        self._head_bytes = 0
        self._in_body = self._complete = self._keep = self._until_close = False
        return True

    def _closed(self) -> None:
        """The end of an answer that says no length, or one in the middle."""
        if self._complete or not self._until_close:
            raise FramingError("the connection was closed")
        self._finish(keep=False)

    def _finish(self, keep: bool) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise FramingError("the answer's gzip is broken: it ends early")
        self._complete, self._keep = True, keep
        self._parts.append(END)

    # -- what the parser calls -------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer after the answer: the connection is of no use any more."""
        self._more = self._more or self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        if not self._complete:
            self._headers.append((name.decode("ascii").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """The head is whole; one that only says that more will come (1xx) is passed over."""
        status = self._parser.get_status_code()
        headers, self._headers = tuple(self._headers), []
        if status < 200 or self._complete:
            return
        head = Head(status, headers)
        self._in_body = True
        self._inflate = inflate(head)
        sized = head.header("content-length") or "chunked" in head.header("transfer-encoding").lower()
        self._until_close = not sized and status not in (204, 304)
        self._parts.append(head)

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        if not self._complete:
            self._parts.append(plain(self._inflate, data))

    def on_message_complete(self) -> None:
        """The answer is complete, unless only its announcement (1xx) is."""
        if self._in_body and not self._complete:
            self._finish(self._parser.should_keep_alive())


@lru_cache(maxsize=256)
def _line(name: str, value: str) -> bytes:
    """One header as it is sent. Nearly all of a daemon's are the same each time."""
    if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value)):
        raise FramingError(f"this request cannot be sent: header {name!r} has what no header may have")
    return f"{name}: {value}\r\n".encode("latin-1")
