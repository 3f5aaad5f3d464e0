"""Subscriptions: somebody who is told at their own pace, one call at a time, and again of what they raised on.

Shared by the snapshots of pods (store.py) and the states of tasks (task_registry.py). Neither who is slow nor who fails
delays anybody else.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod

from berth_core.errors import BerthError

_log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0


class Subscription(ABC):
    """One subscriber. Made inside a running loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._due = asyncio.Event()

    @abstractmethod
    async def _told(self) -> Exception | None:
        """Tell what there is to tell. Returns what the subscriber raised; it is told the same again then."""

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            await self._due.wait()
            self._due.clear()
            exc = await self._told()
            failures = failures + 1 if exc is not None else 0
            if exc is None:
                continue
            if failures == 1:
                self._tell(exc)
            self._due.set()
            await asyncio.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 16)))

    def _tell(self, exc: Exception) -> None:
        if isinstance(exc, BerthError):
            _log.warning("subscriber %s: %s; it is told again", self._name, exc.message)
        else:
            _log.error("subscriber %s failed; it is told again", self._name, exc_info=exc)
