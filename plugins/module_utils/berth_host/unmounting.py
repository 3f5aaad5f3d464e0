# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes the filesystem of a LocalDisk off its mount point; nothing on the disk changes. Runs on the host, as root.

Called by disk_filesystem and by the node agent when nobody holds the disk any more, and by the agent for a mount whose
disk is gone. A mount that anybody uses stays: also a container that has it in a mount namespace of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import fstab, namespace_links
from .block_devices import Survey
from .core import DataError, StateError, find_device, mount_point
from .filesystems import Outcome, run
from .machine import Machine
from .mounts import Mount, read_mounts, users_elsewhere


def unmount(machine: Machine, disk: Mapping[str, Any], mount_root: str, dry: bool) -> Outcome:
    """The disk is not mounted by berth any more, its line in fstab and its namespace's link to it are gone.

    Raises StateError, DataError.
    """
    name, point = disk["metadata"]["name"], mount_point(disk["metadata"]["name"], mount_root)
    here = mounted_here(machine, name, mount_root)
    if here:
        _check(machine, disk, here)
    old = machine.read_whole(fstab.FSTAB)
    new = fstab.edit(old, name, None)
    linked = bool(namespace_links.links(point))
    wanted = {"namespace link": linked, "unmounted": bool(here), "fstab": new != old}
    done = [step for step, needed in wanted.items() if needed]
    if not dry:
        namespace_links.unlink(point)
        if here:
            run(machine, ["umount", here.point], f"LocalDisk {name} cannot be unmounted from {here.point}")
        if new != old:
            fstab.write(machine.path(fstab.FSTAB), new)
    before = {"mounted": bool(here), "fstab": fstab.find(old, name)}
    return Outcome(done, None, before, {"mounted": False, "fstab": ""})


def detach_dead(machine: Machine, name: str, mount_root: str) -> bool:
    """Take away a mount whose block device is not in the host any more; whether there was one.

    Lazily: what still has files open in it keeps getting errors, and the point is free for the disk when it comes back.
    """
    here = mounted_here(machine, name, mount_root)
    if here is None or is_alive(machine, here):
        return False
    run(machine, ["umount", "--lazy", here.point], f"LocalDisk {name}: the dead mount at {here.point} stays")
    return True


def copies_of_dead(mounts: Iterable[Mount], volume: str, number: str) -> list[str]:
    """Where pods still have the PersistentVolume ``volume`` from a device that its disk is no longer: it was away, and
    came back as device ``number`` (major:minor)."""
    return [mount.point for mount in mounts if mount.point.endswith(f"/{volume}") and mount.device != number]


def take_off(machine: Machine, disk: Mapping[str, Any], mount_root: str, which: str) -> bool:
    """Unmount a filesystem that no new pod may have from its mount point; whether it was mounted there.

    ``which``: one that answers errors only, or that of a holder before.

    A pod that has it keeps its own mount of it. But no new pod gets in, so that the last one goes and the disk can be
    mounted anew: a moment without users would never come where each pod is followed by the next at once.
    Raises StateError, DataError.
    """
    name = disk["metadata"]["name"]
    here = mounted_here(machine, name, mount_root)
    if here is None:
        return False
    _check_device(machine, disk, here)
    run(
        machine,
        ["umount", here.point],
        f"LocalDisk {name}: {which} cannot be unmounted from {here.point}",
    )
    return True


def mounted_here(machine: Machine, name: str, mount_root: str) -> Mount | None:
    """The mount at the LocalDisk's mount point."""
    point = mount_point(name, mount_root)
    return next((mount for mount in reversed(read_mounts(machine)) if mount.point == point), None)


def is_alive(machine: Machine, mount: Mount) -> bool:
    """Whether the host still has the block device below a mount."""
    return bool(mount.device) and machine.exists(f"/sys/dev/block/{mount.device}")


def users(machine: Machine, mount: Mount) -> list[str]:
    """Who else uses what is mounted there: other mount points, and processes with mount namespaces of their own."""
    points = [each.point for each in read_mounts(machine) if each.device == mount.device and each.point != mount.point]
    return [*points, *users_elsewhere(machine, mount.device)]


def _check_device(machine: Machine, disk: Mapping[str, Any], here: Mount) -> None:
    if not is_alive(machine, here):
        return
    device = find_device(disk, Survey(machine).records())
    if here.device != device["number"]:
        raise DataError(
            f"LocalDisk {disk['metadata']['name']}: another disk ({here.source}) is mounted at {here.point}; it is not "
            "touched"
        )


def _check(machine: Machine, disk: Mapping[str, Any], here: Mount) -> None:
    name = disk["metadata"]["name"]
    _check_device(machine, disk, here)
    used_by = users(machine, here)
    if used_by:
        raise StateError(
            f"LocalDisk {name}: {here.point} is in use, it is also mounted at {', '.join(used_by)}; stop its pod first"
        )
