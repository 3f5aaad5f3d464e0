# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody does to one LocalDisk by name: cordon it, release it, ask for its wipe. Each refused or an object to
write.

Called by the modules local_disk and disk_replace. The wipe itself is the node agent's; here it is only asked for, and
its outcome read. Never takes a lock, and gives one up only where its berth is gone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import DataError, IdentityError, LockError, StateError
from ..lifecycle.locks import disk_holder, unlock_disk
from ..model.quantity import format_bytes
from .disk_change import read_identity
from .disk_status import content_named
from .identity import agrees, from_spec
from .phase import MISSING

Disk = Mapping[str, Any]


class WipeOutcome(NamedTuple):
    """``done``: the agent is finished with the request; ``failed``: why, empty when it succeeded."""

    done: bool
    failed: str
    progress: str


def cordoned_disk(live: Disk, cordon: bool | None) -> dict[str, Any]:
    """The disk with ``spec.unschedulable`` as asked; None leaves it as it is."""
    changed = copy.deepcopy(dict(live))
    if cordon:
        changed["spec"]["unschedulable"] = True
    elif cordon is not None:
        changed["spec"].pop("unschedulable", None)
    return changed


def released_disk(live: Disk, berth_lives: bool, forget: bool) -> dict[str, Any]:
    """The disk that is nobody's and not reserved; data of a berth that is gone stays that replica's unless ``forget``.

    Raises LockError while a living berth holds it.
    """
    name, holder = live["metadata"]["name"], disk_holder(live)
    if holder and berth_lives:
        raise LockError(
            f"LocalDisk {name} is held by berth {holder}, which is there: it is not released under it; remove that "
            "replica first (stateful_app: scale down, or state absent)",
            disk=name,
            holder=holder,
        )
    changed = copy.deepcopy(dict(live))
    if holder:
        changed = unlock_disk(changed, live["spec"]["claimRef"]["uid"], True) or changed
    changed["spec"]["reserved"] = False
    if forget:
        changed["spec"].pop("retainedFor", None)
    return changed


def wipe_request(
    live: Disk, asked: Mapping[str, Any], request: Mapping[str, Any], force_retained: bool
) -> dict[str, Any]:
    """The disk with a wipe asked for. ``asked``: the identity's keys as the user wrote them; ``request``: requestID,
    requestedBy, method or none.

    Raises IdentityError, LockError, DataError, StateError; the agent looks again at the disk itself before it begins.
    """
    name = live["metadata"]["name"]
    check_wipe(live, asked, force_retained)
    changed = copy.deepcopy(dict(live))
    given = {key: value for key, value in request.items() if value}
    identity = copy.deepcopy(live["spec"]["identity"])
    changed["spec"]["wipe"] = {**given, "identity": identity, **content_named(live)}
    if live["spec"].get("wipe"):
        raise StateError(f"LocalDisk {name}: a wipe is asked for already", disk=name)
    return changed


def check_wipe(live: Disk, asked: Mapping[str, Any], force_retained: bool) -> None:
    """Whether this very disk may be wiped, as far as the API server knows. Raises as `wipe_request` says."""
    name, spec, status = live["metadata"]["name"], live["spec"], live.get("status") or {}
    where = f"LocalDisk {name}: wipe"
    there, named = from_spec(spec["identity"]), read_identity(asked, where)
    if not named.is_strong() or not agrees(named, there):
        raise IdentityError(
            f"{where}: the identity that is named ({named.describe() or 'none'}) is not that of the disk "
            f"({there.describe()}); name at least one of wwn, serial, by_path, and only what is so; nothing was wiped",
            disk=name,
        )
    holder, kept = disk_holder(live), spec.get("retainedFor")
    if holder:
        raise LockError(f"{where}: berth {holder} holds the disk; give it up first; nothing was wiped", disk=name)
    if kept and not force_retained:
        raise DataError(
            f"{where}: the disk keeps the data of {kept['namespace']}/{kept['app']}-{kept['ordinal']} (claim "
            f"{kept['claim']}); set force_retained: true to destroy it; nothing was wiped",
            disk=name,
        )
    _check_free(where, spec, status)


def _check_free(where: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    seen = status.get("observed") or {}
    users = [*(f"mounted at {each}" for each in seen.get("mounts") or ()), *(seen.get("holders") or ())]
    if spec.get("reserved"):
        raise StateError(f"{where}: the disk is reserved, so berth may not wipe it; set reserved: false first")
    if seen.get("sharedWith"):
        raise StateError(f"{where}: node {seen['sharedWith']} sees this disk, too; nothing was wiped")
    if users:
        raise StateError(f"{where}: the disk is in use on its host ({', '.join(users)}); nothing was wiped")
    if status.get("phase") == MISSING:
        raise StateError(f"{where}: the disk is not in its node; nothing was wiped")


def destroyed_by_wipe(live: Disk) -> dict[str, Any]:
    """What a wipe of this disk destroys, for people: the diff's before."""
    seen = (live.get("status") or {}).get("observed") or {}
    return {
        "disk": live["metadata"]["name"],
        "node": live["spec"]["nodeName"],
        "identity": from_spec(live["spec"]["identity"]).describe(),
        "device": seen.get("devicePath", "unknown"),
        "size": format_bytes(int(live["spec"]["identity"]["size"])),
        "filesystem": seen.get("filesystem") or "none seen",
        "data_of": live["spec"].get("retainedFor") or "nobody on record",
    }


def wipe_outcome(live: Disk, request_id: str) -> WipeOutcome:
    """How far the agent has come with a request."""
    status = live.get("status") or {}
    last, now = status.get("lastWipe") or {}, status.get("wipe") or {}
    if last.get("requestID") == request_id:
        failed = "" if last.get("result") == "Succeeded" else str(last.get("message") or "the agent gives no reason")
        return WipeOutcome(True, failed, "")
    if now.get("requestID") == request_id:
        done, size, speed = (int(now.get(key) or 0) for key in ("offset", "size", "bytesPerSecond"))
        share = f" {100 * done // size} % of {format_bytes(size)}, {format_bytes(speed)}/s" if size else ""
        return WipeOutcome(False, "", f"{now.get('step', 'begun')}{share}")
    told = [each for each in status.get("conditions") or () if each.get("type") == "Wiped" and each["status"] != "True"]
    why = f": {told[0].get('reason', '')} {told[0].get('message', '')}".rstrip() if told else ""
    return WipeOutcome(False, "", f"asked for, not begun{why}")
