"""One agent per node: a lock on a file of the host, and a Lease that says whose turn it is. `agent` uses both.

The file lock tells two agents with the same state directory apart at once, and the kernel gives it up when its holder
dies, however it dies. The Lease tells the rest apart (another state directory, another machine of the same name). Its
holder's name is the same after a restart, so that an agent that was killed need not wait for its own Lease to expire.
After a boot it is another one: a machine that was cloned has the same machine-id and the same files, and only what the
kernel made up at its boot tells it from the one that it was cloned from.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
from pathlib import Path

from berth_host import agent_lock

LOG = logging.getLogger("berth_agent.single")
_PAUSE = 1.0
MACHINE_ID, BOOT_ID = "/etc/machine-id", "/proc/sys/kernel/random/boot_id"


class HostLock:
    """The lock file of a state directory; held until the process ends."""

    def __init__(self, state_directory: str) -> None:
        self.path = Path(state_directory, agent_lock.LOCK)
        self._file: int | None = None

    def take(self) -> bool:
        """Try once. Raises OSError where the directory cannot be made or written."""
        descriptor = agent_lock.take(str(self.path))
        if descriptor is None:
            return False
        with contextlib.suppress(OSError):  # for people who ask who has it: a full disk must not stop the agent
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._file = descriptor
        return True

    async def wait(self) -> None:
        """Until this process has the lock. Who has it is said once."""
        told = False
        while not self.take():
            if not told:
                LOG.warning(
                    "another agent (pid %s) holds %s, or a playbook on its disks: this one stands back until it ends",
                    self.owner(),
                    self.path,
                )
                told = True
            await asyncio.sleep(_PAUSE)

    def owner(self) -> str:
        """The pid that the holder wrote; empty where it cannot be read."""
        return agent_lock.owner(str(self.path))

    def identity(self, node: str) -> str:
        """A name for the holder of this very lock file on this very machine since its boot, for the Lease."""
        status = os.stat(self.path)
        key = f"{_line(MACHINE_ID)}/{_line(BOOT_ID)}/{status.st_dev}/{status.st_ino}"
        return f"{node}_{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _line(path: str) -> str:
    """What is in a file; empty where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
