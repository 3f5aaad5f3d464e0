"""The health of every disk of the node: probes, what the disk says itself, the kernel's words; and who is told of it.

Run by work. What it comes to is decided in berth_core.app.health. A check never waits for a disk: every try is a
process of its own, and one that hangs is left alone until it comes back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from berth_core.app.fsid import mount_point
from berth_core.app.health import Evidence, Health, from_status, judge, smart_facts, to_status
from berth_core.app.manifests import volume_of_lock
from berth_core.app.next_commands import mend
from berth_core.app.phase import FAULTED
from berth_core.app.prepare import expected_point
from berth_core.errors import BerthError
from berth_host.disk_probe import Probe, Tried
from berth_host.mounts import Mount, read_mounts
from berth_host.smart import read_smart
from berth_host.unmounting import copies_of_dead

from ..seams import Look, Object, Tools
from ..seams import Record as Device
from ..waiting import wait_for
from .kernel_log import KernelLog
from .pods import Pods, Verdict
from .record import Record
from .threads import in_thread

LOG = logging.getLogger("berth_agent.disks")
#: A write of one block with fsync: more than this is no load, it is trouble.
_ANSWER_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_SMART_SECONDS = 3.0


class Checking:
    """One node's disks. All state can be made anew from the objects and the next checks."""

    def __init__(self, tools: Tools, record: Record) -> None:
        self.tools, self.record = tools, record
        self.log, self.pods = KernelLog(tools.machine), Pods(tools)
        self._health: dict[str, Health] = {}
        self._probes: dict[str, Probe] = {}
        self._smart: dict[str, tuple[float, dict[str, Any]]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        #: LocalDisk -> when the last check began whose probe failed; when its filesystem was last mounted
        self._failed: dict[str, float] = {}
        self._mounted: dict[str, float] = {}
        self._said: set[str] = set()
        self._soon = asyncio.Event()

    def health(self, disk: Object) -> Health:
        """The verdict on a LocalDisk so far: before the first check, the one that the last agent wrote down."""
        return self._health.get(str(disk["metadata"]["name"])) or from_status(disk.get("status") or {})

    def is_broken_mount(self, disk: Object) -> bool:
        """Whether what is mounted for it answered with an error: this very mount, not one before it."""
        name, health = str(disk["metadata"]["name"]), self.health(disk)
        if health.state != FAULTED or health.reason != "ProbeFailed":
            return False
        return self._failed.get(name, 0.0) > self._mounted.get(name, 0.0)

    def mounted_anew(self, name: str) -> None:
        """What failed until now says nothing of the new mount: check it soon. Returns at once."""
        self._mounted[name] = time.monotonic()
        self.check_soon()

    def check_soon(self) -> None:
        """Do not wait for the interval. Returns at once."""
        self._soon.set()

    async def run(self) -> None:
        """Until cancelled."""
        self.log.open()
        try:
            while True:
                look = self.tools.look()
                if look is not None:
                    await self.check_all(look)
                await self._pause()
        finally:
            self.log.close()

    async def check_all(self, look: Look) -> None:
        """One check of every disk. What the API server refuses is tried again at the next check."""
        disks = {name: (disk, look.find_or_problem(disk)[0]) for name, disk in self.tools.disks().items()}
        for gone in set(self._health) - set(disks):
            self._health.pop(gone)
        began = time.monotonic()
        tried = await self._try_all({name: (disk, found) for name, (disk, found) in disks.items() if found is not None})
        self._failed.update({name: began for name, each in tried.items() if each.result == "failed"})
        mounts = read_mounts(self.tools.machine)
        for name, (disk, device) in disks.items():
            if device is not None:
                evidence = await self._evidence(name, device, tried.get(name))
                self._judge(disk, evidence)
            try:
                await self._tell(disk, device, mounts)
            except BerthError as exc:
                LOG.warning("LocalDisk %s: its health is not recorded: %s", name, exc.message)

    def _judge(self, disk: Object, evidence: Evidence) -> None:
        name = str(disk["metadata"]["name"])
        before = self.health(disk)
        now = self._health[name] = judge(before, evidence)
        if (now.state, now.reason) == (before.state, before.reason):
            return
        bad = now.state == FAULTED
        if bad or before.state == FAULTED:
            LOG.log(logging.ERROR if bad else logging.INFO, "LocalDisk %s: %s: %s", name, now.reason, now.message)
            kind, words = ("Warning" if bad else "Normal"), now.message or now.reason
            self.tools.recorder.event(disk, kind, f"Disk{now.reason}", words, action="Check")
        self.tools.wake_disk(name)

    async def _tell(self, disk: Object, device: Device | None, mounts: list[Mount]) -> None:
        """The status, and the pods on the disk."""
        name = str(disk["metadata"]["name"])
        health, live = self._health.get(name), (disk.get("status") or {}).get("health") or {}
        if health is not None and device is not None and health.reason != "NotChecked":
            facts = self._smart.get(name, (0.0, {}))[1]
            status = to_status(health, facts, live, self.tools.now())
            if status != live:
                await self.record.write(disk, health=status)
        root = self.tools.settings().mount_root
        await self.pods.tell(disk, _verdict(disk, device, health or Health(), root, mounts))

    async def _try_all(self, devices: dict[str, tuple[Object, Device]]) -> dict[str, Tried]:
        """Begin a try of each, then wait for the answers, all together.

        Nothing is written to a filesystem that was there before berth: all of it is the application's.
        """
        settings = self.tools.settings()
        for name, (disk, device) in devices.items():
            probe = self._probes.setdefault(name, Probe(self.tools.machine))
            point = mount_point(name, settings.mount_root)
            ours = settings.policies.probe_writes and not _was_there_before(disk)
            mounted = ours and point in (device.get("mounts") or ())
            try:
                probe.start(str(device["path"]), point if mounted else "")
            except OSError as exc:
                self._say_once(f"disks cannot be probed: {exc.filename}: {exc.strerror}")
        found: dict[str, Tried] = {}
        while len(found) < len(devices):
            for name in devices:
                answer = self._probes[name].look(_ANSWER_SECONDS) if name not in found else None
                if answer is not None:
                    found[name] = answer
            await asyncio.sleep(_LOOK_SECONDS)
        return found

    async def _evidence(self, name: str, device: Device, tried: Tried | None) -> Evidence:
        errors = self.log.take(str(device["name"]))
        smart = await self._evidence_of_itself(name, str(device["path"]))
        return Evidence(tried.result if tried else "none", tried.note if tried else "", smart, errors)

    async def _evidence_of_itself(self, name: str, path: str) -> dict[str, Any]:
        """What the disk last said of itself. A disk that does not answer is not waited for: its next check knows."""
        since, facts = self._smart.get(name, (-1e9, {}))
        if time.monotonic() - since < self.tools.settings().intervals.smart:
            return facts
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.ensure_future(self._ask_smart(name, path))
        await asyncio.wait([asking], timeout=_SMART_SECONDS)
        return self._smart.get(name, (0.0, facts))[1]

    async def _ask_smart(self, name: str, path: str) -> None:
        machine = self.tools.machine
        try:
            report, why = await in_thread(lambda: read_smart(machine, path), f"smart {name}")
            if why:
                self._say_once(why)
            self._smart[name] = (time.monotonic(), smart_facts(report))
        finally:
            self._asking.pop(name, None)

    def _say_once(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            LOG.info("%s", words)

    async def _pause(self) -> None:
        try:
            await wait_for(self._soon.wait(), self.tools.settings().intervals.health)
        except asyncio.TimeoutError:
            return
        self._soon.clear()


def _verdict(disk: Object, device: Device | None, health: Health, root: str, mounts: list[Mount]) -> Verdict:
    name = disk["metadata"]["name"]
    what = f"LocalDisk {name} of node {disk['spec']['nodeName']}"
    if device is None:
        return Verdict(False, "Missing", f"{what} is not in its node any more: {mend(str(name))}")
    if health.state == FAULTED:
        return Verdict(False, health.reason, f"{what}: {health.message}: {mend(str(name))}")
    if device.get("health") == FAULTED:
        return Verdict(False, FAULTED, f"{what}: {device.get('problem')}: {mend(str(name))}")
    if _is_left_over(disk, device, expected_point(disk, root)) or _is_from_before(disk, device, mounts):
        words = "this pod has an old mount of a filesystem that is shut down; delete the pod: the next gets a new one"
        return Verdict(False, "OldMount", f"LocalDisk {name}: {words}")
    return Verdict(True, "Healthy", "every disk of this pod answers")


def _was_there_before(disk: Object) -> bool:
    owner = disk["spec"].get("claimRef") or disk["spec"].get("retainedFor") or {}
    return bool(owner.get("filesystemUUID"))


def _is_left_over(disk: Object, device: Device, point: str) -> bool:
    """Whether pods still have a filesystem that was taken off its mount point because it answered errors only."""
    mounts = device.get("mounts") or ()
    return bool(mounts) and point not in mounts and disk["spec"].get("volumeMode") != "Block"


def _is_from_before(disk: Object, device: Device, mounts: list[Mount]) -> bool:
    """Whether pods still have what was mounted before the disk was pulled out: that filesystem answers no more."""
    lock = disk["spec"].get("claimRef")
    if not lock or disk["spec"].get("volumeMode") == "Block":
        return False
    return bool(copies_of_dead(mounts, volume_of_lock(disk), str(device["number"])))
