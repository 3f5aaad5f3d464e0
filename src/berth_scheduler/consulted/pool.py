"""The extenders of a configuration, kept while it stays the same where it names them. Made by __main__."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from berth_core.config.connections import Extender

from .extender import HttpExtender


class Pool:
    """Made inside a running loop."""

    def __init__(self) -> None:
        self._made: dict[Extender, HttpExtender] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def take(self, configured: Iterable[Extender]) -> tuple[HttpExtender, ...]:
        """Those of a configuration, in its order. Those of the last one that it does not name are asked no more."""
        listed = list(configured)
        for config in self._made.keys() - set(listed):
            task = asyncio.ensure_future(self._made.pop(config).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        for config in listed:
            if config not in self._made:
                self._made[config] = HttpExtender(config)
        return tuple(self._made[config] for config in listed)

    async def aclose(self) -> None:
        """Nobody is asked any more."""
        self.take(())
        await asyncio.gather(*self._closing)
