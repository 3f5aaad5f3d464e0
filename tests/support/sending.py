"""The real daemons, looked at or ended where their requests leave them: every KubeClient of this process.

For the programs that tests start in a daemon's place. tests/daemons/chaos/dying.py does the same by itself: it lies on
a host.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from berth_kube.call import Call
from berth_kube.client import KubeClient

Send = Callable[[], Awaitable[Any]]


def around_send(do: Callable[[Call, Send], Awaitable[Any]]) -> None:
    """Have ``do(call, send)`` called instead of each request; ``send()`` sends it, and returns the answer.

    Requests that go out in one piece are left out (`KubeClient.create_all`): see `around_pieces`.
    """
    real = KubeClient._send

    async def _send(self: KubeClient, call: Call, *more: Any, **options: Any) -> Any:
        return await do(call, lambda: real(self, call, *more, **options))

    KubeClient._send = _send  # type: ignore[method-assign]


def around_pieces(do: Callable[[Sequence[Call], Send], Awaitable[Any]]) -> None:
    """Have ``do(calls, send)`` called instead of each piece of several requests; ``send()`` sends it."""
    real = KubeClient._send_all

    async def _send_all(self: KubeClient, calls: Sequence[Call], *more: Any, **options: Any) -> Any:
        if len(calls) == 1:  # goes alone
            return await real(self, calls, *more, **options)
        return await do(calls, lambda: real(self, calls, *more, **options))

    KubeClient._send_all = _send_all  # type: ignore[method-assign]


def die_after_write(counts: Callable[[Call], bool]) -> None:
    """SIGKILL as soon as the n-th write that ``counts`` was answered, also by a refusal. DIE_AT is n, from 1.

    Of a piece all are answered first.
    """
    written = 0

    async def do(call: Call, send: Send) -> Any:
        nonlocal written
        if not (call.writes and counts(call)):
            return await send()
        written += 1
        mine = written
        try:
            return await send()
        finally:
            if mine == int(os.environ["DIE_AT"]):  # it was the last thing that was done
                os.kill(os.getpid(), signal.SIGKILL)

    async def all_of(calls: Sequence[Call], send: Send) -> Any:
        nonlocal written
        before = written
        written += sum(call.writes and counts(call) for call in calls)
        try:
            return await send()
        finally:
            if before < int(os.environ["DIE_AT"]) <= written:
                os.kill(os.getpid(), signal.SIGKILL)

    around_send(do)
    around_pieces(all_of)
