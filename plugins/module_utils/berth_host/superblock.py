# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the filesystem on a device was made to its end. Reads one block, writes nothing.

Called by filesystems. mkfs.xfs writes its superblock first, with a mark, and takes the mark away with its very last
write; blkid does not tell the two apart. mkfs.ext4 writes its superblock last: there is nothing to tell.
"""

from __future__ import annotations

from .machine import Machine

_XFS_MAGIC = b"XFSB"
#: sb_inprogress of struct xfs_dsb, fs/xfs/libxfs/xfs_format.h
_XFS_IN_PROGRESS = 126
_BLOCK = 512


def is_unfinished(machine: Machine, path: str) -> bool:
    """Whether an XFS superblock on the device says that mkfs has not come to its end; False where there is none."""
    try:
        with open(machine.path(path), "rb", buffering=0) as file:
            return in_progress(file.read(_BLOCK))
    except OSError:
        return False


def in_progress(block: bytes) -> bool:
    """The same, from the first 512 bytes of the device."""
    return len(block) == _BLOCK and block.startswith(_XFS_MAGIC) and block[_XFS_IN_PROGRESS] != 0
