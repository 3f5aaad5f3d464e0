"""Writes these fields of a LocalDisk's status: journal, wipe, lastWipe, health, and the conditions Prepared and Wiped.

Written by server-side apply under a field manager of its own, so that the frame's fields and anybody else's stay. An
apply names all of its fields or loses them: each write begins with a fresh look at the object, and holds over that
alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from berth_core.app.disk_status import conditions
from berth_core.app.prepare import Finding
from berth_core.errors import ConflictError
from berth_core.model.resources import LOCAL_DISK

from ..seams import Object, Tools

MANAGER = "berth-agent-disks"
FIELDS = ("journal", "wipe", "lastWipe", "health")
CONDITIONS = ("Prepared", "Wiped")
MESSAGE = 1024
#: The frame and others write to the same object: each loss is looked at anew.
_TRIES = 8


class Record:
    """Writes to one node's LocalDisks; writes to one disk come one after the other."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def write(self, disk: Object, finding: Finding | None = None, **fields: Any) -> Object:
        """Set these fields (None: remove) and that condition. No request to write where all is so already.

        Returns the object as it is now. Raises ApiError; NotFoundError also when the name means another object now.
        """
        async with self._locks[str(disk["metadata"]["name"])]:
            for _once_more in range(_TRIES - 1):
                with contextlib.suppress(ConflictError):
                    return await self._write(disk, finding, fields)
            return await self._write(disk, finding, fields)

    async def _write(self, disk: Object, finding: Finding | None, fields: Mapping[str, Any]) -> Object:
        name = str(disk["metadata"]["name"])
        live = await self.tools.client.get(LOCAL_DISK, name)
        status = self._status(live.get("status") or {}, finding, fields)
        if status is None:
            return live
        self.tools.check()
        # Over what was just read alone: a write that arrives late (of a killed agent, after a timeout) would take away
        # what was written since.
        meta = {"name": name, "uid": disk["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "status": status}
        return await self.tools.client.apply(LOCAL_DISK, body, subresource="status", manager=MANAGER)

    def _status(self, live: Object, finding: Finding | None, fields: Mapping[str, Any]) -> Object | None:
        """All of this part's fields, with these; None where the status says so already."""
        own = {key: live[key] for key in FIELDS if key in live}
        wanted = {key: value for key, value in {**own, **fields}.items() if value is not None}
        before = [each for each in live.get("conditions") or () if each.get("type") in CONDITIONS]
        after = self._conditions(before, finding)
        return None if (wanted, after) == (own, before) else {**wanted, "conditions": after}

    def _conditions(self, before: list[dict[str, Any]], finding: Finding | None) -> list[dict[str, Any]]:
        if finding is None:
            return before
        kind, status, reason, message = finding
        made = conditions([(kind, status, reason, message[:MESSAGE])], before, self.tools.now())
        if any(each == made[0] for each in before):
            return before
        return [*(each for each in before if each["type"] != kind), *made]
