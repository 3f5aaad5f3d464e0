"""Turns: what is worth a write, and no hurry, is done so many times a second and no more.

A thousand tasks that run longer than a moment would otherwise be told as Running all at once, while others wait for
their start; most of them have ended before it is their turn. Beside many other writes there are fewer turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
#: So many other writes in a pause make it longer by another one, up to so many.
OTHERS, MOST_PAUSES = 2, 10


class Turns(Generic[K, V]):
    """First come, first served. ``call`` is told whose turn it is, and what that one wants.

    Made inside a running loop.
    """

    def __init__(
        self,
        call: Callable[[K, V], None],
        pause: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._call, self._pause, self._sleep = call, pause, sleep
        self._waiting: dict[K, V] = {}
        self._due = asyncio.Event()
        self._others = 0

    def other(self) -> None:
        """Something else was written, which could not wait."""
        self._others += 1

    def __contains__(self, key: K) -> bool:
        return key in self._waiting

    def ask(self, key: K, what: V) -> None:
        """It wants a turn; once is enough."""
        self._waiting.setdefault(key, what)
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
            self._call(key, self._waiting.pop(key))
            await self._rest()

    async def _rest(self) -> None:
        """Until the next turn."""
        for _pause in range(MOST_PAUSES):
            self._others = 0
            await self._sleep(self._pause)
            if self._others < OTHERS:
                return
