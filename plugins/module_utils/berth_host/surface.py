# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surface of one block device, open exclusively: writes that have reached it, reads that come from it.

Called by wiper. Nothing goes through the page cache (O_DIRECT): a disk that drops writes cannot hide behind it.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
from types import TracebackType

from .core import DataError
from .machine import Machine
from .opened import Expected, check_opened

#: One piece of work; a multiple of every sector size.
PIECE = 16 << 20
_BLKDISCARD = 0x1277
_BLKZEROOUT = 0x127F


class Surface:
    """Raises DataError when the device is not the one that is meant, or somebody has it."""

    def __init__(self, machine: Machine, expected: Expected, size: int) -> None:
        self.device, self.size = expected.device, size
        try:
            self._held = os.open(self.device, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
        except OSError as exc:
            raise DataError(
                f"LocalDisk {expected.name}: {self.device} is used by somebody else ({exc.strerror}); it is not wiped"
            ) from exc
        try:
            self._check(machine, expected)
            self._direct = os.open(self.device, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        except BaseException:
            os.close(self._held)
            raise
        self._memory = mmap.mmap(-1, PIECE)

    def __enter__(self) -> Surface:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.close()
        os.close(self._direct)
        os.close(self._held)

    def _check(self, machine: Machine, expected: Expected) -> None:
        """A kernel name may mean another disk since it was looked at."""
        check_opened(machine, self._held, expected)
        size = os.lseek(self._held, 0, os.SEEK_END)
        if size != self.size:
            raise DataError(
                f"LocalDisk {expected.name}: {self.device} has {size} bytes, expected {self.size}; it is not wiped"
            )

    def write(self, offset: int, data: bytes) -> None:
        """Write at most one piece; it is on the device when this returns."""
        view = memoryview(self._memory)[: len(data)]
        view[:] = data
        try:
            _all(os.pwritev(self._direct, [view], offset), len(data), self.device, offset)
        finally:
            view.release()
        os.fsync(self._direct)

    def read(self, offset: int, length: int) -> bytes:
        """Read at most one piece from the device itself."""
        view = memoryview(self._memory)[:length]
        try:
            _all(os.preadv(self._direct, [view], offset), length, self.device, offset)
            return bytes(view)
        finally:
            view.release()

    def zero(self, offset: int, length: int) -> None:
        """Let the device write zeros itself where it can; the kernel does it where it cannot."""
        fcntl.ioctl(self._held, _BLKZEROOUT, struct.pack("QQ", offset, length))
        os.fsync(self._held)

    def discard(self, offset: int, length: int) -> None:
        """Tell the device that nobody needs this range."""
        fcntl.ioctl(self._held, _BLKDISCARD, struct.pack("QQ", offset, length))


def pattern(seed: str, offset: int, length: int) -> bytes:
    """The random bytes that belong at ``offset``: the same in every process, so that a wipe goes on and is checked."""
    return hashlib.shake_128(f"{seed}/{offset}".encode()).digest(length)


def _all(done: int, wanted: int, device: str, offset: int) -> None:
    if done != wanted:
        raise OSError(5, f"{device}: {done} of {wanted} bytes at {offset}")
