# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a process is, and ending exactly that one. `state` calls this, which never starts anything and knows no cluster.

A pid alone names nobody: it may have been given to another process since. An `Identity` adds the start time and the
machine's boot, and signals go through a pidfd that is opened before the identity is checked, so that there is no
moment at which a recycled pid can be hit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Identity:
    """A process for certain: `pid`, `start` (ticks since boot, field 22 of /proc/<pid>/stat), `boot` (boot_id)."""

    pid: int
    start: int
    boot: str


def boot_id() -> str:
    """This boot of the machine: start times of another boot mean nothing."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def parse_stat(text: str) -> tuple[str, int]:
    """State letter and start time of a /proc/<pid>/stat line. The command's name may hold spaces and brackets."""
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])


def identity(pid: int) -> Identity | None:
    """The identity of the process that has this pid now; None when there is none or only a zombie is left."""
    try:
        state, start = parse_stat((PROC / str(pid) / "stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else Identity(pid, start, boot_id())


def myself() -> Identity:
    """The identity of the calling process."""
    found = identity(os.getpid())
    if found is None:
        raise ProcessLookupError(f"/proc does not show this process ({os.getpid()}); is it mounted?")
    return found


def alive(who: Identity) -> bool:
    """True when this very process runs (a zombie does not)."""
    return identity(who.pid) == who


def reap(pid: int) -> None:
    """Collect a dead child of this process, if it is one: a zombie would keep its pid while its parent lives."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _signal(who: Identity, sig: signal.Signals, fd: int, group: bool) -> None:
    """Signal this process, or its whole process group when it leads one."""
    try:
        if group and os.getpgid(who.pid) == who.pid:
            os.killpg(who.pid, sig)
        else:
            signal.pidfd_send_signal(fd, sig)
    except ProcessLookupError:
        pass


def _gone(fd: int, who: Identity, seconds: float) -> bool:
    """Wait until the process behind the pidfd has ended."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0, int(seconds * 1000)))) or not alive(who)


def end(who: Identity, timeout: float, *, group: bool = False) -> bool:
    """TERM, wait `timeout` seconds, KILL, wait. Returns False when that process was not there (any more).

    With `timeout` 0 the process is killed at once. `group`: its process group too.
    """
    try:
        fd = os.pidfd_open(who.pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(who):
            reap(who.pid)
            return False
        if timeout > 0:
            _signal(who, signal.SIGTERM, fd, group)
        if timeout <= 0 or not _gone(fd, who, timeout):
            _signal(who, signal.SIGKILL, fd, group)
            _gone(fd, who, 10.0)
        reap(who.pid)
        return True
    finally:
        os.close(fd)


def _ancestors() -> set[int]:
    """This process and everything above it."""
    pid, found = os.getpid(), set[int]()
    while pid > 1 and pid not in found:
        found.add(pid)
        text = (PROC / str(pid) / "stat").read_text()
        pid = int(text[text.rindex(")") + 2 :].split()[1])
    return found


def tagged(tag: str) -> Iterator[Identity]:
    """Every process (but this one and those above it) that has `tag` as one line of its start environment."""
    ours, wanted = _ancestors(), tag.encode()
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) in ours:
            continue
        try:
            lines = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        who = identity(int(entry.name)) if wanted in lines else None
        if who is not None:
            yield who


def end_tagged(tag: str, timeout: float = 10.0) -> int:
    """KILL everything that carries `tag`, again and again until nothing does. Returns how many were ended.

    Raises TimeoutError, naming the pids, when something still runs after `timeout` seconds.
    """
    ended, until = 0, time.monotonic() + timeout
    while left := list(tagged(tag)):
        if time.monotonic() > until:
            raise TimeoutError(", ".join(str(who.pid) for who in left))
        ended += sum(end(who, 0) for who in left)
    return ended
