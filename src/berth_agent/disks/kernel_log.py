"""The kernel's log as it is written: which devices had I/O errors since the last question.

Called by checking. Only what is logged from now on counts: whether an old error still matters, the probes tell.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict

from berth_core.app.kernel_log import error_of

LOG = logging.getLogger("berth_agent.disks")
_DEVICE = "/dev/kmsg"
#: Longer than any record of the kernel.
_RECORD = 8192
_MANY = 16


class KernelLog:
    """Open between `open` and `close`. Without /dev/kmsg, or the right to read it, it stays empty; said once."""

    def __init__(self, path: str = _DEVICE) -> None:
        self._path = path
        self._handle = -1
        self._errors: defaultdict[str, list[str]] = defaultdict(list)

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
        """The kernel's words about a device (its kernel name of now) since they were last taken."""
        return tuple(self._errors.pop(name, ()))

    def _read(self) -> None:
        while True:
            try:
                record = os.read(self._handle, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:  # records were overwritten before we read them: the next read goes on
                continue
            except OSError as exc:
                LOG.warning("%s cannot be read any more: %s", self._path, exc.strerror)
                self.close()
                return
            found = error_of(record.decode(errors="replace"))
            if found and len(self._errors[found[0]]) < _MANY:
                self._errors[found[0]].append(found[1])
