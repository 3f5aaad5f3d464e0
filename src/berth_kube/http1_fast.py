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

from .http1 import END, MAX_HEAD, ClosedError, Framed, Framing, FramingError, Head, Part, inflate, plain

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
_PLAIN = re.compile(rb"HTTP/1\.1 (2(?!04)\d\d) [^\r\n]*\r\n")
_ODD = re.compile(rb"\r\n(?![A-Za-z0-9-]+: [!-~][^\r\n]*\r\n)")
_LENGTH = re.compile(rb"\ncontent-length: ([0-9]{1,12})\r")
_FIELD = re.compile(r"\r\n([^:]+): ([^\r]+)")
_EARLY = "the server closes the connection before all is answered"
_PARSED = re.compile(rb"\n(?:transfer-encoding|content-encoding|connection|upgrade|trailer):")


def framing() -> Callable[[], Framed]:
    """Return what makes the framing of a connection: the fast one where it can be had."""
    return FastFraming if FOUND else Framing


class PlainHead(Head):
    """Headers that are taken apart when somebody asks for one that is there: of a write's answer hardly ever."""

    __slots__ = ("_lines", "_lower")

    def __init__(self, status: int, lines: bytes, lower: bytes) -> None:
        super().__init__(status)
        self._lines, self._lower = lines, lower

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """All of them."""
        if self._lines:
            text, self._lines = self._lines.decode("latin-1"), b""
            self._headers = tuple([(name.lower(), value) for name, value in _FIELD.findall(text)])
        return self._headers

    def all(self, name: str) -> list[str]:
        """Every header of that (lower case) name."""
        if self._lines and _mark(name) not in self._lower:
            return []
        return super().all(name)


class FastFraming:
    """One connection's worth of exchanges, one after the other, or several requests before their answers."""

    pipelines = True

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._parts: deque[Any] = deque()
        self._inflate: zlib._Decompress | None = None
        self._headers: list[tuple[str, str]] = []
        self._head_bytes = 0
        #: answers that are still to come, the one that is being read among them
        self._owed = 0
        self._keep = True
        self._begun = self._in_body = self._more = self._until_close = False

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """The bytes of one request; ``headers`` has no content-length, the body's is added."""
        if not (_TOKEN.fullmatch(method) and _TARGET.fullmatch(target)):
            raise FramingError(f"this request cannot be sent: {method} {target!r} is no request line")
        head = f"{method} {target} HTTP/1.1\r\n".encode("ascii") + _lines(tuple(headers.items()))
        self._owed += 1
        return head + (b"\r\n" if body is None else b"content-length: %d\r\n\r\n%b" % (len(body), body))

    def receive(self, data: bytes) -> None:
        """Bytes from the socket; empty ones: the other side has closed. What was whole before a fault stands."""
        if not data:
            self._closed()
            return
        start = self._whole(data)
        if start == len(data):
            return
        if not self._owed:
            self._more = True
            return
        if not self._in_body:
            self._head_bytes += len(data) - start
        self._feed(data[start:] if start else data)
        if not self._in_body and self._head_bytes > MAX_HEAD:
            raise FramingError(f"the answer's head has more than {MAX_HEAD} bytes")
        if self._owed and not self._keep:
            raise ClosedError(_EARLY)

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            raise FramingError("the server wants another protocol") from exc
        except httptools.HttpParserError as exc:
            if not self._keep:  # what follows a last answer
                raise ClosedError(_EARLY) from exc
            if isinstance(exc.__context__, FramingError):
                raise exc.__context__ from None
            raise FramingError(f"the answer is not HTTP/1.1: {exc}") from exc

    def _whole(self, data: bytes) -> int:
        """Take answers that are there whole, and whose length stands in them: no callback for each of their headers.

        Returns how many bytes they are; none while the parser has begun with one.
        """
        start = 0
        while self._owed and self._keep and not self._begun and not self._head_bytes:
            match, blank = _PLAIN.match(data, start), data.find(b"\r\n\r\n", start, start + MAX_HEAD)
            odd = _ODD.search(data, start, blank + 2)
            if match is None or blank < 0 or odd is None or odd.start() != blank:
                break
            lines = data[start : blank + 2]
            head = lines.lower()
            lengths = _LENGTH.findall(head)
            if len(lengths) != 1 or head.count(b"\ncontent-length:") != 1 or _PARSED.search(head):
                break
            body = blank + 4
            end = body + int(lengths[0])
            if end > len(data):
                break
            self._parts += (PlainHead(int(match[1]), lines, head), data[body:end], END)
            self._owed -= 1
            start = end
        return start

    def next(self) -> Part:
        """The next part of the answer, or None while bytes are missing."""
        return self._parts.popleft() if self._parts else None

    def reusable(self) -> bool:
        """True when the exchange is over and the connection may carry another."""
        return self._keep and not (self._owed or self._more or self._parts)

    def _closed(self) -> None:
        """The end of an answer that says no length, or one in the middle."""
        if not (self._in_body and self._until_close):
            raise FramingError("the connection was closed")
        self._finish(keep=False)
        if self._owed:
            raise FramingError("the connection was closed")

    def _finish(self, keep: bool) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise FramingError("the answer's gzip is broken: it ends early")
        self._owed -= 1
        self._head_bytes, self._keep, self._inflate = 0, keep, None
        self._begun = self._in_body = self._until_close = False
        self._parts.append(END)

    # -- what the parser calls -------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer that nobody has asked for: the connection is of no use any more."""
        self._begun, self._more = True, self._more or not self._owed

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        if not self._more:
            self._headers.append((name.decode("ascii").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """The head is whole; one that only says that more will come (1xx) is passed over."""
        status = self._parser.get_status_code()
        headers, self._headers = tuple(self._headers), []
        if status < 200 or self._more:
            return
        head = Head(status, headers)
        self._in_body = True
        self._inflate = inflate(head)
        sized = head.header("content-length") or "chunked" in head.header("transfer-encoding").lower()
        self._until_close = not sized and status not in (204, 304)
        self._parts.append(head)

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        if not self._more:
            self._parts.append(plain(self._inflate, data))

    def on_message_complete(self) -> None:
        """The answer is complete, unless only its announcement (1xx) is."""
        if self._in_body and not self._more:
            self._finish(self._parser.should_keep_alive())


@lru_cache(maxsize=64)
def _mark(name: str) -> bytes:
    return f"\n{name}:".encode()


@lru_cache(maxsize=256)
def _lines(headers: tuple[tuple[str, str], ...]) -> bytes:
    """Headers as they are sent. Nearly all of a daemon's are the same each time."""
    return b"".join([_line(name, value) for name, value in headers])


def _line(name: str, value: str) -> bytes:
    if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value)):
        raise FramingError(f"this request cannot be sent: header {name!r} has what no header may have")
    return f"{name}: {value}\r\n".encode("latin-1")
