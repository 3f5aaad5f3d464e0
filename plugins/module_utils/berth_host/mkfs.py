# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the filesystem of a plan, after a last look with the device held exclusively.

Called by filesystems, which holds the device's lock. Decides nothing: what is found and was not expected is refused.
"""

from __future__ import annotations

import os

from .core import DATA, DataError, FilesystemPlan, StateError
from .machine import Machine
from .opened import check_opened
from .openers import lasting_openers
from .probes import read_signature
from .superblock import is_unfinished

#: A large disk with a slow controller: mkfs discards every block.
_SECONDS = 1800.0
_BLOCK = 4096


def make(machine: Machine, plan: FilesystemPlan, lock: int) -> None:
    """mkfs, and a look at what it has made. ``lock``: the open file with the device's lock.

    mkfs inherits it: one that outlives a caller that is killed keeps the next run waiting instead of meeting it.
    """
    check_blank(machine, plan)
    argv = _command(plan)
    answer = machine.run(argv, _SECONDS, keep=(lock,))
    if answer.status != 0:
        raise StateError(
            f"LocalDisk {plan.name}: no {plan.fs_type} filesystem could be made on {plan.device}: {answer.why()}"
        )
    made = read_signature(machine, plan.device).facts
    if made.get("fsuuid") != plan.uuid:
        raise StateError(
            f"LocalDisk {plan.name}: {argv[0]} reported success, and {plan.device} carries {made or 'nothing'}"
        )
    if machine.exists("/run/udev/control"):
        machine.run(["udevadm", "trigger", "--action=change", plan.device])
        machine.run(["udevadm", "settle", "--timeout=10"])


def _command(plan: FilesystemPlan) -> list[str]:
    if plan.fs_type == "xfs":
        return ["mkfs.xfs", "-q", *(["-f"] if plan.again else []), "-m", f"uuid={plan.uuid}", plan.device]
    return ["mkfs.ext4", "-q", "-m", "0", "-U", plan.uuid, plan.device]


def check_blank(machine: Machine, plan: FilesystemPlan) -> None:
    """Nobody has the device open for himself, and nothing is on it but what the plan expects. Raises DataError."""
    try:
        handle = os.open(plan.device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as exc:
        raise DataError(
            f"LocalDisk {plan.name}: {plan.device} is used by somebody else ({exc.strerror}); nothing was made"
        ) from exc
    try:
        check_opened(machine, handle, plan)
        signature = read_signature(machine, plan.device)
        if not _is_expected(machine, plan, signature.facts) or signature.problem:
            found = signature.problem or signature.facts or "nothing"
            raise DataError(
                f"LocalDisk {plan.name}: {plan.device} carries {found}, expected "
                f"{'the half-made ' + plan.uuid if plan.again else 'nothing'}; nothing was made"
            )
        _check_ends(plan, handle)
        writers = lasting_openers(machine, plan.number)
        if writers:
            raise DataError(
                f"LocalDisk {plan.name}: {plan.device} is open for writing by {', '.join(writers)}; nothing was made"
            )
    finally:
        os.close(handle)  # mkfs opens it exclusively itself


def _is_expected(machine: Machine, plan: FilesystemPlan, facts: dict[str, str]) -> bool:
    if not plan.again:
        return not facts or (plan.begun and facts == {"fstype": DATA})
    return facts.get("fsuuid") == plan.uuid and is_unfinished(machine, plan.device)


def _check_ends(plan: FilesystemPlan, handle: int) -> None:
    """Both ends of the disk can be read: a disk that lies about its size is found out before anything is written."""
    size = os.lseek(handle, 0, os.SEEK_END)
    for offset in (0, max(0, size - _BLOCK)):
        try:
            data = os.pread(handle, _BLOCK, offset)
        except OSError as exc:
            raise StateError(
                f"LocalDisk {plan.name}: {plan.device} cannot be read at byte {offset}: {exc.strerror}"
            ) from exc
        if len(data) < min(_BLOCK, size):
            raise StateError(f"LocalDisk {plan.name}: {plan.device} ends before its size; nothing was made")
