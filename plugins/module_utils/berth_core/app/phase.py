# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phase of a LocalDisk: one rule for everybody who writes it.

Called by local_disk (what a host reports), by stateful_app after it has taken or given up a lock, and by the node
agent. Never looks anywhere but at the two mappings that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PENDING = "Pending"
AVAILABLE = "Available"
LOCKED = "Locked"
IN_USE = "InUse"
RELEASED = "Released"
FAULTED = "Faulted"
MISSING = "Missing"
PHASES = (PENDING, AVAILABLE, LOCKED, IN_USE, RELEASED, FAULTED, MISSING)

#: ``status.observed.health`` of a disk that can be given out; no word counts as healthy, any other as a fault.
HEALTHY = "Healthy"
HEALTH_UNKNOWN = "Unknown"


def is_seen(observed: Mapping[str, Any] | None) -> bool:
    """Whether the last look at the node found the disk: what was not found has no device path."""
    return bool(observed) and bool((observed or {}).get("devicePath"))


def is_faulted(observed: Mapping[str, Any]) -> bool:
    """Whether the node reports the disk as broken; a dying disk is often first of all read-only."""
    return bool(observed.get("readOnly")) or (observed.get("health") or HEALTHY) not in (HEALTHY, HEALTH_UNKNOWN)


def disk_phase(spec: Mapping[str, Any], observed: Mapping[str, Any] | None) -> str:
    """The phase that a LocalDisk's spec and its ``status.observed`` amount to.

    ``observed`` is None when nobody has ever looked for the disk, and has no ``devicePath`` when it was looked for and
    not found. The worst news wins: Missing, Faulted, InUse, Locked, Released, Pending (unknown data), Available.
    """
    if observed is None:
        return PENDING
    if not is_seen(observed):
        return MISSING
    if is_faulted(observed):
        return FAULTED
    if spec.get("claimRef"):
        return IN_USE if observed.get("mounts") or observed.get("holders") else LOCKED
    if spec.get("retainedFor"):
        return RELEASED
    # Nobody's data is on record, and yet something is on the disk, or another node sees it: it would be refused when it
    # is to be made ready.
    return PENDING if observed.get("filesystem") or observed.get("sharedWith") else AVAILABLE
