# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes, mounts and unmounts the filesystem of a held LocalDisk, as fs_plan says. Runs on the host, as root.

Called by disk_filesystem. Between the last look at the disk and mkfs nobody else may have it: the device is locked,
opened exclusively (the kernel refuses that while it is mounted, in whatever namespace) and looked at once more.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import fstab
from .block_devices import Survey
from .core import (
    DATA_DIRECTORY,
    DataError,
    FilesystemPlan,
    StateError,
    find_device,
    fstab_line,
    mount_point,
    plan_prepared,
)
from .machine import Machine
from .mounts import read_mounts
from .probes import read_signature

#: A large disk with a slow controller: mkfs discards every block.
_MKFS_SECONDS = 1800.0
_MOUNT_SECONDS = 120.0
#: The kubelet gives the directory to a pod's fsGroup; a pod without one writes as any user. The folder of all disks is
#: open to root alone.
_DATA_MODE = 0o777
_ROOT_MODE = 0o700


class Outcome(NamedTuple):
    """What was done (in check mode: would be), and the state before and after, for people."""

    done: list[str]
    plan: FilesystemPlan | None
    before: dict[str, Any]
    after: dict[str, Any]


def prepare(machine: Machine, disk: Mapping[str, Any], mount_root: str, dry: bool) -> Outcome:
    """The disk's filesystem is there, mounted, and comes back after a reboot. Raises BerthError where it refuses."""
    devices = Survey(machine).records()
    plan = plan_prepared(disk, devices, mount_root)
    device = find_device(disk, devices)
    if not plan.point:
        return Outcome([], plan, {}, {})
    _check_point(machine, plan)
    old = machine.read_whole(fstab.FSTAB)
    new = fstab.edit(old, plan.name, fstab_line(plan))
    wanted = {"formatted": plan.format, "mounted": plan.mount, "fstab": new != old, "data directory": _lacks_data(plan)}
    done = [step for step, needed in wanted.items() if needed]
    before = {"filesystem": device["fsuuid"], "mounted": plan.point in device["mounts"], "fstab": _ours(old, plan.name)}
    after = {"filesystem": plan.uuid, "mounted": True, "fstab": _ours(new, plan.name)}
    if done and not dry:
        _carry_out(machine, disk, plan)
    return Outcome(done, plan, before, after)


def unmount(machine: Machine, disk: Mapping[str, Any], mount_root: str, dry: bool) -> Outcome:
    """The disk is not mounted by us any more, and its line in fstab is gone. Nothing on the disk changes."""
    name = disk["metadata"]["name"]
    point = mount_point(name, mount_root)
    mounts = read_mounts(machine)
    here = [mount for mount in mounts if mount.point == point]
    users = [mount.point for mount in mounts if here and mount.device == here[-1].device and mount.point != point]
    if users:
        raise StateError(
            f"LocalDisk {name}: {point} is in use, it is also mounted at {', '.join(users)}; stop its pod first"
        )
    if here:
        device = find_device(disk, Survey(machine).records())
        if here[-1].device != device["number"]:
            raise DataError(
                f"LocalDisk {name}: another disk ({here[-1].source}) is mounted at {point}; it is not touched"
            )
    old = machine.read_whole(fstab.FSTAB)
    new = fstab.edit(old, name, None)
    done = [step for step, needed in (("unmounted", bool(here)), ("fstab", new != old)) if needed]
    if not dry:
        if here:
            _run(machine, ["umount", point], f"LocalDisk {name} cannot be unmounted from {point}")
        if new != old:
            fstab.write(machine.path(fstab.FSTAB), new)
    before = {"mounted": bool(here), "fstab": _ours(old, name)}
    return Outcome(done, None, before, {"mounted": False, "fstab": ""})


def _carry_out(machine: Machine, disk: Mapping[str, Any], plan: FilesystemPlan) -> None:
    with _locked(plan):
        # Somebody may have been at work while we waited for the lock: what counts is what is there now.
        plan = plan_prepared(disk, Survey(machine).records(), os.path.dirname(plan.point))
        old = machine.read_whole(fstab.FSTAB)
        new = fstab.edit(old, plan.name, fstab_line(plan))
        if plan.format:
            _format(machine, plan)
        if plan.mount:
            _mount(machine, plan)
        if new != old:
            fstab.write(machine.path(fstab.FSTAB), new)
        if _lacks_data(plan):
            folder = os.path.join(plan.point, DATA_DIRECTORY)
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, _DATA_MODE)


@contextmanager
def _locked(plan: FilesystemPlan) -> Iterator[None]:
    """The lock that udev and other tools respect: two runs for one disk come one after the other."""
    handle = os.open(plan.device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _format(machine: Machine, plan: FilesystemPlan) -> None:
    """mkfs, after a last look with the device held exclusively; and a look at what it has made."""
    try:
        handle = os.open(plan.device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as exc:
        raise DataError(
            f"LocalDisk {plan.name}: {plan.device} is used by somebody else ({exc.strerror}); nothing was made"
        ) from exc
    try:
        signature = read_signature(machine, plan.device)
        if signature.facts or signature.problem:
            found = signature.problem or signature.facts
            raise DataError(f"LocalDisk {plan.name}: {plan.device} is not blank ({found}); nothing was made")
        _check_ends(plan, handle)
    finally:
        os.close(handle)  # mkfs opens it exclusively itself
    if plan.fs_type == "xfs":
        argv = ["mkfs.xfs", "-q", "-m", f"uuid={plan.uuid}", plan.device]
    else:
        argv = ["mkfs.ext4", "-q", "-m", "0", "-U", plan.uuid, plan.device]
    _run(
        machine,
        argv,
        f"LocalDisk {plan.name}: no {plan.fs_type} filesystem could be made on {plan.device}",
        _MKFS_SECONDS,
    )
    made = read_signature(machine, plan.device).facts
    if made.get("fsuuid") != plan.uuid:
        raise StateError(
            f"LocalDisk {plan.name}: {argv[0]} reported success, and {plan.device} carries {made or 'nothing'}"
        )
    if machine.exists("/run/udev/control"):
        machine.run(["udevadm", "trigger", "--action=change", plan.device])
        machine.run(["udevadm", "settle", "--timeout=10"])


def _check_ends(plan: FilesystemPlan, handle: int) -> None:
    """Both ends of the disk can be read and are blank: signatures of old arrays and boot loaders live there."""
    size, block = os.lseek(handle, 0, os.SEEK_END), 4096
    for offset in (0, max(0, size - block)):
        try:
            data = os.pread(handle, block, offset)
        except OSError as exc:
            raise StateError(
                f"LocalDisk {plan.name}: {plan.device} cannot be read at byte {offset}: {exc.strerror}"
            ) from exc
        if len(data) < min(block, size):
            raise StateError(f"LocalDisk {plan.name}: {plan.device} ends before its size; nothing was made")


def _mount(machine: Machine, plan: FilesystemPlan) -> None:
    root = os.path.dirname(plan.point)
    if not os.path.isdir(root):
        os.makedirs(root, mode=0o755, exist_ok=True)
        os.chmod(root, _ROOT_MODE)
    os.makedirs(plan.point, mode=0o700, exist_ok=True)
    options = ["-o", ",".join(plan.options)] if plan.options else []
    # By the device that was looked at, under its lock: a UUID would be looked up again.
    argv = ["mount", "-t", plan.fs_type, *options, plan.device, plan.point]
    _run(machine, argv, f"LocalDisk {plan.name}: {plan.device} cannot be mounted at {plan.point}", _MOUNT_SECONDS)


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
    """A mount point without its data directory; before the mount it has none."""
    return plan.mount or not os.path.isdir(os.path.join(plan.point, DATA_DIRECTORY))


def _ours(text: str, name: str) -> str:
    return next((line for line in text.splitlines() if fstab.is_ours(line, name)), "")


def _run(machine: Machine, argv: list[str], what: str, timeout: float = _MOUNT_SECONDS) -> None:
    answer = machine.run(argv, timeout)
    if answer.status != 0:
        raise StateError(f"{what}: {answer.why()}")
