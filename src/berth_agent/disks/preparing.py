"""The filesystem of a held disk is made and mounted, and taken off its mount point when nobody holds it any more.

Called by work, for one disk never twice at once. The work on the disk itself is berth_host's, in a thread; before and
after each step it comes back to have the lock checked at the API server (the fence) and the journal written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from berth_core.app.fs_plan import FilesystemPlan, carries_another
from berth_core.app.fsid import data_directory, mount_point, namespace_link
from berth_core.app.prepare import (
    CONDITION,
    FORMATTED,
    LEFT,
    MOUNTED,
    MOUNTING,
    UNMOUNTED,
    UNMOUNTING,
    Finding,
    after_release,
    at_host,
    check_lock,
    check_tenant,
    finding,
    host_point,
    is_mounted_for,
    journal_entry,
    journal_of,
    left_to,
    names_earlier_data,
)
from berth_core.app.wipe import check_not_wiped, locked_since
from berth_core.errors import BerthError, DataError, LockError, StateError
from berth_core.model.resources import BERTH, LOCAL_DISK, NAMESPACE, PV
from berth_host import namespace_links, unmounting
from berth_host.filesystems import Outcome, prepare

from ..seams import Object, Tools
from ..seams import Record as Device
from .finished import Finished
from .record import MESSAGE, Record
from .threads import in_thread

T = TypeVar("T")
LOG = logging.getLogger("berth_agent.disks")
#: A lock that is not ready yet, and a refusal: who put it there usually wakes the agent; this is for what nobody tells.
_WAIT_SECONDS = 3.0
_RETRY_SECONDS = 30.0
#: Longer than any pause of the API server that the agent is to sit out with the disk's lock in its hands.
_JOURNAL_SECONDS = 90.0


class Preparing:
    """One node's disks. ``renewed`` is called with the name of a disk whose filesystem has been mounted anew."""

    def __init__(self, tools: Tools, record: Record, renewed: Callable[[str], None], finished: Finished) -> None:
        self.tools, self.record, self.renewed, self.finished = tools, record, renewed, finished

    async def prepare(self, disk: Object, device: Device | None, broken: bool) -> float | None:
        """Make the disk ready for its lock. ``broken``: what is mounted there answers errors only."""
        if device is None:
            return await self._detach(disk)
        if host_point(disk):
            return await self._at_host(disk, device)
        return await self._prepare(disk, device, broken)

    async def _prepare(self, disk: Object, device: Device, broken: bool) -> float | None:
        name, ref = str(disk["metadata"]["name"]), disk["spec"]["claimRef"]
        try:
            if _is_raw(disk):  # nothing on it tells whose it is
                check_not_wiped(disk, self.finished.since(disk, str(ref["dataUID"])))
            if self._is_ready(disk, device) and not broken:
                return None
            fresh = await self._fence(name, ref["uid"])
            await self.tools.check_alone(fresh, device)
            if broken:
                await self._take_off(fresh, "its broken filesystem")
            elif carries_another(fresh, device):
                await self._take_off(fresh, "the filesystem of another holder")
            outcome = await self._in_thread(fresh)
            await self._note_ready(fresh, outcome)
        except LockError as exc:
            await self._say(disk, "Waiting", exc.message)
            return _WAIT_SECONDS
        except BerthError as exc:
            await self._say(disk, "Refused" if isinstance(exc, DataError) else "Failed", exc.message)
            return _RETRY_SECONDS
        if outcome.done:
            LOG.info("LocalDisk %s: %s", name, ", ".join(outcome.done))
            if "mounted" in outcome.done:
                self.renewed(name)
            self.tools.look_again()
        return None

    async def _at_host(self, disk: Object, device: Device) -> float | None:
        """What the host mounts itself, for a volume that was there before berth, is looked at and left alone."""
        told = at_host(disk, device)
        if _is_told(disk, told):
            return None
        name, ref = str(disk["metadata"]["name"]), disk["spec"]["claimRef"]
        try:
            fresh = await self._fence(name, ref["uid"])
            await self.record.write(fresh, told, **locked_since(fresh, ref["uid"]))
        except LockError as exc:
            await self._say(disk, "Waiting", exc.message)
            return _WAIT_SECONDS
        except BerthError as exc:
            LOG.warning("LocalDisk %s: %s", name, exc.message)
            return _RETRY_SECONDS
        if told[1] == "False":
            LOG.warning("LocalDisk %s: %s", name, told[3])
            self.tools.recorder.event(disk, "Warning", told[2], told[3], action="Prepare")
        return None

    async def _detach(self, disk: Object) -> float | None:
        """What is mounted of a device that has gone goes at once: no new pod may begin on it, and keep it alive."""
        name, root, machine = str(disk["metadata"]["name"]), self.tools.settings().mount_root, self.tools.machine
        try:
            self.tools.check()
            if await _on_host(lambda: unmounting.detach_dead(machine, name, root), f"unmount {name}"):
                await self._say(disk, "Missing", f"LocalDisk {name} is not in its node: its dead mount was taken away")
        except BerthError as exc:
            LOG.warning("LocalDisk %s: %s", name, exc.message)
            return _RETRY_SECONDS
        return None

    async def release(self, disk: Object) -> float | None:
        """Take a disk that nobody holds off its mount point, when nobody uses it; seconds until it is tried again."""
        name, root = str(disk["metadata"]["name"]), self.tools.settings().mount_root
        journal = journal_of(disk)
        point = mount_point(name, root)
        left = unmounting.mounted_here(self.tools.machine, name, root) is not None or bool(namespace_links.links(point))
        if not left and journal.get("step") not in (MOUNTING, MOUNTED, UNMOUNTING) and not _says_ready(disk):
            return None
        try:
            fresh = await self.tools.client.get(LOCAL_DISK, name)
            if fresh["spec"].get("claimRef"):
                return 0.0  # somebody holds it again: there is nothing to release
            if await self._is_left(fresh):
                return _RETRY_SECONDS
            if left:
                words = f"nobody holds the disk: unmounting {point}"
                await self.record.write(
                    fresh, (CONDITION, "False", UNMOUNTING, words), journal=after_release(UNMOUNTING, journal, point)
                )
                self.tools.check()
                machine = self.tools.machine
                await _on_host(lambda: unmounting.unmount(machine, fresh, root, False), f"unmount {name}")
            mounted = f"its host mounts it at {host_point(fresh)}" if host_point(fresh) else "it is not mounted"
            await self.record.write(
                fresh,
                (CONDITION, "False", UNMOUNTED, f"nobody holds the disk, and {mounted}"),
                journal=after_release(UNMOUNTED, journal, point) if left or journal else None,
            )
        except BerthError as exc:
            await self._say(disk, "InUse", exc.message)
            return _RETRY_SECONDS
        LOG.info("LocalDisk %s is unmounted: nobody holds it", name)
        self.tools.look_again()
        return None

    async def _is_left(self, disk: Object) -> bool:
        """Whether an app that was released from berth goes on to use the disk, as long as its volume is there."""
        volume = left_to(disk)
        if not volume or await self.tools.client.find(PV, volume) is None:
            return False
        words = f"no berth holds the disk; it stays mounted for PersistentVolume {volume}"
        told: Finding = (CONDITION, "True", LEFT, words)
        if not _is_told(disk, told):
            await self.record.write(disk, told)
        return True

    def _is_ready(self, disk: Object, device: Device) -> bool:
        """As far as the last look, the journal and the host's own disk tell. Raises InputError.

        What an agent of a release before has mounted lacks the link of its namespace.
        """
        name, ref, root = str(disk["metadata"]["name"]), disk["spec"]["claimRef"], self.tools.settings().mount_root
        if not is_mounted_for(disk, ref["uid"]):
            return _is_raw(disk) and _says_ready(disk)
        point = mount_point(name, root)
        path = namespace_link(name, str(ref["namespace"]), root)
        linked = namespace_links.is_linked(point, path, data_directory(ref))
        return linked and point in (device.get("mounts") or ()) and not carries_another(disk, device)

    async def _fence(self, name: str, uid: str) -> Object:
        """The LocalDisk as it is now, held by a living berth with that uid. Raises LockError, StateError."""
        self.tools.check()
        disk = await self.tools.client.get(LOCAL_DISK, name)
        ref = disk["spec"].get("claimRef") or {}
        berth = await self.tools.client.find(BERTH, ref["name"], ref["namespace"]) if ref else None
        check_lock(disk, uid, berth)
        if names_earlier_data(disk):
            check_tenant(disk, await self.tools.client.find(NAMESPACE, ref["namespace"]))
        return disk

    async def _in_thread(self, disk: Object) -> Outcome:
        loop = asyncio.get_running_loop()

        def journal(step: str, plan: FilesystemPlan) -> None:
            asyncio.run_coroutine_threadsafe(self._journal(disk, step, plan), loop).result(_JOURNAL_SECONDS)

        root, machine = self.tools.settings().mount_root, self.tools.machine
        name = str(disk["metadata"]["name"])

        def work() -> Outcome:
            if unmounting.detach_dead(machine, name, root):
                LOG.warning("LocalDisk %s: the mount of a device that is gone was taken away", name)
            return prepare(machine, disk, root, False, journal, at_boot=False)

        return await _on_host(work, f"prepare {name}")

    async def _journal(self, disk: Object, step: str, plan: FilesystemPlan) -> None:
        """Before each step the fence, after it the fact: what has been done is written down whoever holds the disk."""
        name, ref = str(disk["metadata"]["name"]), disk["spec"]["claimRef"]
        if step not in (FORMATTED, MOUNTED):
            await self._fence(name, ref["uid"])
        fields = {"journal": journal_entry(step, plan, ref), **locked_since(disk, ref["uid"])}
        await self.record.write(disk, finding(step, plan), **fields)
        self.tools.check()

    async def _note_ready(self, disk: Object, outcome: Outcome) -> None:
        """Where there was nothing to do, the journal may still be that of another lock, or of a killed agent."""
        plan, ref = outcome.plan, disk["spec"]["claimRef"]
        fields = locked_since(disk, ref["uid"])
        if plan is None or not plan.point:
            self.finished.note_held(disk)
            await self.record.write(disk, (CONDITION, "True", "Raw", "a block volume: nothing is made on it"), **fields)
        elif not outcome.done:
            await self.record.write(disk, finding(MOUNTED, plan), journal=journal_entry(MOUNTED, plan, ref), **fields)

    async def _take_off(self, disk: Object, which: str) -> None:
        """No new pod gets in. One that has shut itself down comes back only by a new mount, when no pod has it."""
        name, root, machine = str(disk["metadata"]["name"]), self.tools.settings().mount_root, self.tools.machine
        self.tools.check()
        if await _on_host(lambda: unmounting.take_off(machine, disk, root, which), f"unmount {name}"):
            LOG.warning("LocalDisk %s: %s was taken off its mount point", name, which)

    async def _say(self, disk: Object, reason: str, message: str) -> None:
        """The condition, and an Event where it is news."""
        told: Finding = (CONDITION, "False", reason, message)
        if _is_told(disk, told):
            return
        LOG.warning("LocalDisk %s is not made ready: %s", disk["metadata"]["name"], message)
        await self.record.write(disk, told)
        if reason != "Waiting":
            self.tools.recorder.event(disk, "Warning", reason, message, action="Prepare")


async def _on_host(work: Callable[[], T], title: str) -> T:
    """In a thread. What the system refuses is a failed step: a full root disk, a device that has just gone."""
    try:
        return await in_thread(work, title)
    except OSError as exc:
        raise StateError(f"{title}: {exc.filename or 'the disk'}: {exc.strerror or exc}") from exc


def _is_told(disk: Object, told: Finding) -> bool:
    """The longest messages are cut when they are written."""
    known = (disk.get("status") or {}).get("conditions") or []
    kind, _status, reason, message = told
    return any(
        (each["type"], each.get("reason"), each.get("message")) == (kind, reason, message[:MESSAGE]) for each in known
    )


def _is_raw(disk: Object) -> bool:
    return bool(disk["spec"].get("volumeMode") == "Block")


def _says_ready(disk: Object) -> bool:
    found = (disk.get("status") or {}).get("conditions") or []
    return any((each["type"], each["status"]) == (CONDITION, "True") for each in found)
