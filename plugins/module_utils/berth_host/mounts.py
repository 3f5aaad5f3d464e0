# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is mounted where, and what the running system itself stands on. Read from /proc, never from mount(8).

Called by block_devices and disk_filesystem.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from .machine import Machine

#: A disk below one of these is the system's. Everything else that is mounted is somebody's data.
SYSTEM_POINTS = frozenset(
    (
        *(
            "/",
            "/boot",
            "/boot/efi",
            "/efi",
            "/usr",
            "/etc",
            "/var",
            "/var/log",
            "/var/lib",
            "/home",
            "/root",
            "/opt",
            "/tmp",  # noqa: S108 - named, not used
        ),
        *("/nix", "/gnu/store", "/sysroot"),
        *("/var/lib/containerd", "/var/lib/docker", "/var/lib/etcd", "/var/lib/kubelet"),
    )
)
_OCTAL = re.compile(r"\\([0-7]{3})")
_LAYERS = ("upperdir", "workdir", "lowerdir")


class Mount(NamedTuple):
    """One line of mountinfo. ``device`` is ``major:minor`` of the block device, empty where there is none."""

    device: str
    root: str
    point: str
    fstype: str
    source: str
    options: str


def read_mounts(machine: Machine) -> list[Mount]:
    """The mounts that this process sees, in the order in which they were made."""
    found = []
    for line in machine.read("/proc/self/mountinfo").splitlines():
        head, _sep, tail = line.partition(" - ")
        fields, rest = head.split(), tail.split()
        if len(fields) < 5 or len(rest) < 2:
            continue
        source = _unescape(rest[1])
        device = _device_number(machine, fields[2], source)
        options = _unescape(rest[2]) if len(rest) > 2 else ""
        found.append(Mount(device, _unescape(fields[3]), _unescape(fields[4]), rest[0], source, options))
    return _of_host(found, machine.host_root) if machine.host_root else found


def _of_host(mounts: Iterable[Mount], host_root: str) -> list[Mount]:
    """In a container: the host's mounts, at the places where the host has them. The container's own are not the host's.

    What the container shares with its host (the place where disks are mounted) is seen below ``host_root`` too.
    """
    return [
        mount._replace(point=mount.point[len(host_root) :] or "/")
        for mount in mounts
        if mount.point == host_root or mount.point.startswith(host_root + "/")
    ]


def read_swaps(machine: Machine) -> list[str]:
    """``major:minor`` of every device that is swapped to; a swap file counts for the device below it."""
    found = []
    for line in machine.read("/proc/swaps").splitlines()[1:]:
        name = _unescape(line.split()[0]) if line.split() else ""
        if name.startswith("/dev/"):
            found.append(_number_of(machine, name))
        elif name:
            found.append(_below(machine, name, read_mounts(machine)))
    return sorted({number for number in found if number})


def mount_points(mounts: Iterable[Mount], device: str) -> list[str]:
    """Where a device is mounted. Binds of folders inside it count only when nothing mounts the whole of it.

    A volume of a pod is such a bind: it comes and goes with the pod and says nothing new about the disk.
    """
    here = [mount for mount in mounts if device and mount.device == device]
    whole = sorted({mount.point for mount in here if mount.root == "/"})
    return whole or sorted({mount.point for mount in here})


def is_partly_mounted(mounts: Iterable[Mount], device: str) -> bool:
    """Whether nothing but binds of folders inside it is left of a device's mounts."""
    roots = {mount.root for mount in mounts if device and mount.device == device}
    return bool(roots) and "/" not in roots


def system_devices(machine: Machine, mounts: list[Mount]) -> set[str]:
    """``major:minor`` of what the running system stands on: its folders, and the layers of an overlay root."""
    found = {mount.device for mount in mounts if mount.point in SYSTEM_POINTS and mount.root == "/"}
    found |= {mount.device for mount in mounts if mount.point == "/"}
    for mount in mounts:
        if mount.point == "/" and mount.fstype == "overlay":
            found |= {_below(machine, layer, mounts) for layer in _layers(mount.options)}
    found.discard("")
    return found


def users_elsewhere(machine: Machine, device: str) -> list[str]:
    """Mounts of a device in other mount namespaces that the caller sees: ``POINT of process PID``, one per namespace.

    A container keeps its volume mounted after the kubelet's own mount is gone. What goes when the caller's mount goes
    uses nothing: services with a namespace of their own (systemd-udevd is one on every host) have a copy of each mount.
    """
    seen = {_namespace(machine, "self")}
    ours = _propagation(machine.read("/proc/self/mountinfo"), device)
    found = []
    for pid in (name for name in machine.names("/proc") if name.isdigit()):
        namespace = _namespace(machine, pid)
        if not namespace or namespace in seen:
            continue
        seen.add(namespace)
        theirs = _propagation(machine.read(f"/proc/{pid}/mountinfo"), device)
        stays = next((copy.point for copy in theirs if not any(_goes_with(copy, own) for own in ours)), None)
        if stays is not None:
            found.append(f"{stays} of process {pid}")
    return found


class _Copy(NamedTuple):
    """A mount of a device: where, of which folder of it, and in which peer groups it and its parent mount are."""

    point: str
    root: str
    groups: frozenset[str]
    parent_groups: frozenset[str]


def _propagation(mountinfo: str, device: str) -> list[_Copy]:
    rows = [fields for fields in (line.split() for line in mountinfo.splitlines()) if len(fields) > 6]
    groups = {fields[0]: _groups(fields) for fields in rows}
    return [
        _Copy(_unescape(fields[4]), fields[3], groups[fields[0]], groups.get(fields[1], frozenset()))
        for fields in rows
        if fields[2] == device
    ]


def _groups(fields: Sequence[str]) -> frozenset[str]:
    """The peer groups that a mount hears of changes from: its own (shared), its master's; see mount_namespaces(7)."""
    optional = takewhile(lambda word: word != "-", fields[6:])
    return frozenset(word.partition(":")[2] for word in optional if word.startswith(("shared:", "master:")))


def _goes_with(copy: _Copy, own: _Copy) -> bool:
    """Unmounting ``own`` unmounts ``copy``: the same mount at the same place, whose parent follows that of ``own``."""
    follows = bool(copy.groups & own.groups) and bool(copy.parent_groups & own.parent_groups)
    return follows and (copy.root, copy.point) == (own.root, own.point)


def _namespace(machine: Machine, pid: str) -> str:
    try:
        return os.readlink(machine.path(f"/proc/{pid}/ns/mnt"))
    except OSError:
        return ""  # the process has ended, or is a kernel thread


def _layers(options: str) -> list[str]:
    layers: list[str] = []
    for option in options.split(","):
        key, _sep, value = option.partition("=")
        if key.rstrip("+") in _LAYERS:
            layers.extend(part for part in value.split(":") if part.startswith("/"))
    return layers


def _below(machine: Machine, path: str, mounts: list[Mount]) -> str:
    """The device of the innermost mount that holds ``path``."""
    real = os.path.realpath(path) if machine.is_running else path
    best = max(
        (mount for mount in mounts if real == mount.point or real.startswith(mount.point.rstrip("/") + "/")),
        key=lambda mount: len(mount.point),
        default=None,
    )
    return best.device if best else ""


def _device_number(machine: Machine, number: str, source: str) -> str:
    """Filesystems over several devices (btrfs) have a made-up number: then the source tells the device."""
    if not number.startswith("0:"):
        return number
    return _number_of(machine, source) if source.startswith("/dev/") else ""


def _number_of(machine: Machine, node: str) -> str:
    try:
        status = os.stat(machine.path(node))
    except OSError:
        return ""
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if status.st_rdev else ""


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)
