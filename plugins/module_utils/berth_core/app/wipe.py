# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a disk may be wiped, how, from where, and what is written down about it. Nothing here touches a disk.

Called by the node agent. A wipe happens for an explicit request on that LocalDisk alone (``spec.wipe``), which repeats
the disk's whole identity; while anything holds, mounts or builds on the disk it waits and says for what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import DataError, InputError, LockError, StateError
from .fs_plan import find_device
from .identity import Device, describe, from_spec

AUTO, SIGNATURES, DISCARD, ZERO, RANDOM = "auto", "signatures", "discard", "zero", "random"
METHODS = (AUTO, SIGNATURES, DISCARD, ZERO, RANDOM)
SUCCEEDED, FAILED = "Succeeded", "Failed"

Object = Mapping[str, Any]


class WipePlan(NamedTuple):
    """What the wiper is told. ``offset``: bytes that are done already; ``fallback``: zero where discard does not do."""

    name: str
    request: str
    requested_by: str
    device: str
    number: str
    size: int
    method: str
    offset: int
    fallback: bool
    start_time: str
    #: whose data it destroys, empty where nobody's is on record
    data_uid: str = ""
    #: it came to an end on this host before: nothing is written, and the disk must be as it was left
    finished: bool = False
    #: what the kernel says of the device, and must say of it still when it is open
    kernel: Mapping[str, Any] = {}


def request_of(disk: Object) -> Mapping[str, Any] | None:
    """The request that is still to be carried out; None when there is none, or it has come to its end already.

    Raises InputError when it does not name the disk's whole identity or was carried out before for other data (the
    schema refuses both, too), LockError when somebody holds the disk.
    """
    request = disk["spec"].get("wipe")
    if not request:
        return None
    check_unspent(disk, str(request["requestID"]))
    if last_of(disk).get("requestID") == request["requestID"]:
        return None
    name = disk["metadata"]["name"]
    named, real = from_spec(request.get("identity") or {}), from_spec(disk["spec"]["identity"])
    if named != real:
        raise InputError(
            f"LocalDisk {name}: its wipe {request['requestID']} names {named.describe()}, the disk is "
            f"{real.describe()}: nothing is wiped",
            disk=name,
        )
    ref = disk["spec"].get("claimRef")
    if ref:
        raise LockError(f"LocalDisk {name} is held by {ref['namespace']}/{ref['name']}: it is not wiped", disk=name)
    return dict(request)


def is_to_be_cleared(disk: Object) -> bool:
    """Whether the request that is still in the spec has been carried out: it goes, and with it whose data there was."""
    request, last = disk["spec"].get("wipe"), last_of(disk)
    done = bool(request) and last.get("requestID") == request["requestID"] and last.get("result") == SUCCEEDED
    return done and not is_spent(disk, str(request["requestID"]))


def is_spent(disk: Object, request_id: str) -> bool:
    """Whether that request was carried out, and the disk was locked since: what is on it now is other data.

    The agent notes the first lock that it makes the disk ready for; where it does not do that, the retained data tells.
    """
    last, kept = last_of(disk), disk["spec"].get("retainedFor")
    if last.get("requestID") != request_id or last.get("result") != SUCCEEDED:
        return False
    return bool(last.get("lockUID")) or (bool(kept) and kept["dataUID"] != last.get("dataUID"))


def check_unspent(disk: Object, request_id: str) -> None:
    """Raises InputError where `is_spent`."""
    if is_spent(disk, request_id):
        raise InputError(
            f"LocalDisk {disk['metadata']['name']}: wipe {request_id} was carried out before, and the disk has been "
            "held since, so it does not stand for what is on it now: nothing is wiped; ask with another requestID",
            disk=disk["metadata"]["name"],
        )


def check_not_wiped(disk: Object, since: Sequence[str]) -> None:
    """The lock's data was not wiped behind the API server's back. Raises DataError.

    ``since``: the requests that the host remembers, from the one on that destroyed that data.
    """
    if not since or last_of(disk).get("requestID") in since:
        return  # whoever holds the disk now got it after that wipe
    name, ref = disk["metadata"]["name"], disk["spec"]["claimRef"]
    raise DataError(
        f"LocalDisk {name}: its lock is for the data of {ref['namespace']}/{ref['app']}-{ref['ordinal']} (claim "
        f"{ref['claim']}), which wipe {since[0]} destroyed on this host: what is on the disk came since, and may be "
        "somebody else's. Was the cluster's state restored from a backup? Give its berth up, and ask for a wipe with "
        "another requestID if what is there may go",
        disk=name,
    )


def locked_since(disk: Object, lock_uid: str) -> dict[str, Any]:
    """``status.lastWipe`` as a field to write when the disk is made ready for a lock; nothing where it is noted."""
    last = last_of(disk)
    return {"lastWipe": {**last, "lockUID": lock_uid}} if last and not last.get("lockUID") else {}


def plan_wipe(disk: Object, devices: Sequence[Device], can_discard: bool, now: str) -> WipePlan:
    """The plan for the LocalDisk's request. A wipe of the same request that was interrupted goes on where it was.

    Raises StateError when the disk is not there, DataError naming everything that speaks against wiping it now.
    """
    request = request_of(disk)
    name = disk["metadata"]["name"]
    if request is None:
        raise StateError(f"LocalDisk {name}: no wipe is asked for", disk=name)
    device = find_device(disk, devices)
    _check_content(name, request, device)
    against = list(_speaks_against(device, devices))
    if against:
        raise DataError(f"LocalDisk {name}: {describe(device)} is not wiped: it {'; it '.join(against)}", disk=name)
    asked = str(request.get("method") or disk["spec"].get("wipeMethod") or SIGNATURES)
    method = (DISCARD if can_discard else ZERO) if asked == AUTO else asked
    if method == DISCARD and not can_discard:
        raise InputError(f"LocalDisk {name}: {describe(device)} offers no discard; ask for zero or auto", disk=name)
    begun = _begun(disk, request["requestID"])
    # Before the first signature is gone nothing is done that could be gone on with.
    journal = begun if begun.get("step") != "Signatures" else {}
    return WipePlan(
        name=name,
        request=str(request["requestID"]),
        requested_by=str(request["requestedBy"]),
        device=str(device["path"]),
        number=str(device["number"]),
        size=int(device["size"]),
        # A wipe that has begun keeps its method: what is behind the offset was done by it.
        method=str(journal.get("method") or method),
        offset=int(journal.get("offset") or 0),
        fallback=asked == AUTO,
        start_time=str(begun.get("startTime") or now),
        data_uid=str((disk["spec"].get("retainedFor") or {}).get("dataUID") or ""),
        kernel=dict(device.get("kernel") or {}),
    )


def _check_content(name: str, request: Mapping[str, Any], device: Device) -> None:
    """The filesystem that is there is not one that came after the request: a restored cluster repeats old ones."""
    asked, found = str(request.get("filesystemUUID") or "").lower(), str(device.get("fsuuid") or "").lower()
    if asked and found and asked != found:
        raise DataError(
            f"LocalDisk {name}: wipe {request['requestID']} was asked for when filesystem {asked} was on the disk, and "
            f"{describe(device)} carries {device.get('fstype')} {found}: nothing is wiped. If that may go, take the "
            "request back and ask with another requestID",
            disk=name,
        )


def content_of(device: Device, ends: str) -> str:
    """What a disk carries, in one line: its filesystem, else (``ends``) a digest of what is at its ends."""
    return f"{device['fstype']} {device['fsuuid']}" if device.get("fsuuid") else f"ends {ends}"


def check_same_content(disk: Object, request: str, before: str, now: str) -> None:
    """What is there is what was there when this host first saw the request. Raises DataError."""
    name = disk["metadata"]["name"]
    if before != now and not _begun(disk, request):
        raise DataError(
            f"LocalDisk {name}: wipe {request} was asked for when the disk carried {before}, and it carries {now}: "
            "nothing is wiped. Was the cluster's state restored from a backup? If that data may go, take the request "
            "back and ask with another requestID",
            disk=name,
        )


def _speaks_against(device: Device, devices: Sequence[Device]) -> list[str]:
    found = [f"carries {word}" for fact, word in (("is_system", "the running system"),) if device.get(fact)]
    found += [text for fact, text in (("read_only", "is read-only"), ("swap", "is used as swap")) if device.get(fact)]
    for fact, text in (("mounts", "is mounted at"), ("holders", "is held by"), ("slaves", "is built on")):
        if device.get(fact):
            found.append(f"{text} {', '.join(device[fact])}")
    parts = [each for each in devices if each.get("parent") and each.get("parent") == device.get("name")]
    for part in parts:
        found += [f"has partition {part['name']}, which {text}" for text in _speaks_against(part, ())]
    return found


def progress(plan: WipePlan, step: str, offset: int, speed: int, method: str) -> dict[str, Any]:
    """``status.wipe``: where the wipe is. ``offset`` and ``speed`` in bytes and bytes per second."""
    return {
        "requestID": plan.request,
        "step": step,
        "method": method,
        "offset": offset,
        "size": plan.size,
        "bytesPerSecond": speed,
        "startTime": plan.start_time,
    }


def ended(plan: WipePlan, result: str, message: str, offset: int, method: str, now: str) -> dict[str, Any]:
    """``status.lastWipe``: the record of a wipe that came to an end, and who asked for it."""
    return {
        "requestID": plan.request,
        "result": result,
        **({"message": message[:1024]} if message else {}),
        "method": method,
        "requestedBy": plan.requested_by,
        **({"dataUID": plan.data_uid} if plan.data_uid else {}),
        "bytes": offset,
        "startTime": plan.start_time,
        "completionTime": now,
    }


def clearing(disk: Object) -> list[dict[str, Any]]:
    """The JSON patch after a wipe: the request and whose data there was are gone, in one write.

    It fails when anything was written to the LocalDisk since it was read, or when another wipe is asked for.
    """
    spec = disk["spec"]
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": disk["metadata"]["resourceVersion"]},
        {"op": "test", "path": "/spec/wipe/requestID", "value": spec["wipe"]["requestID"]},
        {"op": "remove", "path": "/spec/wipe"},
    ]
    return [*patch, {"op": "remove", "path": "/spec/retainedFor"}] if spec.get("retainedFor") else patch


def last_of(disk: Object) -> Mapping[str, Any]:
    """``status.lastWipe``."""
    return dict((disk.get("status") or {}).get("lastWipe") or {})


def _begun(disk: Object, request: str) -> Mapping[str, Any]:
    """``status.wipe``, where it is that request's."""
    journal = dict((disk.get("status") or {}).get("wipe") or {})
    return journal if journal.get("requestID") == request else {}
