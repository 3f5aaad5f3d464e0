# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking and giving up a lock, as pure changes of a LocalDisk or LocalDevice that was read from the API server.

The caller writes the result with the resourceVersion that it read: the API server's compare-and-swap makes it a lock,
and the schema's rules refuse a handover even from a caller with a bug. Called by the app flow; never talks to anybody.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import LockError
from ..model import over_disk
from ..model.tenant import UNKNOWN, Tenant, how_to_free
from . import history

#: Marks of what is made for a berth.
BERTH_ANNOTATION, DISK_ANNOTATION = over_disk.BERTH_ANNOTATION, over_disk.DISK_ANNOTATION
#: What lock and kept data say of a filesystem that was there before berth: its UUID, for as long as it is there; the
#: PersistentVolume through which it is used, and where the host itself mounts it, for as long as that volume is there.
_FILESYSTEM, _VOLUME, _MOUNT = "filesystemUUID", "volume", "mountPoint"


class Holder(NamedTuple):
    """Who asks for a lock: one claim of one berth. ``uid`` is the Berth's, the fencing token.

    ``tenant``: the namespace by its uid, so that a later one of that name is another. ``volume``: the PersistentVolume
    that was there before berth, where the claim has one.
    """

    namespace: str
    name: str
    uid: str
    app: str
    ordinal: int
    claim: str
    tenant: Tenant = UNKNOWN
    volume: str = ""

    def describe(self) -> str:
        return f"{self.namespace}/{self.name}"

    def reference(self, data_uid: str) -> dict[str, Any]:
        """``spec.claimRef`` of a disk whose data is ``data_uid``'s."""
        names = {key: value for key, value in self._asdict().items() if key not in ("tenant", "volume")}
        return {**names, **self.tenant.fields(), "dataUID": data_uid}


def disk_holder(disk: Mapping[str, Any]) -> str | None:
    """``namespace/berth`` of a held disk."""
    ref = disk["spec"].get("claimRef")
    return f"{ref['namespace']}/{ref['name']}" if ref else None


def keeps_from_before(disk: Mapping[str, Any]) -> bool:
    """Whether the disk is a replica's, with a filesystem that was there before berth: ``reserved`` waits so long."""
    spec = disk["spec"]
    return any(_FILESYSTEM in (spec.get(part) or {}) for part in ("claimRef", "retainedFor"))


def holds_disk(disk: Mapping[str, Any], uid: str) -> bool:
    ref = disk["spec"].get("claimRef")
    return bool(ref) and ref["uid"] == uid


def lock_disk(disk: Mapping[str, Any], holder: Holder) -> dict[str, Any] | None:
    """The disk with its lock taken; None when this holder has it already.

    Raises LockError when somebody else holds it, it is reserved, or it keeps the data of another replica.
    """
    spec = disk["spec"]
    ref, kept, name = spec.get("claimRef"), spec.get("retainedFor"), disk["metadata"]["name"]
    if ref:
        if ref["uid"] == holder.uid and ref["claim"] == holder.claim:
            return None
        raise LockError(
            f"LocalDisk {name} is held by {ref['namespace']}/{ref['name']} (claim {ref['claim']})", disk=name
        )
    if spec.get("reserved"):
        raise LockError(f"LocalDisk {name} is reserved", disk=name)
    if spec.get("unschedulable"):
        raise LockError(f"LocalDisk {name} is cordoned", disk=name)
    if spec.get("wipe"):
        raise LockError(f"LocalDisk {name} is to be wiped, as {spec['wipe']['requestedBy']} asked", disk=name)
    if kept:
        _check_data(name, kept, holder)
    if holder.volume and (kept or {}).get(_VOLUME) != holder.volume:
        raise LockError(f"LocalDisk {name} does not keep the data of PersistentVolume {holder.volume}", disk=name)
    changed = copy.deepcopy(dict(disk))
    if not kept:
        history.dropped(changed)
    changed["spec"].pop("retainedFor", None)
    reference = holder.reference(kept["dataUID"] if kept else holder.uid)
    changed["spec"]["claimRef"] = {**reference, **_there_before(kept or {}, bool(holder.volume))}
    return changed


def _there_before(record: Mapping[str, Any], in_use: bool) -> dict[str, Any]:
    """``in_use``: by the volume of before."""
    keys = (_FILESYSTEM, _VOLUME, _MOUNT) if in_use else (_FILESYSTEM,)
    return {key: record[key] for key in keys if key in record}


def unlock_disk(disk: Mapping[str, Any], uid: str, keep_data: bool) -> dict[str, Any] | None:
    """The disk with the lock of berth ``uid`` given up; None when that berth does not hold it.

    ``keep_data``: a pod may have written to it, so it stays retained for this replica. Without it only a disk that
    already carried this replica's data (a lock that was taken again) stays retained: an undone first lock leaves no
    trace.
    """
    ref = disk["spec"].get("claimRef")
    if not ref or ref["uid"] != uid:
        return None
    changed = copy.deepcopy(dict(disk))
    del changed["spec"]["claimRef"]
    if keep_data or ref["dataUID"] != ref["uid"]:
        kept = {key: ref[key] for key in ("namespace", "app", "ordinal", "claim", "dataUID")}
        changed["spec"]["retainedFor"] = {**kept, **Tenant.on_record(ref).fields(), **_there_before(ref, True)}
    return changed


def _check_data(name: str, kept: Mapping[str, Any], holder: Holder) -> None:
    """Raises LockError where the data that the disk keeps is not the holder's own."""
    whose = f"{kept['namespace']}/{kept['app']}-{kept['ordinal']} (claim {kept['claim']})"
    if not _same_replica(kept, holder):
        raise LockError(f"LocalDisk {name} keeps the data of {whose}", disk=name)
    of_record = Tenant.on_record(kept)
    if not holder.tenant.may_have(of_record):
        raise LockError(
            f"LocalDisk {name} keeps the data of {whose} {holder.tenant.difference(of_record)}; where nobody needs "
            f"it: {how_to_free(name)}",
            disk=name,
        )


def _same_replica(kept: Mapping[str, Any], holder: Holder) -> bool:
    return (kept["namespace"], kept["app"], kept["ordinal"], kept["claim"]) == (
        holder.namespace,
        holder.app,
        holder.ordinal,
        holder.claim,
    )


def holds_device(device: Mapping[str, Any], uid: str) -> bool:
    return any(ref["uid"] == uid for ref in device["spec"].get("claimRefs") or ())


def lock_device(device: Mapping[str, Any], holder: Holder, shares: int) -> dict[str, Any] | None:
    """The device with ``shares`` thousandths given to the holder; None when it has them already. Raises LockError."""
    spec, name = device["spec"], device["metadata"]["name"]
    refs = list(spec.get("claimRefs") or ())
    if any(ref["uid"] == holder.uid and ref["claim"] == holder.claim for ref in refs):
        return None
    total = spec.get("capacity", {}).get("shares", 1000)
    free = total - sum(ref["shares"] for ref in refs)
    if spec.get("reserved") or shares > free:
        holders = ", ".join(f"{ref['namespace']}/{ref['name']}: {ref['shares']}" for ref in refs) or "nobody"
        why = (
            "is reserved"
            if spec.get("reserved")
            else f"has {free} of {total} shares free, {shares} are asked for (held by {holders})"
        )
        raise LockError(f"LocalDevice {name} {why}", device=name)
    changed = copy.deepcopy(dict(device))
    ref = {
        "namespace": holder.namespace,
        "name": holder.name,
        "uid": holder.uid,
        "claim": holder.claim,
        "shares": shares,
    }
    changed["spec"]["claimRefs"] = [*refs, ref]
    return changed


def unlock_device(device: Mapping[str, Any], uid: str) -> dict[str, Any] | None:
    """The device without the shares of berth ``uid``; None when it has none."""
    if not holds_device(device, uid):
        return None
    changed = copy.deepcopy(dict(device))
    left = [ref for ref in changed["spec"]["claimRefs"] if ref["uid"] != uid]
    changed["spec"].pop("claimRefs")
    if left:
        changed["spec"]["claimRefs"] = left
    return changed
