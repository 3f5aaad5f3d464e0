# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which filesystem this host had begun to make on a LocalDisk: a small file beside the mount points.

Called by filesystems. mkfs.ext4 writes its superblock last; what one that was killed leaves carries no signature, and
is data of nobody knows whom, but for this file. It is written when the disk was blank, and goes when mkfs is done.
"""

from __future__ import annotations

import contextlib
import os

from .core import FilesystemPlan, mount_point

#: The folder of all disks is open to root alone.
_ROOT_MODE = 0o700


def note_begun(plan: FilesystemPlan) -> None:
    """On the host's own disk when this returns."""
    make_root(plan.point)
    path = _path(plan.point)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, plan.uuid.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(os.path.dirname(path))


def note_ended(plan: FilesystemPlan) -> None:
    """The filesystem says for itself what it is."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(plan.point))


def read_begun(name: str, mount_root: str) -> str:
    """The filesystem's UUID; empty where none is half made."""
    try:
        with open(_path(mount_point(name, mount_root)), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def make_root(point: str) -> None:
    """The folder that a mount point is in."""
    root = os.path.dirname(point)
    if not os.path.isdir(root):
        os.makedirs(root, mode=0o755, exist_ok=True)
        os.chmod(root, _ROOT_MODE)


def sync_folder(folder: str) -> None:
    """What was made or renamed in a folder outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _path(point: str) -> str:
    """No LocalDisk's name begins with a dot."""
    folder, name = os.path.split(point)
    return os.path.join(folder, f".{name}.mkfs")
