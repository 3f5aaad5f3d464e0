"""The kernel's log as it is written: which devices had I/O errors since the last question.

Called by checking. Only what is logged from now on counts: whether an old error still matters, the probes tell.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict

from berth_core.app.kernel_log import error_of
from berth_host.machine import Machine

LOG = logging.getLogger("berth_agent.disks")
_DEVICE = "/dev/kmsg"
#: Longer than any record of the kernel.
_RECORD = 8192
_MANY = 16


class KernelLog:
    """Open between `open` and `close`. Without /dev/kmsg, or the right to read it, it stays empty; said once."""

    def __init__(self, machine: Machine, path: str = _DEVICE) -> None:
        self._machine, self._path = machine, path
        self._handle = -1
        #: (kernel name, which device had it then) -> the kernel's words
        self._errors: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def open(self) -> None:
        """Begin to follow. Called in a running loop."""
        try:
            self._handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._handle, 0, os.SEEK_END)
        except OSError as exc:
            LOG.warning("%s cannot be read (%s): the kernel's I/O errors are not seen", self._path, exc.strerror)
            return
        asyncio.get_running_loop().add_reader(self._handle, self._read)

    def close(self) -> None:
        """Stop following."""
        if self._handle >= 0:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1

    def take(self, name: str) -> tuple[str, ...]:
        """The kernel's words about a device (its kernel name of now) since they were last taken.

        What was said of another disk, which had this name before, is nobody's.
        """
        found = tuple(self._errors.pop((name, self._sequence(name)), ()))
        for key in [key for key in self._errors if key[0] == name]:
            del self._errors[key]
        return found

    def note(self, record: str) -> None:
        """One record of the kernel's log. The device that has the name at this moment is the one that is meant."""
        found = error_of(record)
        if not found:
            return
        name, words = found
        said = self._errors[name, self._sequence(name)]
        if len(said) < _MANY:
            said.append(words)

    def _sequence(self, name: str) -> str:
        """The kernel's number of this attachment of a disk, never given twice; empty when gone, and before 5.15."""
        return self._machine.read(f"/sys/block/{name}/diskseq")

    def _read(self) -> None:
        while True:
            try:
                record = os.read(self._handle, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:  # records were overwritten before they were read: the next read goes on
                continue
            except OSError as exc:
                LOG.warning("%s cannot be read any more: %s", self._path, exc.strerror)
                self.close()
                return
            self.note(record.decode(errors="replace"))
