# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which claims a StorageClass leaves behind when it is removed: those that wait for it, and those with a volume.

Called by the modules storage_class and installation_check. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .claims import class_of

Object = Mapping[str, Any]


def waiting(found: Iterable[Object], classes: Collection[str]) -> list[str]:
    """Claims of these classes without a volume, ``namespace/name``, sorted: nobody binds a claim whose class is gone.

    Those that are being deleted are no reason to stay.
    """
    return _named(
        each
        for each in found
        if class_of(each) in classes and not _volume(each) and not each["metadata"].get("deletionTimestamp")
    )


def bound(found: Iterable[Object], classes: Collection[str]) -> list[str]:
    """Claims of these classes that have a volume, ``namespace/name``, sorted: they live on without their class."""
    return _named(each for each in found if class_of(each) in classes and _volume(each))


def _volume(claim: Object) -> Any:
    return (claim.get("spec") or {}).get("volumeName")


def _named(found: Iterable[Object]) -> list[str]:
    return sorted(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found)
