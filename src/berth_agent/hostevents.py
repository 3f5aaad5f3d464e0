"""What tells that the host's disks may have changed: the kernel's messages, the mount table, and a cheap fingerprint.

Called by `observer`. The netlink socket hears the kernel (group 1) and udevd after its rules (group 2); the kernel
tells when the mount table changes. Where no message arrives (another network namespace than udevd's), the fingerprint,
taken every few seconds, finds the same changes a little later. Messages are never believed: they only make somebody
look.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import socket
from collections.abc import Callable
from typing import Any

from berth_host.machine import Machine
from berth_host.mounts import read_mounts

LOG = logging.getLogger("berth_agent.hostevents")
_KOBJECT_UEVENT = 15
_KERNEL_AND_UDEV = 1 | 2
_MESSAGE = 16384
_BURST = 1000
_BUFFER = 1 << 20
_BLOCK = b"\0SUBSYSTEM=block\0"
_LOST = _BLOCK
MOUNTS = "/proc/self/mountinfo"


def concerns_disks(message: bytes) -> bool:
    """Whether a message of the kernel or of udevd is about a block device."""
    return _BLOCK in message


class KernelMessages:
    """The netlink socket; calls ``told`` once for each burst of messages about block devices."""

    def __init__(self, told: Callable[[], None]) -> None:
        self.told = told
        self.socket: socket.socket | None = None
        #: bursts that told of block devices
        self.heard = 0

    def open(self) -> bool:
        """Listen; False (said once) where this host does not allow it."""
        try:
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _KOBJECT_UEVENT)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self.socket.setblocking(False)
            self.socket.bind((0, _KERNEL_AND_UDEV))
        except (OSError, AttributeError) as exc:
            LOG.warning("no messages from the kernel (%s): changes are found by polling", exc)
            self.close()
            return False
        asyncio.get_running_loop().add_reader(self.socket.fileno(), self._read)
        return True

    def _read(self) -> None:
        """Everything that waits is read, so that a burst is one event."""
        ours = False
        for _each in range(_BURST):
            message = self._next()
            if message is None:
                break
            ours = concerns_disks(message) or ours
        if ours:
            self.heard += 1
            self.told()

    def _next(self) -> bytes | None:
        try:
            return self.socket.recv(_MESSAGE) if self.socket else None
        except BlockingIOError:
            return None
        except OSError:  # messages were lost: anything may have happened
            return _LOST

    def close(self) -> None:
        """Stop listening. Twice is fine."""
        if self.socket is not None:
            with contextlib.suppress(RuntimeError):  # no loop any more
                asyncio.get_running_loop().remove_reader(self.socket.fileno())
            self.socket.close()
            self.socket = None


class MountMessages:
    """The kernel's word that the mount table of this process changed."""

    def __init__(self, told: Callable[[], None]) -> None:
        self.told = told
        self.file: int | None = None
        self.epoll: Any = None

    def open(self) -> None:
        """Listen, from now on."""
        # Asked for reading, the file is always ready; changes alone are "priority", which asyncio cannot ask for.
        self.file = os.open(MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self.epoll = select.epoll()
        self.epoll.register(self.file, select.EPOLLPRI | select.EPOLLERR)
        asyncio.get_running_loop().add_reader(self.epoll.fileno(), self._ready)

    def _ready(self) -> None:
        if self.epoll is not None and self.epoll.poll(0):
            self.told()

    def close(self) -> None:
        """Stop listening. Twice is fine."""
        if self.epoll is not None:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self.epoll.fileno())
            self.epoll.close()
            self.epoll = None
        if self.file is not None:
            os.close(self.file)
            self.file = None


def fingerprint(machine: Machine) -> int:
    """A number that changes when anything changes that a survey would show, content written to a bare disk aside.

    Reads a few small files per device and starts no process.
    """
    seen: list[Any] = []
    for name in machine.names("/sys/block"):
        folder = f"/sys/block/{name}"
        if name.startswith("loop") and not machine.exists(f"{folder}/loop"):
            continue  # bound to nothing
        number = machine.read(f"{folder}/dev")
        facts = [machine.read(f"{folder}/{fact}") for fact in ("size", "ro", "diskseq", "device/state")]
        seen.append((name, number, *facts, machine.names(f"{folder}/holders"), _changed(machine, number)))
    mounts = [mount for mount in read_mounts(machine) if mount.device]
    return hash((repr(seen), repr(mounts), machine.read("/proc/swaps")))


def _changed(machine: Machine, number: str) -> int:
    """When udev wrote its entry of the device."""
    try:
        return os.stat(machine.path(f"/run/udev/data/b{number}")).st_mtime_ns
    except OSError:
        return 0
