# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tries whether a disk still takes and gives data: by a probe file on its mounted filesystem, else by reading it.

Called by the node agent. /proc/mounts does not tell: ext4 and XFS answer errors long before, or without ever, showing
``ro``. Each try is a process of its own (dd): a disk that hangs keeps that process, never its caller, and as long as
it has not come back no second one is started.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from .core import DATA_DIRECTORY
from .machine import Machine

#: Beside the data directory, never in it; rewritten in place, so that it never grows.
PROBE_FILE = ".berth-probe"
_BLOCK = 4096
#: A full filesystem is no broken disk. (The file is rewritten in place: it needs room once.)
FULL = "No space left on device"
#: The point is not mounted (any more): nothing was tried.
ABSENT = "No such file or directory"


class Tried(NamedTuple):
    """``result``: ok, failed (an I/O error), slow (no answer yet) or none (nothing to try); ``note``: for people."""

    result: str
    note: str = ""


class Probe:
    """The tries of one disk. Neither method waits; ``look`` is asked until it has an answer."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._process: subprocess.Popen[bytes] | None = None
        self._what = ""
        self._since = 0.0

    def start(self, device: str, point: str) -> None:
        """Begin a try of the filesystem mounted at ``point``, or (empty) of the device. No-op while one is running."""
        if self._process is not None:
            return
        argv = _write_argv(point) if point else _read_argv(device)
        self._what = f"a write to {point}" if point else f"a read of {device}"
        self._since = time.monotonic()
        self._process = self._machine.start(argv)
        stdin = self._process.stdin
        if stdin is not None:
            with contextlib.suppress(BrokenPipeError), stdin:  # it has failed already: look tells why
                if point:  # the data fits into the pipe's buffer: this never waits
                    stdin.write(os.urandom(16) * (_BLOCK // 16))
            self._process.stdin = None

    def look(self, seconds: float) -> Tried | None:
        """The answer; None while it may still come; slow after ``seconds``, then the try goes on by itself."""
        process = self._process
        if process is None:
            return Tried("ok")
        waited = time.monotonic() - self._since
        status = process.poll()
        if status is None:
            return None if waited < seconds else Tried("slow", f"{self._what} has not come back after {waited:.0f} s")
        self._process = None
        words = _last_line(process)
        if FULL in words:
            return Tried("ok", f"{self._what}: {words}")
        if ABSENT in words:
            return Tried("none", f"{self._what}: {words}")
        return Tried("ok") if status == 0 else Tried("failed", f"{self._what} failed: {words or f'exit {status}'}")

    def is_running(self) -> bool:
        """Whether a try is under way."""
        return self._process is not None


def _write_argv(point: str) -> Sequence[str]:
    # Through the data directory, which a bare mount point does not have: a disk that was unmounted since it was looked
    # at gets no probe file on what lies below.
    file = os.path.join(point, DATA_DIRECTORY, os.pardir, PROBE_FILE)
    return ["dd", f"of={file}", f"bs={_BLOCK}", "count=1", "conv=fsync,notrunc", "oflag=nofollow", "status=none"]


def _read_argv(device: str) -> Sequence[str]:
    return ["dd", f"if={device}", "of=/dev/null", f"bs={_BLOCK}", "count=1", "iflag=direct", "status=none"]


def _last_line(process: subprocess.Popen[bytes]) -> str:
    _out, words = process.communicate()  # it has ended: this does not wait
    lines = words.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
