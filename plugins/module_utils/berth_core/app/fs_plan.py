# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done on a host so that a held LocalDisk is a mounted filesystem; above all, what must not be done.

Called by disk_filesystem and by the node agent with a fresh look at the host. Formatting is allowed in two cases
alone: the disk of that identity is blank, nobody uses it, and its lock says that no data has ever been put on it; or
it carries the very filesystem that belongs there, half made: nobody can ever have mounted that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import DataError, InputError, LockError, StateError
from .disk_bounds import is_mount_option
from .disk_plan import DEFAULT_FS_TYPE
from .fsid import DATA_DIRECTORY, DEFAULT_MOUNT_ROOT, data_directory, filesystem_of, mount_point, volume_path
from .identity import Device, describe, describe_all, from_spec, match

#: In /etc/fstab: which line is berth's. mount(8) and systemd ignore options that begin with x-.
MARK = "x-berth.localdisk="
FS_TYPES = ("ext4", "xfs")
#: The "filesystem" of a device that carries no signature, and is not blank.
DATA = "data"


_GIVE_UP = (
    "if nobody needs what is on it, give its berth up and ask for a wipe of the LocalDisk, or zero both ends by hand"
)


class FilesystemPlan(NamedTuple):
    """``device``: the kernel's name now; ``path``: what the PersistentVolume names. Block volumes have no more."""

    name: str
    device: str
    number: str
    uuid: str
    fs_type: str
    point: str
    options: tuple[str, ...]
    format: bool
    mount: bool
    path: str
    #: a half-made filesystem of berth's is there, and is made once more
    again: bool = False
    #: mkfs had begun here, and left what no signature tells
    begun: bool = False
    #: the directory in it that the volume is
    folder: str = DATA_DIRECTORY
    #: what the kernel says of the device, and must say of it still when it is open
    kernel: Mapping[str, Any] = {}


def plan_prepared(
    disk: Mapping[str, Any], devices: Sequence[Device], mount_root: str = DEFAULT_MOUNT_ROOT
) -> FilesystemPlan:
    """The plan for a LocalDisk as the API server has it now and the host's block devices as they are now.

    Raises LockError when nobody holds the disk, IdentityError when the identity names no single disk, StateError when
    it is not in the host, DataError whenever something could be lost.
    """
    name, spec = disk["metadata"]["name"], disk["spec"]
    lock = spec.get("claimRef")
    if not lock:
        raise LockError(f"LocalDisk {name} is held by no berth: nothing is made ready on it", disk=name)
    device = find_device(disk, devices)
    if lock.get("mountPoint"):
        return _left_to_host(name, lock, device)
    block = spec.get("volumeMode", "Filesystem") == "Block"
    point = "" if block else mount_point(name, mount_root)
    _check_unused(name, device, point)
    if block:
        seen = {**disk, "status": {"observed": {"byId": _by_id(disk, device)}}}
        return FilesystemPlan(
            name,
            str(device["path"]),
            str(device["number"]),
            "",
            "",
            "",
            (),
            False,
            False,
            volume_path(seen, lock["namespace"], mount_root),
        )
    uuid, foreign = filesystem_of(lock, name), bool(lock.get("filesystemUUID"))
    again, begun = not foreign and is_unfinished(device, uuid), not foreign and has_begun(device, uuid)
    blank = again or _check_content(name, device, uuid, lock, was_formatted(disk, uuid))
    fs_type = str(spec.get("fsType") or DEFAULT_FS_TYPE) if blank else str(device["fstype"])
    options = tuple(str(option) for option in spec.get("mountOptions") or ())
    _check_words(name, fs_type, options)
    return FilesystemPlan(
        name=name,
        device=str(device["path"]),
        number=str(device["number"]),
        uuid=uuid,
        fs_type=fs_type,
        point=point,
        options=options,
        format=blank,
        mount=point not in device["mounts"],
        path=volume_path(disk, lock["namespace"], mount_root),
        again=again,
        begun=begun,
        folder=data_directory(lock),
        kernel=dict(device.get("kernel") or {}),
    )


def _left_to_host(name: str, lock: Mapping[str, Any], device: Device) -> FilesystemPlan:
    """Nothing is done: the host mounts the filesystem itself, for a volume that was there before berth."""
    away = why_not_at_host(lock, device)
    if away:
        raise StateError(f"LocalDisk {name}: {away}", disk=name)
    uuid, kind = filesystem_of(lock, name), str(device["fstype"])
    return FilesystemPlan(name, str(device["path"]), str(device["number"]), uuid, kind, "", (), False, False, "")


def why_not_at_host(lock: Mapping[str, Any], device: Device) -> str:
    """Why a filesystem that the host mounts itself is not where its volume expects it; empty where it is."""
    point, uuid = str(lock["mountPoint"]), str(lock["filesystemUUID"]).lower()
    found = str(device.get("fsuuid") or "").lower()
    if found != uuid:
        return (
            f"{describe(device)} carries {device.get('fstype') or 'nothing'} {found or 'without UUID'}, expected "
            f"filesystem {uuid}, which was there before berth: it is neither formatted nor mounted"
        )
    if point not in (device.get("mounts") or ()) or device.get("partly_mounted"):
        return (
            f"filesystem {uuid} is not mounted at {point}, where PersistentVolume {lock.get('volume')} expects it: "
            f"this host mounts it itself, and has to do it again, as its /etc/fstab says (mount {point})"
        )
    return ""


def is_unfinished(device: Device, uuid: str) -> bool:
    """Whether mkfs was stopped half-way: berth's filesystem, not mounted, and by its own superblock not complete.

    ``unfinished`` of the device is read by berth_host.superblock. The kernel mounts no such filesystem, so nothing is
    on it. (ext4 has no such state: its superblock is the last thing that mkfs writes; before, the disk is blank.)
    """
    ours = bool(device.get("fstype")) and str(device.get("fsuuid")).lower() == uuid
    return ours and bool(device.get("unfinished")) and not device.get("mounts")


def has_begun(device: Device, uuid: str) -> bool:
    """Whether mkfs of this very filesystem had begun on this host, on a disk that was blank, and not come to its end.

    ``begun`` of the device is read by berth_host.filesystems; what mkfs.ext4 has written by then has no signature.
    """
    return device.get("begun") == uuid and device.get("fstype") in ("", DATA) and not device.get("mounts")


def was_formatted(disk: Mapping[str, Any], uuid: str) -> bool:
    """Whether the node agent's journal says that this filesystem has been made: it is never made twice."""
    journal = (disk.get("status") or {}).get("journal") or {}
    return journal.get("filesystemUUID") == uuid and journal.get("step") not in (None, "Formatting")


def carries_another(disk: Mapping[str, Any], device: Device) -> bool:
    """Whether the disk has a filesystem that was made for another lock than the one that holds it now.

    The journal may say otherwise: in a cluster whose state was restored from a backup it is as old as the lock.
    """
    if disk["spec"].get("volumeMode", "Filesystem") == "Block":
        return False
    found = str(device.get("fsuuid") or "").lower()
    return bool(found) and found != filesystem_of(disk["spec"]["claimRef"], disk["metadata"]["name"])


def find_device(disk: Mapping[str, Any], devices: Sequence[Device]) -> Device:
    """The one device that the LocalDisk's identity names. Raises IdentityError, StateError."""
    name, identity = disk["metadata"]["name"], from_spec(disk["spec"]["identity"])
    whole = [device for device in devices if device.get("type") != "part"]
    device = match(identity, whole)
    if device is None:
        raise StateError(
            f"LocalDisk {name}: no disk of this host is {identity.describe()}. Its disks: {describe_all(whole)}",
            disk=name,
        )
    return device


def fstab_line(plan: FilesystemPlan) -> str:
    """The line that brings the mount back after a reboot; a disk that is gone must not keep the host from booting."""
    options = [*(option for option in plan.options if option != "nofail"), "nofail", f"{MARK}{plan.name}"]
    # The last number: no fsck at boot. Journals are replayed by the mount; anything more is for a person to decide.
    return f"UUID={plan.uuid} {plan.point} {plan.fs_type} {','.join(options)} 0 0"


def _check_unused(name: str, device: Device, point: str) -> None:
    where = f"LocalDisk {name}: {describe(device)}"
    if device.get("is_system"):
        raise DataError(f"{where} carries the running system and is not touched", disk=name)
    if device.get("health") == "Faulted":
        raise StateError(f"{where} is faulted: {device.get('problem')}", disk=name)
    elsewhere = [each for each in device.get("mounts") or () if each != point]
    if elsewhere:
        raise DataError(f"{where} is mounted at {', '.join(elsewhere)}; expected {point or 'nowhere'}", disk=name)
    for fact, text in (
        ("swap", "used as swap"),
        ("holders", "held by"),
        ("read_only", "read-only"),
        ("slaves", "built on"),
    ):
        if device.get(fact):
            names = f" {', '.join(device[fact])}" if isinstance(device[fact], list) else ""
            raise DataError(f"{where} is {text}{names}, and is not touched", disk=name)
    if device.get("problem"):
        raise DataError(f"{where}: what is on it is not known ({device['problem']}), so it is not touched", disk=name)


def _check_content(name: str, device: Device, uuid: str, lock: Mapping[str, Any], made_before: bool) -> bool:
    """Whether the disk is blank and may be formatted; False when the filesystem that belongs there is there."""
    where = f"LocalDisk {name}: {describe(device)}"
    if device.get("partitions") or device.get("pttype"):
        raise DataError(
            f"{where} carries a partition table ({device.get('pttype') or 'type unknown'}) and is never formatted; "
            f"{_GIVE_UP}",
            disk=name,
        )
    if device.get("fstype") == DATA and not has_begun(device, uuid):
        raise DataError(
            f"{where} carries data without a signature that is known, maybe that of a volume of mode Block, expected "
            f"filesystem {uuid} or zeros at both ends: it is never formatted; {_GIVE_UP}",
            disk=name,
        )
    if device.get("fstype") not in ("", None, DATA):
        if str(device.get("fsuuid")).lower() == uuid:
            return False
        since = ", made for this very lock before the other came (a cluster restored from a backup?),"
        wanted = f"filesystem {uuid}{since if made_before else ''} or nothing"
        raise DataError(
            f"{where} carries {device['fstype']} {device.get('fsuuid') or 'without UUID'}, expected {wanted}: it is "
            f"never formatted; {_GIVE_UP}",
            disk=name,
        )
    if device.get("mounts"):
        raise DataError(f"{where} is mounted, and yet nothing is seen on it: it is not touched", disk=name)
    if made_before:
        raise DataError(
            f"{where} is blank, and filesystem {uuid} was made on LocalDisk {name} for this very lock: this is another "
            "disk, or the data is lost; it is not formatted, for that would hide it",
            disk=name,
        )
    if lock["dataUID"] != lock["uid"]:
        raise DataError(
            f"{where} is blank, and should carry the data of {lock['namespace']}/{lock['app']}-{lock['ordinal']} "
            f"(claim {lock['claim']}, filesystem {uuid}): it is not formatted, for that would hide the loss",
            disk=name,
        )
    return True


def _check_words(name: str, fs_type: str, options: Sequence[str]) -> None:
    """What goes to mkfs, mount and fstab as root comes from the cluster: only words that can be no more than words."""
    if fs_type not in FS_TYPES:
        raise InputError(f"LocalDisk {name}: filesystem {fs_type!r} is not one of {', '.join(FS_TYPES)}", disk=name)
    for option in options:
        if not is_mount_option(option):
            raise InputError(f"LocalDisk {name}: mount option {option!r} has signs that no mount option has", disk=name)


def _by_id(disk: Mapping[str, Any], device: Device) -> str:
    """The link that the PersistentVolume names, as the API server knows it; the host must still have it."""
    known = str(((disk.get("status") or {}).get("observed") or {}).get("byId") or "")
    if known and known not in (device.get("by_id") or ()):
        raise StateError(
            f"LocalDisk {disk['metadata']['name']}: {describe(device)} has lost its link /dev/disk/by-id/{known}",
            disk=disk["metadata"]["name"],
        )
    return known
