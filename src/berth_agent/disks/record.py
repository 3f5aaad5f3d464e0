"""Our fields of a LocalDisk's status: journal, wipe, lastWipe, health, and the conditions Prepared and Wiped.

Written by server-side apply under a field manager of our own, so that the frame's fields and anybody else's stay. An
apply names all of our fields or loses them: each write begins with a fresh look at the object.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from berth_core.app.disk_status import conditions
from berth_core.app.prepare import Finding
from berth_core.model.resources import LOCAL_DISK

from ..seams import Object, Tools

MANAGER = "berth-agent-disks"
FIELDS = ("journal", "wipe", "lastWipe", "health")
CONDITIONS = ("Prepared", "Wiped")
_MESSAGE = 1024


class Record:
    """Writes to one node's LocalDisks; writes to one disk come one after the other."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def write(self, disk: Object, finding: Finding | None = None, **fields: Any) -> Object:
        """Set these fields (None: remove) and that condition. No request to write where all is so already.

        Returns the object as it is now. Raises ApiError; NotFoundError also when the name means another object now.
        """
        name = str(disk["metadata"]["name"])
        async with self._locks[name]:
            live = await self.tools.client.get(LOCAL_DISK, name)
            status = live.get("status") or {}
            own = {key: status[key] for key in FIELDS if key in status}
            own.update(fields)
            own = {key: value for key, value in own.items() if value is not None}
            before = [each for each in status.get("conditions") or () if each.get("type") in CONDITIONS]
            after = self._conditions(before, finding)
            if own == {key: status[key] for key in FIELDS if key in status} and after == before:
                return live
            self.tools.check()
            body = {
                "metadata": {"name": name, "uid": disk["metadata"]["uid"]},
                "status": {**own, "conditions": after},
            }
            return await self.tools.client.apply(LOCAL_DISK, body, subresource="status", manager=MANAGER)

    def _conditions(self, before: list[dict[str, Any]], finding: Finding | None) -> list[dict[str, Any]]:
        if finding is None:
            return before
        kind, status, reason, message = finding
        made = conditions([(kind, status, reason, message[:_MESSAGE])], before, self.tools.now())
        if any(each == made[0] for each in before):
            return before
        return [*(each for each in before if each["type"] != kind), *made]
