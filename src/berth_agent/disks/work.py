"""What is to be done with one disk now. Called by the frame as DiskWork; see the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth_core.app.phase import FAULTED
from berth_core.app.prepare import CLEAR, PREPARE, WIPE, next_work

from ..seams import Look, Object, Tools
from ..seams import Record as Device
from .checking import Checking
from .finished import Finished
from .preparing import Preparing
from .record import Record
from .wiping import Wiping


class Disks:
    """DiskWork of one node."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.record = Record(tools)
        self.checking = Checking(tools, self.record)
        finished = Finished(tools.settings().state_directory)
        self.preparing = Preparing(tools, self.record, self.checking.mounted_anew, finished)
        self.wiping = Wiping(tools, self.record, finished)

    def findings(self, disk: Object, device: Device | None) -> Mapping[str, Any]:  # noqa: ARG002 - DiskWork's
        """A disk that failed a check is faulted, whatever else is seen of it. Good news are the frame's to tell."""
        health = self.checking.health(disk)
        if health.state != FAULTED:
            return {}
        return {"health": FAULTED, "problem": f"{health.reason}: {health.message}"}

    async def reconcile(self, disk: Object, device: Device | None, look: Look) -> float | None:  # noqa: ARG002
        """The next step of one disk; seconds until it wants another, None: when something changes."""
        policies, work = self.tools.settings().policies, next_work(disk)
        if work == PREPARE:
            broken = self.checking.is_broken_mount(disk)
            return await self.preparing.prepare(disk, device, broken) if policies.prepare else None
        if work == CLEAR:
            return await self.wiping.clear(disk)
        again = await self.preparing.release(disk) if policies.prepare else None
        if again is not None or work != WIPE or not policies.wipe:
            return again
        return await self.wiping.wipe(disk, device)

    async def run(self) -> None:
        """The checks of health, until cancelled."""
        await self.checking.run()

    def wake(self) -> None:
        """The settings or the hardware changed."""
        self.checking.check_soon()
