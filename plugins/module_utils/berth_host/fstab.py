# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line of /etc/fstab that is berth's, found by its mark. Every other line stays as it is, byte for byte.

Called by filesystems and unmounting. `edit` is pure; `write` replaces the file in one step: a crash leaves the old or
the new one.
"""

from __future__ import annotations

import os
import stat

from .core import MARK, StateError

FSTAB = "/etc/fstab"


def edit(text: str, name: str, line: str | None) -> str:
    """The table with exactly this line for that LocalDisk (None: with no line of berth's).

    Raises StateError when somebody else's line has the mount point.
    """
    kept = [each for each in text.splitlines() if not is_ours(each, name)]
    if line is None:
        return _join(kept) if len(kept) != len(text.splitlines()) else text
    if line in text.splitlines() and len(kept) + 1 == len(text.splitlines()):
        return text
    point = line.split()[1]
    for each in kept:
        fields = each.split()
        if len(fields) > 1 and not each.lstrip().startswith("#") and fields[1] == point:
            raise StateError(f"{FSTAB} has a line of somebody else for {point}: {each.strip()!r}; remove it first")
    return _join([*kept, line])


def write(path: str, text: str) -> None:
    """Replace the file at once, with the permissions that it had."""
    path = os.path.realpath(path)
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644
    import tempfile  # with what it imports, half a megabyte of an agent that may never need it

    handle, temporary = tempfile.mkstemp(prefix=".fstab.", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def find(text: str, name: str) -> str:
    """Berth's line for that LocalDisk; empty where there is none."""
    return next((line for line in text.splitlines() if is_ours(line, name)), "")


def is_ours(line: str, name: str) -> bool:
    """Whether the line carries the mark of that LocalDisk."""
    fields = line.split()
    return len(fields) > 3 and not fields[0].startswith("#") and f"{MARK}{name}" in fields[3].split(",")


def _join(lines: list[str]) -> str:
    return "\n".join(lines) + "\n" if lines else ""
