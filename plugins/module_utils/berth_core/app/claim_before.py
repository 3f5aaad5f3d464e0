# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A claim that was made anew while the Berth of the earlier one of its name still has a disk.

Called by the controller before it chooses. Until the earlier Berth has given its disk up, nothing says that the new
claim's data is there, and it would be given another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..lifecycle import states
from ..lifecycle.step import Wait
from ..lifecycle.view import recorded
from ..model.disk import LocalDisk
from . import claims, next_commands
from .claims import Asked

Object = Mapping[str, Any]


def earlier(asked: Asked, records: Collection[Object], disks: Iterable[LocalDisk]) -> Wait | None:
    """What a claim without a Berth waits for. ``records``: the Berths of its namespace and name, whatever their uid."""
    for record in records:
        if claims.claim_of(record) is not None and recorded(record) == states.REPLACING:
            return Wait("Replacing", _exchanged(record), True)
    for disk in disks:
        ref = disk.claim_ref
        if ref is not None and (ref.namespace, ref.app) == (asked.claim.namespace, claims.app_name(asked.claim.name)):
            return _held(disk.name, ref.name, ref.uid in [one["metadata"]["uid"] for one in records])
    return None


def _exchanged(record: Object) -> str:
    told, meta = (record.get("status") or {}).get("replacing") or {}, record["metadata"]
    return (
        f"its disk, LocalDisk {told.get('from')}, is being exchanged for {told.get('to')}: run disk_replace again to "
        f"finish that, or give it up and keep the data (kubectl delete berth {meta['name']} -n {meta['namespace']})"
    )


def _held(disk: str, berth: str, lives: bool) -> Wait:
    text = f"LocalDisk {disk} is still held by the earlier claim of this name (Berth {berth})"
    if lives:
        return Wait("EarlierClaim", f"{text}, and is given up next")
    return Wait("EarlierClaim", f"{text}, which is gone: give its lock up: {next_commands.give_lock_up(disk)}", True)
