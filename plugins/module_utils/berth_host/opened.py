# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a block device that is open is still the disk that was looked at when the plan was made.

Called by filesystems, mkfs and surface, before anything is written or mounted. A kernel name and a device number are
given to the next disk as soon as one is pulled out; while a descriptor is open, both stay what they are.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from .core import DataError, FilesystemPlan
from .kernel_words import read_words
from .machine import Machine

#: _IOR(0x12, 128, __u64) of linux/fs.h, since Linux 5.15
_BLKGETDISKSEQ = 0x80081280


class Expected(NamedTuple):
    """A LocalDisk's name, its device's path and number (major:minor), and what the kernel said of it."""

    name: str
    device: str
    number: str
    kernel: Mapping[str, Any]


def check_opened(machine: Machine, handle: int, plan: Expected | FilesystemPlan) -> None:
    """Raises DataError where the open device is not the one that the plan was made for."""
    where = f"LocalDisk {plan.name}: {plan.device}"
    status = os.fstat(handle)
    is_now = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    if is_now != plan.number:
        raise DataError(f"{where} is device {is_now}, expected {plan.number}; it is not touched")
    found = _facts_of(machine, handle, plan.number)
    differs = {key: was for key, was in plan.kernel.items() if found.get(key) != was}
    if differs:
        words = "; ".join(f"{key} {found.get(key) or 'none'}, expected {was}" for key, was in differs.items())
        raise DataError(f"{where} is another disk than the one that was looked at ({words}): it is not touched")


def _facts_of(machine: Machine, handle: int, number: str) -> dict[str, Any]:
    diskseq = 0
    with contextlib.suppress(OSError):  # a kernel that does not count its disks
        diskseq = struct.unpack("Q", fcntl.ioctl(handle, _BLKGETDISKSEQ, bytes(8)))[0]
    return read_words(machine, f"/sys/dev/block/{number}").facts(diskseq)
