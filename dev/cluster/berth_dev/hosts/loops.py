# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loop devices by number: making, attaching, detaching, removing. `disks` and `hostset` call this.

Numbers are always asked for: the kernel's own choice (losetup -f) would hand out a device of another host or cluster.
Source of the request codes: linux/loop.h.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from ..errors import HostError
from .commands import run

LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
LOOP_CLR_FD, LOOP_GET_STATUS64 = 0x4C01, 0x4C05
BLKFLSBUF = 0x1261
SYSFS = Path("/sys/block")


def device(number: int) -> Path:
    """Its path on the machine."""
    return Path(f"/dev/loop{number}")


def _control(request: int, number: int) -> None:
    fd = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, request, number)
    finally:
        os.close(fd)


def add(number: int) -> None:
    """Make the device. There already: nothing happens."""
    try:
        _control(LOOP_CTL_ADD, number)
    except FileExistsError:
        return
    except OSError as error:
        raise HostError(f"loop{number}: cannot be made: {error.strerror}") from error


def backing(number: int) -> str | None:
    """The file behind it, as the kernel names it; None when it is not attached or not there."""
    try:
        return (SYSFS / f"loop{number}" / "loop/backing_file").read_text().strip()
    except OSError:
        return None


def attach(number: int, file: Path) -> None:
    """Put `file` behind the device. It is there already: nothing happens; another file is there: HostError."""
    add(number)
    present = backing(number)
    if present == str(file):
        return
    if present is not None:
        raise HostError(f"loop{number}: has {present} behind it, not {file}; detach it first")
    run("losetup", str(device(number)), str(file))


def detach(number: int) -> None:
    """Take the file away. While something still has the device open, the kernel does it on the last close."""
    with contextlib.suppress(FileNotFoundError):
        _on_device(number, LOOP_CLR_FD, ignore=errno.ENXIO)


def flush(number: int) -> None:
    """Write out and forget what the machine remembers of the device's contents."""
    _on_device(number, BLKFLSBUF, ignore=errno.EIO)


def _on_device(number: int, request: int, ignore: int) -> None:
    fd = os.open(device(number), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, request)
    except OSError as error:
        if error.errno != ignore:
            raise HostError(f"loop{number}: {error.strerror}") from error
    finally:
        os.close(fd)


def remove(number: int, timeout: float = 10.0) -> None:
    """Detach and unmake the device. Not there: nothing happens. HostError when it stays in use for `timeout` s."""
    until = time.monotonic() + timeout
    while (SYSFS / f"loop{number}").exists():
        detach(number)
        try:
            _control(LOOP_CTL_REMOVE, number)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            if time.monotonic() > until:
                raise HostError(f"loop{number} ({backing(number)}): {error.strerror}; who uses it?") from error
            time.sleep(0.02)


def remove_all(numbers: range, folder: Path) -> None:
    """Detach and unmake those of a slot. HostError for one that somebody else uses (`is_foreign`)."""
    # Downwards: a spare of a raw block volume has a disk of the same host behind it, and comes after it.
    for number in reversed(existing(numbers)):
        if is_foreign(number, folder, numbers):
            raise HostError(f"loop{number}: {backing(number)} is in use there and is not berth-dev's; detach it")
        remove(number)


def existing(numbers: Iterable[int]) -> list[int]:
    """Those of the numbers that have a device."""
    return [n for n in numbers if (SYSFS / f"loop{n}").exists()]


def is_foreign(number: int, folder: Path, own: range) -> bool:
    """True when a file of somebody else is behind the device (who took a free one of the cluster's with losetup -f).

    The cluster's are files under `folder`, its own devices, and files that only a host sees: there the kernel's path
    leads to nothing on this machine, or to another file than the one behind the device.
    """
    path = backing(number)
    if path is None or path.startswith(f"{folder}/"):
        return False
    if path.startswith("/dev/loop") and path[9:].isdigit() and int(path[9:]) in own:
        return False
    try:
        seen = os.stat(path)
    except OSError:
        return False
    return _behind(number) == (seen.st_dev, seen.st_ino)


def _behind(number: int) -> tuple[int, int]:
    """Filesystem and inode of the file behind the device (struct loop_info64 begins with the two)."""
    info = bytearray(232)
    fd = os.open(device(number), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, LOOP_GET_STATUS64, info)
    finally:
        os.close(fd)
    found: tuple[int, int] = struct.unpack_from("QQ", info)
    return found


def detach_ours(number: int, folder: Path, own: range) -> None:
    """Make the device and leave it empty, unless a stranger uses it (`is_foreign`): then it stays his."""
    add(number)
    if backing(number) is not None and not is_foreign(number, folder, own):
        detach(number)
