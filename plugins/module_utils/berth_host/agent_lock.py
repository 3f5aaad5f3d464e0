# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock file of a node agent: an agent is alone on its host by it, and a playbook is not beside one.

An agent holds it exclusively as long as it runs; disk_filesystem holds it shared while it works, so that no agent
begins meanwhile. The kernel gives it up when its holder dies, however it dies. Both use this file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from .core import StateError

LOCK = "agent.lock"
STATE_DIRECTORY = "/var/lib/berth/agent"


def take(path: str, shared: bool = False) -> int | None:
    """The open file with the lock; None where somebody else has it. Raises OSError where it cannot be made."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def owner(path: str) -> str:
    """The pid that the agent wrote which had it last; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


@contextmanager
def no_agent(state_directory: str) -> Iterator[None]:
    """While this is open no agent with that state directory works on this host. Raises StateError where one does."""
    path = os.path.join(state_directory, LOCK)
    handle = take(path, shared=True)
    if handle is None:
        raise StateError(
            f"an agent (pid {owner(path)}) works on this host: it makes and mounts the filesystems of held disks "
            "itself; leave that to it, or stop it first"
        )
    try:
        yield
    finally:
        os.close(handle)
