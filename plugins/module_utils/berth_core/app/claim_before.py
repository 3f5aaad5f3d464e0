# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A claim that was made anew while the Berth of the earlier one of its name still has a disk.

Called by the controller before it chooses. Until the earlier Berth has given its disk up, nothing says that the new
claim's data is there, and it would be given another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..lifecycle import states
from ..lifecycle.locks import holds_disk
from ..lifecycle.step import Wait
from ..lifecycle.view import disks_of, recorded
from . import claims
from .claims import Asked

Object = Mapping[str, Any]


def earlier(asked: Asked, records: Iterable[Object], disks: Mapping[str, Object]) -> Wait | None:
    """What a claim without a Berth waits for. ``records``: the Berths of its namespace and name, whatever their uid;
    ``disks``: by name, those that they name."""
    own = claims.berth_name(asked.claim.uid)
    for record in records:
        of_claim, name = claims.claim_of(record), record["metadata"]["name"]
        if of_claim is None or of_claim[:2] != (asked.claim.namespace, asked.claim.name) or name == own:
            continue
        if recorded(record) == states.REPLACING:
            return Wait("Replacing", _exchanged(record), True)
        for each in disks_of(record):
            disk = disks.get(each["name"])
            if disk is not None and holds_disk(disk, record["metadata"]["uid"]):
                text = f"LocalDisk {each['name']} to be given up by the earlier claim of this name (Berth {name})"
                return Wait("EarlierClaim", f"waits for {text}")
    return None


def _exchanged(record: Object) -> str:
    told, meta = (record.get("status") or {}).get("replacing") or {}, record["metadata"]
    return (
        f"its disk, LocalDisk {told.get('from')}, is being exchanged for {told.get('to')}: run disk_replace again to "
        f"finish that, or give it up and keep the data (kubectl delete berth {meta['name']} -n {meta['namespace']})"
    )
