"""Turns: what is worth a write, and no hurry, is done so many times a second and no more.

A thousand tasks that run longer than a moment would otherwise be told as Running all at once, while others wait for
their start; most of them have ended before it is their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Turns(Generic[K]):
    """First come, first served. ``call`` is told whose turn it is. Made inside a running loop."""

    def __init__(self, call: Callable[[K], None], pause: float) -> None:
        self._call, self._pause = call, pause
        self._waiting: dict[K, None] = {}
        self._due = asyncio.Event()

    def ask(self, key: K) -> None:
        """It wants a turn; once is enough."""
        self._waiting.setdefault(key)
        self._due.set()

    def give_up(self, key: K) -> None:
        """It wants none any more, and delays nobody."""
        self._waiting.pop(key, None)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._due.wait()
            if not self._waiting:
                self._due.clear()
                continue
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._call(key)
            await asyncio.sleep(self._pause)
