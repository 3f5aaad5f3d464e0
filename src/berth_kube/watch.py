"""One watch request: its bytes become events. Made by KubeClient.watch, used by informer.py and short waits."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable
from typing import Any, Callable, NamedTuple

from berth_core.errors import ApiError
from berth_core.model.api_errors import Request, api_error

from .connection import Connection
from .exchange import WireError
from .sending import Sender

#: From bytes to JSON's values; raises ValueError for what is no JSON.
Decode = Callable[[bytes], Any]


class Event(NamedTuple):
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK (then the object has no more than a resourceVersion)."""

    type: str
    object: dict[str, Any]

    @property
    def version(self) -> str:
        """The resourceVersion from which a later watch goes on after this event."""
        return str(self.object.get("metadata", {}).get("resourceVersion") or "")


class Watch:
    """Events of one watch: ``async with client.watch(...) as events: async for event in events``.

    Ends when the server ends it. Raises what the server's refusal means (GoneError: the version is too old, list again)
    and UnavailableError when the connection breaks.
    """

    def __init__(
        self,
        open_stream: Callable[[], Awaitable[tuple[int, Connection]]],
        asked: Request,
        sender: Sender,
        decode: Decode = json.loads,
    ) -> None:
        self._open, self._asked, self._sender, self._decode = open_stream, asked, sender, decode
        self._connection: Connection | None = None
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []

    async def __aenter__(self) -> Watch:
        try:
            status, self._connection = await self._open()
            if status < 300:
                return self
            text = await self._all()
        except WireError as exc:
            await self.close()
            raise self._sender.unreachable(exc, self._asked) from exc
        except BaseException:
            await self.close()
            raise
        await self.close()
        raise api_error(status, text, self._asked)

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up the connection."""
        if self._connection is not None:
            self._sender.drop(self._connection)
            await self._connection.closed()
            self._connection = None

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Event:
        line = await self._line()
        if line is None:
            raise StopAsyncIteration
        try:
            event = self._decode(line)
            kind, item = str(event["type"]), event["object"]
        except (ValueError, KeyError, TypeError) as exc:
            raise ApiError(f"watch of {self._asked.resource.plural}: the API server sent no event: {exc}") from exc
        if kind == "ERROR":
            status = json.loads(line)["object"]  # the decoder may know the fields of its kind alone
            code = status.get("code") if isinstance(status, dict) else 0
            raise api_error(int(code or 500), json.dumps(status).encode(), self._asked)
        return Event(kind, item)

    async def _line(self) -> bytes | None:
        """The next line that is not empty, or None at the end. A line that the end cuts off is not one."""
        while not self._lines:
            data = await self._read()
            if not data:
                return None
            whole, newline, rest = data.rpartition(b"\n")
            if not newline:
                self._rest.append(data)
                continue
            lines = b"".join((*self._rest, whole)).split(b"\n")
            self._rest = [rest] if rest else []
            self._lines.extend([line for line in lines if line and not line.isspace()])
        return self._lines.popleft()

    async def _all(self) -> bytes:
        parts = bytearray()
        while True:
            data = await self._read()
            if not data:
                return bytes(parts)
            parts += data

    async def _read(self) -> bytes:
        if self._connection is None:
            raise RuntimeError("a watch is read only inside `async with`")
        try:
            return await self._connection.read()
        except WireError as exc:
            raise self._sender.unreachable(exc, self._asked) from exc
