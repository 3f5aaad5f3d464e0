"""Sends calls: credentials, deadlines, tries, counting, and what it means when nobody answers.

Called by client.py alone. Knows wire.py below it, and nothing of verbs or kinds.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import Counter
from collections.abc import Sequence
from typing import Callable, NamedTuple, cast

from berth_core.errors import ApiError, UnavailableError
from berth_core.model import api_requests
from berth_core.model.api_errors import Request, api_error, warnings
from berth_core.model.api_requests import LOST

from . import retry
from .call import Call
from .config import Config
from .connection import Connection
from .exchange import CERTIFICATE, CLOSED, Ask, Outcome, Response, WireError
from .http1 import Framed, Framing
from .wire import Wire

_log = logging.getLogger(__name__)

Observe = Callable[[str, int, float], None]


class Options(NamedTuple):
    """See `KubeClient`."""

    user_agent: str
    timeout: float
    connections: int
    gzip: bool
    framing: Callable[[], Framed] = Framing


class Sender:
    """One API server, one identity, and the connections to it. Made inside a running loop."""

    def __init__(self, config: Config, options: Options, observe: Observe | None) -> None:
        self._config, self._timeout = config, options.timeout
        self._common = {"user-agent": options.user_agent, **({"accept-encoding": "gzip"} if options.gzip else {})}
        self._loop = asyncio.get_running_loop()
        self._wire = Wire(config.endpoint, self._context, options.connections, options.framing)
        self._observe: Observe = observe or (lambda _verb, _status, _seconds: None)
        #: called right before each write is sent; what it raises, the caller gets
        self.before_write: Callable[[], None] = lambda: None
        self._warned: set[str] = set()
        self.requests: Counter[str] = Counter()

    async def close(self) -> None:
        """Close every connection; requests under way fail."""
        await self._wire.close()

    def drop(self, stream: Connection) -> None:
        """Give up a stream's connection."""
        self._wire.drop(stream)

    @property
    def line(self) -> int:
        """Requests that wait for a connection."""
        return self._wire.line

    async def turn(self) -> None:
        """Stand in line as a request does, and send nothing."""
        await self._wire.enter(None)
        self._wire.leave()

    async def answers(self, calls: Sequence[Call], look_after: float) -> list[Response | ApiError]:
        """All of them in one piece, on one connection: for each its answer, or the error.

        Where one came to nothing it goes on alone, as after a first try of `answer`. ``look_after``: see `Connection`.
        """
        await self._wire.enter(None)
        try:
            found = await self._try_all(calls, look_after)
        finally:
            self._wire.leave()
        good = [isinstance(one, Response) and one.head.status < 300 for one in found]
        if all(good):
            return cast("list[Response | ApiError]", found)
        return await asyncio.gather(*(self._after(call, first) for call, first in zip(calls, found)))

    async def _after(self, call: Call, first: Outcome) -> Response | ApiError:
        try:
            return await self.answer(call, None, first)
        except ApiError as exc:
            return exc

    async def answer(self, call: Call, timeout: float | None, first: Outcome | None = None) -> Response:
        """Send until there is an answer that is not "later", within the deadline and a bounded number of tries.

        ``first``: what became of the first try, where that has been made. Time in line counts only against a
        ``timeout`` of the caller's own: behind a server that stood still, what was never sent does not give up in a
        crowd.
        """
        deadline = self._loop.time() + (self._timeout if timeout is None else timeout)
        attempt = 0
        while True:
            retry_after, status, joined = "", 0, self._loop.time()
            try:
                if first is None:
                    await self._wire.enter(None if timeout is None else deadline)
                    try:
                        if timeout is None:
                            deadline += self._loop.time() - joined
                        answer = await self._try(call, deadline)
                    finally:
                        self._wire.leave()
                else:
                    told, first = first, None
                    answer = _told(told)
                if answer.head.status < 300:
                    return answer
                status, retry_after = answer.head.status, answer.head.header("retry-after")
                error = api_error(status, answer.body, call.asked)
                outcome = api_requests.outcome_of(status, error.message)
            except WireError as exc:
                error, outcome = self.unreachable(exc, call.asked), retry.outcome_of(exc)
            if status == 401 and attempt == 0 and self._config.credentials.refused():
                self._wire.forget_idle()
                attempt += 1
                continue
            wait = api_requests.pause(attempt, retry_after, random.random())  # noqa: S311 - spreads load, guards nothing
            tired = attempt >= retry.RETRIES or self._loop.time() + wait >= deadline
            if tired or not call.may_resend(outcome):
                raise error
            await asyncio.sleep(wait)
            attempt += 1

    async def _try(self, call: Call, deadline: float) -> Response:
        """One try; a second one at once when a kept connection turns out to have been closed by the server."""
        headers = {**call.headers, **await self._headers()}
        began = self._loop.time()
        status = 0
        try:
            try:
                answer = await self._one(call, headers, deadline)
            except WireError as exc:
                if not (exc.kept and exc.kind == CLOSED and call.may_resend(LOST)):
                    raise
                self._wire.forget_idle()
                answer = await self._one(call, headers, deadline)
            status = answer.head.status
        finally:
            self._observe(call.asked.verb, status, self._loop.time() - began)
        self._warn(answer.head.all("warning"))
        return answer

    async def _one(self, call: Call, headers: dict[str, str], deadline: float) -> Response:
        if call.writes:
            self.before_write()
        self.requests[call.asked.verb] += 1
        return await self._wire.exchange(call.method, call.target, headers, call.body, deadline)

    async def _try_all(self, calls: Sequence[Call], look_after: float) -> list[Outcome]:
        """One try of each, in one piece."""
        headers, began = await self._headers(), self._loop.time()
        for call in calls:
            if call.writes:
                self.before_write()
            self.requests[call.asked.verb] += 1
        asks = [Ask(call.method, call.target, {**call.headers, **headers}, call.body) for call in calls]
        try:
            found = await self._wire.bundle(asks, began + self._timeout, look_after)
        except WireError as exc:
            found = [exc] * len(calls)
        seconds = self._loop.time() - began
        for call, one in zip(calls, found):
            self._observe(call.asked.verb, one.head.status if isinstance(one, Response) else 0, seconds)
            if isinstance(one, Response):
                self._warn(one.head.all("warning"))
        return found

    async def stream(self, call: Call, seconds: float, look_after: float) -> tuple[int, Connection]:
        headers = {**call.headers, **await self._headers()}
        self.requests[call.asked.verb] += 1
        now = self._loop.time()
        # The server ends a watch by itself; a silent one that does not is cut.
        head, stream = await self._wire.stream(
            call.method, call.target, headers, now + self._timeout, now + seconds + self._timeout, look_after
        )
        self._observe(call.asked.verb, head.status, self._loop.time() - now)
        if head.status == 401:
            self._config.credentials.refused()
        return head.status, stream

    async def _headers(self) -> dict[str, str]:
        headers = {**self._common, **await self._config.credentials.headers()}
        pair = self._config.credentials.pair()
        if pair is not None and self._config.tls is not None and self._config.tls.use(pair):
            self._wire.forget_idle()
        return headers

    def _context(self) -> ssl.SSLContext | None:
        return self._config.tls.context() if self._config.tls is not None else None

    def unreachable(self, exc: WireError, asked: Request) -> UnavailableError:
        what = f"cannot {asked.verb} {asked.resource.describe(asked.name, asked.namespace)}"
        advice = "see that it runs and that the address is right"
        if exc.kind == CERTIFICATE:
            advice = "give the authority that signed its certificate, or the name in it (tls-server-name)"
        elif exc.sent:
            advice = "it may or may not have been carried out"
        server = f"the API server {self._config.server} (from {self._config.source})"
        return UnavailableError(f"{what}: no answer from {server}: {exc.text}; {advice}", reason=exc.kind)

    def _warn(self, headers: list[str]) -> None:
        for text in warnings(headers):
            if text not in self._warned and len(self._warned) < 100:
                self._warned.add(text)
                _log.warning("the API server warns: %s", text)


def _told(first: Outcome) -> Response:
    if isinstance(first, WireError):
        raise first
    return first
