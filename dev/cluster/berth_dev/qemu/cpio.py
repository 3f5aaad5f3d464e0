# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive format of an initial root filesystem (cpio "newc"). `image` and `vm` call this. Pure.

Several archives one after the other are one to the kernel. Format: driver-api/early-userspace/buffer-format.rst of the
Linux kernel's documentation.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from typing import NamedTuple


class Entry(NamedTuple):
    """`path` without a slash in front; `mode` with the kind of file (stat.S_IF*); root owns it, its time is zero."""

    path: str
    mode: int
    data: bytes = b""


def file(path: str, data: bytes | str, mode: int = 0o644) -> Entry:
    """A plain file."""
    return Entry(path, stat.S_IFREG | mode, data.encode() if isinstance(data, str) else data)


def folder(path: str, mode: int = 0o755) -> Entry:
    """A folder."""
    return Entry(path, stat.S_IFDIR | mode)


def archive(entries: Iterable[Entry]) -> bytes:
    """One complete archive, its length a multiple of four."""
    parts = [_record(number, entry) for number, entry in enumerate(entries, start=1)]
    return b"".join([*parts, _record(0, Entry("TRAILER!!!", 0))])


def _record(inode: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
