# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks and records of berths: each function is one step of the state table, idempotent, safe against a second runner.

Called by the flow in the table's order. Losing a compare-and-swap to somebody who now holds the thing is LockError;
losing it to somebody who changed something else is tried again, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Optional

from ...berth_core.app import lock, manifests, states
from ...berth_core.app.phase import disk_phase
from ...berth_core.app.wanted import AppWanted
from ...berth_core.errors import ConflictError, NotFoundError
from ...berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, Resource
from ..client import ApiClient

#: How often one compare-and-swap is tried when the object changes under our hands without being taken.
SWAPS = 8
Object = dict[str, Any]
Change = Callable[[Mapping[str, Any]], Optional[Object]]


def swap(
    client: ApiClient, resource: Resource, name: str, change: Change, seen: Mapping[str, Any] | None = None
) -> Object | None:
    """Read, change, write if nobody else has written since; None when there is nothing to change.

    ``change`` is pure, and may refuse with LockError. ``seen`` spares the first read.
    """
    current: Mapping[str, Any] = seen if seen is not None else client.get(resource, name)
    for _attempt in range(SWAPS):
        changed = change(current)
        if changed is None:
            return None
        try:
            return client.replace(resource, changed)
        except ConflictError:
            current = client.get(resource, name)
    raise ConflictError(
        f"{resource.kind} {name} changed under our hands {SWAPS} times in a row: somebody writes it without pause; "
        f"nothing of it was changed by us",
        409,
        "Conflict",
    )


def lock_disk(client: ApiClient, holder: lock.Holder, name: str, seen: Mapping[str, Any] | None) -> Object:
    """The disk, held by ``holder``; its phase says so. Raises LockError."""
    locked = swap(client, LOCAL_DISK, name, lambda disk: lock.lock_disk(disk, holder), seen)
    return record_disk(client, locked if locked is not None else client.get(LOCAL_DISK, name))


def unlock_disk(client: ApiClient, name: str, uid: str, keep_data: bool) -> bool:
    """Give up the lock of berth ``uid``; whether there was one. A disk that is gone needs no unlocking."""
    try:
        freed = swap(client, LOCAL_DISK, name, lambda disk: lock.unlock_disk(disk, uid, keep_data))
    except NotFoundError:
        return False
    if freed is not None:
        record_disk(client, freed)
    return freed is not None


def record_disk(client: ApiClient, disk: Object) -> Object:
    """Write the phase that follows from spec and observation, unless it is there: the agent's word until there is
    one."""
    status = disk.get("status") or {}
    phase = disk_phase(disk["spec"], status.get("observed"))
    if status.get("phase") == phase:
        return disk
    meta = {"resourceVersion": disk["metadata"]["resourceVersion"]}
    try:
        return client.patch(
            LOCAL_DISK, disk["metadata"]["name"], None, {"metadata": meta, "status": {"phase": phase}}, "status"
        )
    except ConflictError:
        return disk  # whoever wrote meanwhile wrote the phase of a newer state


def lock_device(client: ApiClient, holder: lock.Holder, name: str, shares: int) -> None:
    swap(client, LOCAL_DEVICE, name, lambda device: lock.lock_device(device, holder, shares))


def unlock_device(client: ApiClient, name: str, uid: str) -> bool:
    try:
        return swap(client, LOCAL_DEVICE, name, lambda device: lock.unlock_device(device, uid)) is not None
    except NotFoundError:
        return False


def reserve(
    client: ApiClient, app: AppWanted, record: Object, seen: Mapping[str, Mapping[str, Any]]
) -> dict[str, Object]:
    """Selected -> Reserved: every lock, then the record. Returns the berth's disks by claim. Raises LockError."""
    disks = {}
    for disk in record["spec"].get("disks") or ():
        holder = manifests.holder(app, record, disk["claim"])
        disks[disk["claim"]] = lock_disk(client, holder, disk["name"], seen.get(disk["name"]))
    for device in record["spec"].get("devices") or ():
        lock_device(client, manifests.holder(app, record, device["claim"]), device["name"], device["shares"])
    record_phase(client, record, states.RESERVED)
    return disks


def unreserve(client: ApiClient, record: Mapping[str, Any], keep_data: bool) -> None:
    """Reserved or Selected -> Absent, in reverse order. Only this berth's own locks, and its record last."""
    meta, spec = record["metadata"], record["spec"]
    for device in reversed(spec.get("devices") or []):
        unlock_device(client, device["name"], meta["uid"])
    for disk in reversed(spec.get("disks") or []):
        unlock_disk(client, disk["name"], meta["uid"], keep_data)
    client.delete(BERTH, meta["name"], meta["namespace"], uid=meta["uid"])


def record_phase(client: ApiClient, record: Object, phase: str, pod: str | None = None) -> None:
    """Write the phase into the berth that we mean, unless it has come that far already: a record never goes back.

    ``record`` is brought up to date. Raises NotFoundError when that berth is gone: its locks must not outlive it.
    """
    wanted = {"phase": phase, **({"podName": pod} if pod else {})}
    for _attempt in range(SWAPS):
        status, meta = record.get("status") or {}, record["metadata"]
        if states.reached(status.get("phase", ""), phase) and (not pod or status.get("podName") == pod):
            return
        seen = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {"metadata": seen, "status": {**wanted, "phase": states.later(status.get("phase", ""), phase)}}
        try:
            record.update(client.patch(BERTH, meta["name"], meta["namespace"], body, "status"))
            return
        except ConflictError:
            record.update(_same_berth(client.get(BERTH, meta["name"], meta["namespace"]), meta))
    raise ConflictError(
        f"Berth {meta['namespace']}/{meta['name']} changed under our hands {SWAPS} times in a row", 409, "Conflict"
    )


def _same_berth(now: Object, meta: Mapping[str, Any]) -> Object:
    if now["metadata"]["uid"] != meta["uid"]:
        raise NotFoundError(
            f"Berth {meta['namespace']}/{meta['name']} was given up and made anew by somebody else", 404, "NotFound"
        )
    return now


def take_back(client: ApiClient, record: Mapping[str, Any]) -> bool:
    """Undo a berth that this run does not carry further: its locks, then its record.

    False, and nothing done, where another run of the same app has changed it since we read it: it is theirs to carry
    on.
    """
    meta = record["metadata"]
    back = {
        "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
        "status": {"phase": states.SELECTED},
    }
    try:
        client.patch(BERTH, meta["name"], meta["namespace"], back, "status")
    except ConflictError:
        return False
    except NotFoundError:
        pass  # gone already: what it had locked must go too
    unreserve(client, record, keep_data=False)
    return True
