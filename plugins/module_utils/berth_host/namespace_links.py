# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The link by which the namespace that holds a disk, and no other, reaches the disk's data. Runs on the host, as root.

Called by filesystems before a disk is mounted for its lock, and by unmounting. It lies beside the mount points, not on
the disk: a full, read-only or dead filesystem keeps nobody from making or removing it. No pod can see it. What is there
and is no link of berth's is neither followed nor removed.

``point``: the disk's mount point; ``path``: the link, as fsid.namespace_link names it; ``data``: the directory in the
filesystem that it leads to, as fsid.data_directory names it.
"""

from __future__ import annotations

import contextlib
import os
import stat

from .begun import make_root, sync_folder
from .core import DATA_DIRECTORY, MOVED_DIRECTORY, NAMESPACES_DIRECTORY, StateError

#: Both folders: a path is open to nobody but to root, as the folder of all disks is.
_MODE = 0o700


def is_linked(point: str, path: str, data: str = DATA_DIRECTORY) -> bool:
    """Whether the link is there, and none of another namespace."""
    try:
        alone = os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
        return alone and os.readlink(path) == _target(point, data)
    except OSError:
        return False


def check(point: str, path: str) -> None:
    """Refuse (StateError) where something else lies at the place of the links."""
    folder = os.path.dirname(path)
    for each in (os.path.dirname(folder), folder):
        if os.path.lexists(each) and not stat.S_ISDIR(os.lstat(each).st_mode):
            raise StateError(f"{each} is no folder, expected one of berth's or nothing: nothing was done; move it away")
    for name in _names(folder):
        other = os.path.join(folder, name)
        if not _is_ours(other, point):
            raise StateError(
                f"{other} is there, expected a link to {_target(point)} or nothing: it is not touched, and nothing was "
                "done; move it away"
            )


def link(point: str, path: str, data: str = DATA_DIRECTORY) -> None:
    """Links of other namespaces go before this one comes. Outlives a power cut when this returns. Raises StateError."""
    check(point, path)
    folder = os.path.dirname(path)
    _make_folders(point, folder)
    for name in _names(folder):
        other = os.path.join(folder, name)
        if other != path or os.readlink(other) != _target(point, data):
            os.unlink(other)
    if not os.path.lexists(path):
        os.symlink(_target(point, data), path)
    sync_folder(folder)


def links(point: str) -> list[str]:
    """The links to the disk's data that are there."""
    folder = _folder(point)
    paths = [os.path.join(folder, name) for name in _names(folder)]
    return [path for path in paths if _is_ours(path, point)]


def unlink(point: str) -> None:
    """No namespace reaches the disk's data any more, whatever is still mounted."""
    folder, found = _folder(point), links(point)
    for path in found:
        os.unlink(path)
    if found:
        sync_folder(folder)
        if not _names(folder):
            os.rmdir(folder)


def _make_folders(point: str, folder: str) -> None:
    make_root(point)
    for each in (os.path.dirname(folder), folder):
        if not os.path.isdir(each):
            with contextlib.suppress(FileExistsError):  # work for another disk was faster
                os.mkdir(each, _MODE)
            sync_folder(os.path.dirname(each))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_ours(path: str, point: str) -> bool:
    ours = [_target(point, data) for data in (DATA_DIRECTORY, MOVED_DIRECTORY)]
    return os.path.islink(path) and os.readlink(path) in ours


def _target(point: str, data: str = DATA_DIRECTORY) -> str:
    """Relative: it means the same in a container that has the folder of all disks at another place."""
    return os.path.join(os.pardir, os.pardir, os.path.basename(point), data)


def _folder(point: str) -> str:
    root, name = os.path.split(point)
    return os.path.join(root, NAMESPACES_DIRECTORY, name)
