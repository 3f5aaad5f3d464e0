# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes ready and mounts the filesystem of a held LocalDisk, as fs_plan says. Runs on the host, as root.

Called by disk_filesystem and by the node agent: one implementation. Between the last look at the disk and mkfs nobody
else may have it: the device is locked, opened exclusively (the kernel refuses that while it is mounted, in whatever
namespace) and looked at once more. The way back is in unmounting.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import fstab, mkfs, namespace_links
from .begun import make_root, note_begun, note_ended, read_begun, sync_folder
from .block_devices import Record, Survey
from .core import (
    DATA_DIRECTORY,
    DataError,
    FilesystemPlan,
    StateError,
    find_device,
    fstab_line,
    plan_prepared,
)
from .machine import Machine
from .mounts import read_mounts
from .opened import check_opened
from .probes import FILESYSTEM_FACTS, read_signature
from .superblock import is_unfinished

MOUNT_SECONDS = 120.0
#: How long somebody else (another run, a mkfs that outlived its run, udev) may keep the device's lock.
_LOCK_SECONDS = 60.0
#: After so long what the API server said of the disk's lock is old, for whom no journal asks it again.
_FRESH_SECONDS = 5.0
#: Of a new data directory: the kubelet gives it to a pod's fsGroup, a pod without one writes as any user. What a pod
#: makes of its mode and owner stays.
_DATA_MODE = 0o777

#: Called before and after each step that changes the disk, with the device locked: "Formatting", "Formatted",
#: "Mounting", "Mounted". What it raises stops the work there.
Journal = Callable[[str, FilesystemPlan], None]


class Outcome(NamedTuple):
    """What was done (in check mode: would be), and the state before and after, for people."""

    done: list[str]
    plan: FilesystemPlan | None
    before: dict[str, Any]
    after: dict[str, Any]


def prepare(
    machine: Machine,
    disk: Mapping[str, Any],
    mount_root: str,
    dry: bool,
    journal: Journal | None = None,
    at_boot: bool = True,
) -> Outcome:
    """The disk's filesystem is there and mounted. Raises BerthError where it refuses.

    ``at_boot``: it comes back after a reboot by itself, through /etc/fstab; the node agent mounts again on its own.
    """
    devices = look(machine, disk, mount_root)
    plan = plan_prepared(disk, devices, mount_root)
    device = find_device(disk, devices)
    if not plan.point:
        return Outcome([], plan, {}, {})
    _check_point(machine, plan)
    namespace_links.check(plan.point, plan.path)
    old, new = _tables(machine, plan, at_boot)
    wanted = {
        "formatted": plan.format,
        "namespace link": not namespace_links.is_linked(plan.point, plan.path, plan.folder),
        "mounted": plan.mount,
        "fstab": new != old,
        "data directory": _lacks_data(plan),
    }
    done = [step for step, needed in wanted.items() if needed]
    before = {
        "filesystem": device["fsuuid"],
        "mounted": plan.point in device["mounts"],
        "fstab": fstab.find(old, plan.name),
    }
    after = {"filesystem": plan.uuid, "mounted": True, "fstab": fstab.find(new, plan.name)}
    if not plan.mount:
        _check_moved(plan)
    if done and not dry:
        _carry_out(machine, disk, plan, journal, at_boot)
    return Outcome(done, plan, before, after)


def look(machine: Machine, disk: Mapping[str, Any], mount_root: str) -> list[Record]:
    """The block devices now; of the disk's own, what it carries is read from itself, and what was begun there.

    udev's database may tell of what was there before, and says nothing of an unfinished mkfs. Same errors.
    """
    devices = Survey(machine).records()
    device = find_device(disk, devices)
    if device["health"] == "Faulted" or not machine.is_running:
        return devices
    signature = read_signature(machine, device["path"])
    facts = {key: signature.facts.get(key, "") for key in FILESYSTEM_FACTS}
    unfinished = bool(facts["fstype"]) and is_unfinished(machine, device["path"])
    begun = read_begun(disk["metadata"]["name"], mount_root)
    seen = {**device, **facts, "problem": signature.problem, "unfinished": unfinished, "begun": begun}
    return [seen if each is device else each for each in devices]


def _carry_out(
    machine: Machine, disk: Mapping[str, Any], plan: FilesystemPlan, asked: Journal | None, boot: bool
) -> None:
    began, journal = time.monotonic(), asked or _no_journal
    with locked(plan.name, plan.device) as lock:
        waited = time.monotonic() - began
        plan = _plan_again(machine, disk, plan, lock)
        if plan.format and asked is None and waited > _FRESH_SECONDS:
            raise StateError(
                f"LocalDisk {plan.name}: {plan.device} was locked by another process (flock) for {waited:.0f} s; who "
                "holds the LocalDisk may be another one since: nothing was made, try again",
                disk=plan.name,
            )
        old, new = _tables(machine, plan, boot)
        if plan.format:
            mkfs.check_blank(machine, plan)  # a refusal is no step: the journal does not say "making" at each new try
            journal("Formatting", plan)
            note_begun(plan)
            mkfs.make(machine, plan, lock)
            note_ended(plan)
            journal("Formatted", plan)
        if plan.mount:
            journal("Mounting", plan)
            _check_mountable(machine, plan, lock)
        # Before the mount: data that was given over to this namespace is never there by the link of the one before.
        namespace_links.link(plan.point, plan.path, plan.folder)
        if plan.mount:
            _mount(machine, plan)
        if new != old:
            fstab.write(machine.path(fstab.FSTAB), new)
        if plan.folder == DATA_DIRECTORY:
            make_data_directory(plan.point)
        _check_moved(plan)
        journal("Mounted", plan)


def _plan_again(machine: Machine, disk: Mapping[str, Any], before: FilesystemPlan, lock: int) -> FilesystemPlan:
    """Somebody may have been at work during the wait for the lock: what counts is what is on the locked device now."""
    root = os.path.dirname(before.point)
    plan = plan_prepared(disk, look(machine, disk, root), root)
    if plan.device != before.device:
        raise StateError(
            f"LocalDisk {plan.name}: it was {before.device} and is {plan.device} now; nothing was done: try again",
            disk=plan.name,
        )
    check_opened(machine, lock, plan)
    return plan


def _check_mountable(machine: Machine, plan: FilesystemPlan, lock: int) -> None:
    """The locked device is still that disk, and carries the filesystem that belongs there. Raises DataError."""
    check_opened(machine, lock, plan)
    signature = read_signature(machine, plan.device)
    found = str(signature.facts.get("fsuuid", "")).lower(), signature.facts.get("fstype", "")
    if found != (plan.uuid, plan.fs_type):
        carries = signature.problem or " ".join(reversed(found)).strip() or "nothing"
        raise DataError(
            f"LocalDisk {plan.name}: {plan.device} carries {carries}, expected {plan.fs_type} {plan.uuid}; it is not "
            "mounted",
            disk=plan.name,
        )


@contextmanager
def locked(name: str, device: str) -> Iterator[int]:
    """The lock that udev and other tools respect, as an open file: two runs for one disk come one after the other."""
    handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    deadline = time.monotonic() + _LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StateError(
                        f"LocalDisk {name}: {device} is locked by another process (flock), maybe a mkfs that is still "
                        "at work; try again when it has ended",
                        disk=name,
                    ) from None
                time.sleep(0.1)
        yield handle
    finally:
        os.close(handle)


def run(machine: Machine, argv: list[str], what: str) -> None:
    """A command that must succeed. Raises StateError with its words."""
    answer = machine.run(argv, MOUNT_SECONDS)
    if answer.status != 0:
        raise StateError(f"{what}: {answer.why()}")


def _tables(machine: Machine, plan: FilesystemPlan, at_boot: bool) -> tuple[str, str]:
    """/etc/fstab as it is and as it is to be."""
    old = machine.read_whole(fstab.FSTAB)
    return old, fstab.edit(old, plan.name, fstab_line(plan)) if at_boot else old


def _mount(machine: Machine, plan: FilesystemPlan) -> None:
    make_root(plan.point)
    os.makedirs(plan.point, mode=0o700, exist_ok=True)
    options = ["-o", ",".join(plan.options)] if plan.options else []
    # By the device that was looked at, under its lock: a UUID would be looked up again.
    argv = ["mount", "-t", plan.fs_type, *options, plan.device, plan.point]
    run(machine, argv, f"LocalDisk {plan.name}: {plan.device} cannot be mounted at {plan.point}")


def _check_point(machine: Machine, plan: FilesystemPlan) -> None:
    """Nothing else may be mounted at the mount point, and nothing may lie in the folder below it."""
    other = [mount for mount in read_mounts(machine) if mount.point == plan.point and mount.device != plan.number]
    if other:
        raise StateError(f"LocalDisk {plan.name}: {other[-1].source} is mounted at {plan.point} already")
    if plan.mount and machine.names(plan.point):
        raise StateError(
            f"LocalDisk {plan.name}: the folder {plan.point} is not empty, and mounting would hide what is in it"
        )


def _lacks_data(plan: FilesystemPlan) -> bool:
    """Whether its data directory has to be made, as far as can be seen: what is not mounted has kept its own."""
    if plan.folder != DATA_DIRECTORY:
        return False
    return plan.format or (not plan.mount and not os.path.isdir(os.path.join(plan.point, DATA_DIRECTORY)))


def _check_moved(plan: FilesystemPlan) -> None:
    """A filesystem that was there before berth has its data where its volume had it: a person moves it. Raises
    StateError as long as that is not done; it stays mounted, so that it can be done."""
    if plan.folder == DATA_DIRECTORY or os.path.isdir(os.path.join(plan.point, plan.folder)):
        return
    raise StateError(
        f"LocalDisk {plan.name}: filesystem {plan.uuid} was there before berth, and is mounted at {plan.point}. What "
        f"its volume had lies in its root: make the folder {plan.point}/{plan.folder} with the owner and mode of the "
        "root, and move everything into it; nothing else is done with it",
        disk=plan.name,
    )


def make_data_directory(point: str) -> None:
    """The directory that pods get, made once with its mode; one that is there keeps what it has.

    It comes under its name whole, so that a run that is killed in between leaves none with another mode.
    """
    folder = os.path.join(point, DATA_DIRECTORY)
    if os.path.isdir(folder):
        return
    new = f"{folder}.new"
    os.makedirs(new, exist_ok=True)
    os.chmod(new, _DATA_MODE)
    os.rename(new, folder)
    sync_folder(point)


def _no_journal(step: str, plan: FilesystemPlan) -> None:
    """For a run that is watched by its user."""
