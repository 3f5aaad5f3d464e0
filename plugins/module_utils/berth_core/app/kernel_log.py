# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lines of the kernel's log speak of an I/O error, and of which device. Pure: text in, names out.

Called by the node agent. Only errors of the device or of the filesystem on it; what a command of a user did wrong (an
unsupported request, an aborted ioctl) is no reason to call a disk broken.
"""

from __future__ import annotations

import re

_NAME = r"(?P<name>[a-z][a-z0-9-]{0,31})"
#: As the kernel writes them: block/blk-core.c, fs/buffer.c, fs/ext4/super.c, fs/xfs/xfs_message.c, drivers/nvme.
_PATTERNS = tuple(
    re.compile(text)
    for text in (
        rf"(?:critical )?(?:I/O|medium|timeout|protection|critical space allocation) error, dev {_NAME},",
        rf"Buffer I/O error on (?:dev |device )?{_NAME}[,: ]",
        rf"lost (?:async |sync )?page write due to I/O error on {_NAME}",
        rf"EXT4-fs error \(device {_NAME}\)",
        rf"EXT4-fs \({_NAME}\): (?:I/O error|Remounting filesystem read-only|previous I/O error)",
        rf"(?:Aborting journal on device|JBD2: .* for) {_NAME}-\d+",
        rf"XFS \({_NAME}\): .*(?:I/O [Ee]rror|log mount/recovery failed|Filesystem has been shut down)",
    )
)
#: Requests that a disk may refuse for good reason.
_OPTIONAL = ("(DISCARD)", "(WRITE_ZEROES)", "(SECURE_ERASE)", "(ZONE_RESET)")
_PART = re.compile(r"^(?P<disk>.*?\d)p\d+$|^(?P<sd>[a-z]+)\d+$")


def error_of(line: str) -> tuple[str, str] | None:
    """(kernel name of the whole disk, message) of a record of /dev/kmsg that reports an I/O error, else None."""
    message = line.partition(";")[2].splitlines()[0] if ";" in line else ""
    if any(word in message for word in _OPTIONAL):
        return None
    for pattern in _PATTERNS:
        found = pattern.search(message)
        if found:
            return _whole(found.group("name")), message[:200]
    return None


def _whole(name: str) -> str:
    """nvme0n1p2 -> nvme0n1, sdb1 -> sdb; loop7 and nvme0n1 are whole already."""
    found = _PART.match(name)
    if found is None:
        return name
    if found.group("disk"):
        return found.group("disk")
    return name if name.startswith(("loop", "nvme", "md", "mmcblk")) else found.group("sd")
