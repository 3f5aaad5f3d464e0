"""The host's block devices as they are now: one Look, made anew when something changed and every so often anyway.

Run by `agent`. A survey may take seconds (it asks lsblk and blkid, and a dying disk answers late), so it runs in a
thread of its own, never twice at once; the last Look stays until the next is complete. A survey that a dead disk holds
for ever holds nothing else: neither this loop nor the end of the agent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from berth_core.app.agent_settings import Settings
from berth_host.block_devices import survey
from berth_host.machine import Machine

from .disks.threads import in_thread
from .hostevents import KernelMessages, MountMessages, fingerprint
from .seams import Look
from .waiting import wait_for

LOG = logging.getLogger("berth_agent.observer")
#: A survey that takes longer is told of; it goes on.
_SLOW = 60.0


class Observer:
    """``changed(look)`` is called for each Look that differs from the one before, and for the first.

    ``surveyed(problem)`` is called when a survey is complete (empty), and when one takes too long (why).
    """

    def __init__(
        self,
        machine: Machine,
        settings: Callable[[], Settings],
        changed: Callable[[Look], None],
        surveyed: Callable[[str], None],
    ) -> None:
        self.machine, self.settings, self.changed, self.surveyed = machine, settings, changed, surveyed
        self.look: Look | None = None
        self.surveys = 0
        self._asked = asyncio.Event()
        self._woken = asyncio.Event()
        self._print: int | None = None
        self._last = 0.0

    def look_again(self) -> None:
        """Ask for a survey, whatever the fingerprint says."""
        self._asked.set()
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled. The first survey is made at once."""
        kernel, mounts = KernelMessages(self._woken.set), MountMessages(self._woken.set)
        try:
            if self.machine.is_running:
                kernel.open()
                mounts.open()
            while True:
                if self._is_due():
                    await self._survey()
                await self._wait()
        finally:
            kernel.close()
            mounts.close()

    def _is_due(self) -> bool:
        """Whether a full survey is needed: asked for, long ago, or the cheap look shows a change."""
        if self._asked.is_set() or time.monotonic() - self._last >= self.settings().intervals.scan:
            return True
        return fingerprint(self.machine) != self._print

    async def _wait(self) -> None:
        """Until something is told of (then for the rest of the burst), or for the poll interval."""
        intervals = self.settings().intervals
        try:
            await wait_for(self._woken.wait(), intervals.poll)
        except asyncio.TimeoutError:
            return
        await asyncio.sleep(intervals.debounce)
        self._woken.clear()

    async def _survey(self) -> None:
        self._asked.clear()
        self._last = time.monotonic()
        # Taken before: what changes during the survey is found by the next look.
        self._print = fingerprint(self.machine)
        found = asyncio.ensure_future(in_thread(lambda: survey(self.machine), "survey"))
        try:
            done, _pending = await asyncio.wait([found], timeout=_SLOW)
            if not done:
                problem = f"the survey of the disks takes longer than {_SLOW:.0f} s: a disk does not answer"
                LOG.warning("%s", problem)
                self.surveyed(f"{problem}; what is published is what was seen before")
            records = tuple(await found)
        finally:
            found.cancel()
        self.surveys += 1
        self.surveyed("")
        if self.look is None or records != self.look.devices:
            self.look = Look(self.look.number + 1 if self.look else 1, records)
            LOG.info("look %d: %d block devices", self.look.number, len(self.look.whole))
            self.changed(self.look)
