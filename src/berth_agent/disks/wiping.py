"""A request to wipe a disk is carried out: checked, done by a process of its own, followed, recorded.

Called by work, for one disk never twice at once. The process (berth_host.wiper) holds the disk exclusively; it stops
when this agent is gone, and the next one goes on at the offset that the status tells.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from typing import Any

from berth_core.app.fs_plan import find_device
from berth_core.app.wipe import (
    FAILED,
    SUCCEEDED,
    WipePlan,
    check_same_content,
    clearing,
    content_of,
    ended,
    is_to_be_cleared,
    plan_wipe,
    progress,
    request_of,
)
from berth_core.errors import BerthError, ConflictError, DataError, InvalidError, StateError, UnavailableError
from berth_core.model.resources import LOCAL_DISK
from berth_host.block_devices import survey
from berth_host.openers import lasting_openers
from berth_host.probes import ends_digest

from ..seams import Object, Tools
from ..seams import Record as Device
from ..waiting import wait_for
from .finished import Finished
from .record import Record
from .threads import in_thread

LOG = logging.getLogger("berth_agent.disks")
CONDITION = "Wiped"
_TICK = 1.0
_RETRY_SECONDS = 10.0
#: Disks of one host that are wiped side by side: each has a process of its own, within the agent's memory limit.
AT_ONCE = 2
_PROGRAM = "import sys; from berth_host.wiper import main; sys.exit(main())"


class _Paused(Exception):
    """This is not the one agent of the node any more: no error, the wipe goes on when it is again."""


class _NotBegun(BerthError):
    """The request was taken back before anything was written: it has not been carried out."""


class _Died(BerthError):
    """The process that wiped was killed, maybe for want of memory: what it had done is done."""


class Wiping:
    """One node's disks."""

    def __init__(self, tools: Tools, record: Record, finished: Finished) -> None:
        self.tools, self.record, self.finished = tools, record, finished
        self._at_work: set[str] = set()
        self._waiting: set[str] = set()

    async def wipe(self, disk: Object, device: Device | None) -> float | None:
        """Carry the request out to its end; seconds until it is tried again where something speaks against it."""
        name = str(disk["metadata"]["name"])
        try:
            fresh = await self.tools.client.get(LOCAL_DISK, name)
            if not fresh["spec"].get("wipe") or is_to_be_cleared(fresh):
                return 0.0 if fresh["spec"].get("wipe") else None
            if request_of(fresh) is None:
                return None
            await self.tools.check_alone(fresh, device)
            plan = await self._plan(fresh)
        except BerthError as exc:
            await self._refuse(disk, exc)
            return _RETRY_SECONDS
        if len(self._at_work) >= AT_ONCE:
            self._waiting.add(name)
            words = f"{AT_ONCE} other disks of this host are being wiped; its turn comes when one of them is done"
            await self.record.write(fresh, (CONDITION, "False", "Waiting", words))
            return _RETRY_SECONDS
        self._at_work.add(name)
        try:
            return await self._carry_out(fresh, plan)
        finally:
            self._at_work.discard(name)
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for name in sorted(waiting):
            self.tools.wake_disk(name)

    async def clear(self, disk: Object) -> float | None:
        """The request has been carried out: it goes from the spec, and with it whose data there was."""
        name = str(disk["metadata"]["name"])
        fresh = await self.tools.client.get(LOCAL_DISK, name)
        if not is_to_be_cleared(fresh):
            return None
        try:
            await self.tools.client.patch(LOCAL_DISK, name, None, clearing(fresh), kind="json")
        except (ConflictError, InvalidError):  # somebody wrote in between: look again
            return 0.5
        LOG.info("LocalDisk %s is free: its wipe %s is done", name, fresh["spec"]["wipe"]["requestID"])
        self.tools.look_again()
        return None

    async def _plan(self, disk: Object) -> WipePlan:
        machine, request = self.tools.machine, str(disk["spec"]["wipe"]["requestID"])
        devices = await in_thread(lambda: survey(machine), "survey")
        device = find_device(disk, devices)
        finished = self.finished.remembers(disk, request)
        if not finished:
            await self._check_content(disk, request, device)
        elif self.finished.is_held_since(disk):
            raise DataError(
                f"LocalDisk {disk['metadata']['name']}: wipe {request} was carried out on this host before, and it has "
                "been held since: nothing is wiped. Was the cluster's state restored from a backup? If what is there "
                "may go, take the request back and ask with another requestID"
            )
        can_discard = machine.number(f"/sys/block/{device['name']}/queue/discard_max_bytes") > 0
        return plan_wipe(disk, devices, can_discard, self.tools.now())._replace(finished=finished)

    async def _check_content(self, disk: Object, request: str, device: Device) -> None:
        """The disk carries what it carried when this host first saw the request: a restored cluster repeats them."""
        machine, ends = self.tools.machine, ""
        if not device["fsuuid"]:
            number, path = str(device["number"]), str(device["path"])
            if device["holders"] or await in_thread(lambda: lasting_openers(machine, number), "who writes to a disk"):
                return  # what they write is not looked at before they have ended: the wiper refuses until then
            ends = await in_thread(lambda: ends_digest(machine, path), "ends of a disk")
        content = content_of(device, ends)
        check_same_content(disk, request, self.finished.first_seen(disk, request, content), content)

    async def _carry_out(self, disk: Object, plan: WipePlan) -> float | None:
        self.tools.check()
        LOG.info("LocalDisk %s: wiping %s (%s) from byte %d", plan.name, plan.device, plan.method, plan.offset)
        follower = _Follower(self, disk, plan)
        try:
            await follower.run()
        except DataError as exc:  # nothing was touched
            await self._refuse(disk, exc)
            return _RETRY_SECONDS
        except _Paused:
            return _RETRY_SECONDS
        except _NotBegun as exc:  # a word that it begins may have been recorded
            await self.record.write(disk, (CONDITION, "False", "Refused", exc.message), wipe=None)
            return None
        except _Died as exc:
            await self._interrupted(disk, plan, follower, exc.message)
            return _RETRY_SECONDS
        except BerthError as exc:
            await self._end(disk, plan, follower, FAILED, exc.message)
            return None
        await self._end(disk, plan, follower, SUCCEEDED, "")
        return 0.0

    async def _interrupted(self, disk: Object, plan: WipePlan, done: _Follower, message: str) -> None:
        """The request stands, and its journal says where the next process goes on."""
        status = {"wipe": progress(plan, done.step, done.offset, 0, done.method)} if done.step else {}
        await self.record.write(disk, (CONDITION, "False", "Interrupted", message), **status)
        LOG.warning("%s", message)
        self.tools.recorder.event(disk, "Warning", "WipeInterrupted", message, action="Wipe")

    async def _end(self, disk: Object, plan: WipePlan, done: _Follower, result: str, message: str) -> None:
        last = ended(plan, result, message, done.offset, done.method, self.tools.now())
        good = result == SUCCEEDED
        # First here: an API server that forgets it asks again.
        self.finished.add(disk, plan.request, plan.data_uid if good else "")
        words = message or f"wiped ({done.method}) as {plan.requested_by} asked, and read back"
        # A disk that is blank again has nothing that was ever made on it.
        fields: dict[str, Any] = {"lastWipe": last, "wipe": None, **({"journal": None} if good else {})}
        await self.record.write(disk, (CONDITION, "True" if good else "False", result, words), **fields)
        LOG.log(logging.INFO if good else logging.ERROR, "LocalDisk %s: wipe %s: %s", plan.name, result, words)
        self.tools.recorder.event(disk, "Normal" if good else "Warning", f"Wipe{result}", words, action="Wipe")

    async def _refuse(self, disk: Object, exc: BerthError) -> None:
        known = [each for each in (disk.get("status") or {}).get("conditions") or () if each["type"] == CONDITION]
        if known and known[0].get("message") == exc.message[:1024]:
            return
        LOG.warning("LocalDisk %s is not wiped: %s", disk["metadata"]["name"], exc.message)
        await self.record.write(disk, (CONDITION, "False", "Refused", exc.message))
        self.tools.recorder.event(disk, "Warning", "WipeRefused", exc.message, action="Wipe")


class _Follower:
    """One process that wipes: what it says becomes the status, at a bounded rate."""

    def __init__(self, wiping: Wiping, disk: Object, plan: WipePlan) -> None:
        self.wiping, self.disk, self.plan = wiping, disk, plan
        self.tools = wiping.tools
        self.offset, self.method, self.step = plan.offset, plan.method, ""
        self._goes_on = False
        #: A process before this one may have written, whatever its offset.
        self._had_begun = ((disk.get("status") or {}).get("wipe") or {}).get("requestID") == plan.request
        self._told: tuple[float, int, str, str] = (0.0, plan.offset, "", "")

    async def run(self) -> None:
        """To the end. Raises DataError when it refused before it touched anything, BerthError when it failed."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, stdin=pipe, stdout=pipe, env=environment, cwd="/", start_new_session=True
        )
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - asked for above
        try:
            order = {**self.plan._asdict()}
            process.stdin.write(json.dumps(order).encode() + b"\n")
            await process.stdin.drain()
            await self._follow(process.stdout, process.stdin)
        except _Died:
            if await process.wait() < 0:  # by a signal
                raise
            where = f"LocalDisk {self.plan.name}, byte {self.offset}"
            raise BerthError(f"{where}: the process that wiped it ended without a word") from None
        finally:
            # It stops at the end of its input; a disk that hangs keeps it until it comes back.
            process.stdin.close()

    async def _follow(self, lines: asyncio.StreamReader, orders: asyncio.StreamWriter) -> None:
        while True:
            try:
                line = await wait_for(lines.readline(), _TICK)
            except asyncio.TimeoutError:
                line = None
            if line == b"":
                raise _Died(
                    f"LocalDisk {self.plan.name}: the process that wiped it was killed at byte {self.offset}; another "
                    "one goes on there"
                )
            said: dict[str, Any] = json.loads(line) if line else {}
            if said.get("done"):
                return
            if "failed" in said:
                raise (BerthError if self.step else DataError)(said["failed"])
            if said:
                self.step, self.offset, self.method = said["step"], said["offset"], said["method"]
            await self._tell()
            await self._check_request()
            if said and not self._goes_on:  # recorded that it begins: now it may
                self._goes_on = True
                orders.write(b"\n")
                await orders.drain()

    async def _tell(self) -> None:
        now = time.monotonic()
        since, offset, step, method = self._told
        is_news = (step, method) != (self.step, self.method)
        if not self.step or (not is_news and now - since < self.tools.settings().intervals.wipe_progress):
            return
        speed = int((self.offset - offset) / (now - since)) if since and now > since else 0
        self._told = (now, self.offset, self.step, self.method)
        status = progress(self.plan, self.step, self.offset, speed, self.method)
        words = f"wiping ({self.method}) as {self.plan.requested_by} asked"
        try:
            await self.wiping.record.write(self.disk, (CONDITION, "False", "Wiping", words), wipe=status)
        except UnavailableError as exc:  # the request stands; what was done meanwhile is done again after a crash
            if not self._goes_on:
                raise _Paused from exc
            LOG.warning("LocalDisk %s: the wipe's progress is not recorded: %s", self.plan.name, exc.message)

    async def _check_request(self) -> None:
        """It stands. What was seen may be behind: a restored etcd has a request again before a watch tells."""
        try:
            self.tools.check()
            if self._is_asked(self.tools.disks().get(self.plan.name)):
                return
            live = await self.tools.client.find(LOCAL_DISK, self.plan.name)
        except (StateError, UnavailableError) as exc:
            raise _Paused from exc
        if self._is_asked(live):
            return
        if not (self._goes_on or self._had_begun):
            raise _NotBegun(f"LocalDisk {self.plan.name}: the request was taken back before anything was wiped")
        raise BerthError(f"LocalDisk {self.plan.name}: the request was taken back at byte {self.offset}")

    def _is_asked(self, disk: Object | None) -> bool:
        return disk is not None and (disk["spec"].get("wipe") or {}).get("requestID") == self.plan.request
