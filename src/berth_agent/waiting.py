"""Waiting for something, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def wait_for(what: Awaitable[T], seconds: float) -> T:
    """What ``what`` answers within that time. Raises asyncio.TimeoutError when it is over; ``what`` is cancelled then.

    As asyncio.wait_for, which before Python 3.12 loses a cancellation that comes when ``what`` has just ended: whoever
    waits goes on, and an agent that is told to stop never ends.
    """
    waiting = asyncio.ensure_future(what)
    try:
        done, pending = await asyncio.wait([waiting], timeout=seconds)
        if done:
            return waiting.result()
        waiting.cancel()
        await asyncio.wait(pending)
        if not waiting.cancelled():  # it has ended just now
            return waiting.result()
        raise asyncio.TimeoutError
    finally:
        waiting.cancel()
