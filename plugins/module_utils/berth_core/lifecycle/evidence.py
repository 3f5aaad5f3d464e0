# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a disk may carry a berth's data. A phase alone never says that there is none: people write phases, too.

Called by the way back, and by whoever clears the lock of a berth that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..app.fsid import filesystem_uuid
from . import states
from .locks import BERTH_ANNOTATION
from .view import View, disks_of, recorded

Object = Mapping[str, Any]


def on_disk(disk: Object, uid: str) -> str:
    """What the disk itself says of data under the lock of berth ``uid``; empty where it says nothing.

    The agent's journal of that lock, its filesystem (its UUID is made of the data's uid), or data of an earlier lock.
    """
    spec, status = disk["spec"], disk.get("status") or {}
    ref = spec.get("claimRef") or {}
    if ref.get("uid") != uid:
        return ""
    if ref.get("dataUID") not in (None, uid):
        return "it carried this replica's data before"
    if (status.get("journal") or {}).get("lockUID") == uid:
        return f"its agent was at {status['journal'].get('step')}"
    found = str(((status.get("observed") or {}).get("filesystem") or {}).get("uuid") or "").lower()
    if found and found == filesystem_uuid(uid, str(disk["metadata"]["name"])):
        return "its filesystem was made for this berth"
    return ""


def of_berth(view: View, record: Object) -> str:
    """Why a disk of this berth may carry its data; empty: nobody can have written to any of them."""
    uid, phase = str(record["metadata"]["uid"]), recorded(record)
    if phase == states.RELEASING:
        outcome = (record.get("status") or {}).get("release")
        return "" if outcome == states.NOTHING else f"it was given up as {outcome or 'unknown'}"
    if states.reached(phase, states.RESERVED):
        return f"it is {phase}"
    if _made_for(uid, view.volumes.values()):
        return "a volume was made for it"
    if _made_for(uid, view.claims.values()):
        return "a claim was made for it"
    told = (on_disk(view.disks[each["name"]], uid) for each in disks_of(record) if each["name"] in view.disks)
    return next((text for text in told if text), "")


def _made_for(uid: str, things: Iterable[Object]) -> bool:
    return any((each["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION) == uid for each in things)
