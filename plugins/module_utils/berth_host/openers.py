# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a block device open for writing, in whatever namespace. Runs on the host, as root.

Called by mkfs and the wiper. An exclusive open of the kernel's keeps out mounts, swap and what is built on a device,
not a program that opened it plainly: a container with a volume of mode Block is such a one, and goes on writing
when its pod was deleted by force.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterable, Iterator

from .machine import Machine

#: udev, smartctl and the like open a disk for a moment; whoever has it at each of these looks uses it.
LOOKS = 4
_PAUSE_SECONDS = 0.5
_LOOP_GET_STATUS64 = 0x4C05
#: struct loop_info64 of linux/loop.h: lo_device, lo_inode, lo_rdevice, and what is not needed here.
_LOOP_INFO = struct.Struct("=QQQ208x")


def lasting_openers(machine: Machine, number: str) -> list[str]:
    """Who has the device (``major:minor``) or a partition of it open for writing, and still has after a while.

    Processes as ``NAME (PID)``, without this one, and loop devices on top of it; sorted.
    """
    found = set(_openers(machine, number))
    for _look in range(LOOKS - 1):
        if not found:
            break
        time.sleep(_PAUSE_SECONDS)
        found &= set(_openers(machine, number))
    return sorted(found)


def _openers(machine: Machine, number: str) -> Iterator[str]:
    devices = set(_numbers(machine, number))
    for pid in machine.names("/proc"):
        if pid.isdigit() and int(pid) != os.getpid() and _writes_to(machine, pid, devices):
            yield f"{machine.read(f'/proc/{pid}/comm') or 'process'} ({pid})"
    for name in machine.names("/sys/block"):
        if machine.exists(f"/sys/block/{name}/loop") and _below_loop(machine, name) in devices:
            yield f"{name} (loop device)"


def _numbers(machine: Machine, number: str) -> Iterator[int]:
    """The device and its partitions, as st_rdev has them."""
    folder = f"/sys/dev/block/{number}"
    parts = [name for name in machine.names(folder) if machine.exists(f"{folder}/{name}/partition")]
    texts = [number, *(machine.read(f"{folder}/{name}/dev") for name in parts)]
    for text in texts:
        major, _colon, minor = text.partition(":")
        yield os.makedev(int(major), int(minor))


def _writes_to(machine: Machine, pid: str, devices: Iterable[int]) -> bool:
    """Whether a process has one of the devices open for writing. One that has ended meanwhile has not."""
    for handle in machine.names(f"/proc/{pid}/fd"):
        try:
            # Follows the kernel's link, not its text: the path is of the mount namespace of that process.
            status = os.stat(machine.path(f"/proc/{pid}/fd/{handle}"))
        except OSError:
            continue
        if stat.S_ISBLK(status.st_mode) and status.st_rdev in devices:
            flags = _flags(machine.read(f"/proc/{pid}/fdinfo/{handle}"))
            if flags & os.O_ACCMODE != os.O_RDONLY:
                return True
    return False


def _flags(information: str) -> int:
    """The flags of an open file, from its /proc/PID/fdinfo (octal there)."""
    for line in information.splitlines():
        name, _colon, value = line.partition(":")
        if name == "flags":
            return int(value.strip(), 8)
    return os.O_RDONLY


def _below_loop(machine: Machine, name: str) -> int:
    """The device that a loop device stands on, as st_rdev has it; 0 where it stands on a file, or on nothing now."""
    try:
        handle = os.open(machine.path(f"/dev/{name}"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        answer = fcntl.ioctl(handle, _LOOP_GET_STATUS64, bytes(_LOOP_INFO.size))
    except OSError:
        return 0
    finally:
        os.close(handle)
    return int(_LOOP_INFO.unpack(answer)[2])
