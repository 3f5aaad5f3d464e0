# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which LocalDisk a PersistentVolume of berth's stands for, and for which Berth it was made: by its marks and its name.

Called by whoever looks for volumes over a disk whose lock does not tell of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: On everything that is made for a berth and is not its lock: the Berth's uid.
BERTH_ANNOTATION = "berth.dev/berth-uid"
#: On a PersistentVolume whose name does not tell it: the LocalDisk below it. A lock that is gone tells no more.
DISK_ANNOTATION = "berth.dev/local-disk"


def volume_name(disk: str, uid: str) -> str:
    """A PV belongs to one disk under one lock: a disk that is given out again gets a new one."""
    return f"{disk[:240]}-{uid[:8]}"


def berth_uid(volume: Mapping[str, Any]) -> str:
    """The uid of the Berth that a volume was made for; empty where it is not berth's."""
    return str(_notes(volume).get(BERTH_ANNOTATION) or "")


def disk_of(volume: Mapping[str, Any]) -> str:
    """The LocalDisk below a volume of berth's: as it says, else from its name."""
    said = _notes(volume).get(DISK_ANNOTATION)
    return str(said or volume["metadata"]["name"].removesuffix(volume_name("", berth_uid(volume))))


def disk_below(volume: Mapping[str, Any]) -> str:
    """Likewise of any volume; empty where it is not berth's."""
    return disk_of(volume) if berth_uid(volume) else ""


def disks_below(volume: Mapping[str, Any]) -> list[str]:
    """Likewise as the keys of an informer's index."""
    below = disk_below(volume)
    return [below] if below else []


def _notes(volume: Mapping[str, Any]) -> Mapping[str, Any]:
    return volume["metadata"].get("annotations") or {}
