"""What goes over a connection, and what becomes of it: words that connection.py and those above it share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Union

from .http1 import Head


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


class Ask(NamedTuple):
    """One request as HTTP has it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Response(NamedTuple):
    """A whole answer."""

    head: Head
    body: bytes


class WireError(Exception):
    """No (whole) answer. ``sent``: the server may have carried the request out; ``kind``: see the words below."""

    def __init__(self, kind: str, text: str, sent: bool) -> None:
        super().__init__(text)
        self.kind, self.text, self.sent = kind, text, sent
        #: the connection had carried an earlier exchange: it may just have been closed for being idle
        self.kept = False


#: What became of one request.
Outcome = Union[Response, WireError]
#: kinds of a WireError
NAME, REFUSED, CERTIFICATE, TIMEOUT, CLOSED, PROTOCOL = (
    "Name",
    "Refused",
    "Certificate",
    "Timeout",
    "Closed",
    "Protocol",
)
