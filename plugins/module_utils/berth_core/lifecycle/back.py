# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: the one order in which a berth is given up, whoever made it and however far it came.

First it says that it goes, and what becomes of the data (one write, a compare-and-swap: of this and of any step forward
one is refused). Then claims, volumes, devices, disks; the Berth last. Each write is found done by whoever comes next.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..app import claim_manifests, claims
from ..app.manifests import volume_of
from ..app.phase import disk_phase
from ..model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, PV, PVC, RESOURCE_CLAIM, Resource
from . import evidence, history, states, way_out
from .locks import BERTH_ANNOTATION, unlock_device, unlock_disk
from .recording import record_phase
from .step import REMOVE, REPLACE, STATUS, Ref, Step, Wait, Write, first_due
from .view import Object, Objects, View, claim_name, devices_of, disks_of, going, recorded


def release(view: View, record: Object, why: str) -> Write:
    """-> Releasing. What becomes of the data is decided here, by evidence, and written down."""
    return record_phase(record, states.RELEASING, why, release=_outcome(view, record))


def forget(view: View, record: Object) -> Step:
    """Releasing -> Absent: the next write of the way back."""
    step = first_due(states.STEPS["forget"].writes, _UNDO, view, record)
    if step is None:
        raise AssertionError("the last write of each way back is the Berth's own end")
    return step


def untie(view: View, record: Object) -> Step | None:
    """Releasing -> Absent: the next write of the way out, where that was begun."""
    return first_due(states.STEPS["untie"].writes, _UNDO, view, record) if way_out.begun(record) else None


def left_locks(view: View, record: Object, now: Object | None) -> list[Write]:
    """The locks that were taken for ``record``, which went meanwhile without having been Reserved.

    ``now``: the Berth of that name as it is. Who let the Berth go has not seen these locks, so nobody else gives them
    up. Each is a compare-and-swap on the very version that was read or written: what was touched since is left alone.
    """
    uid = record["metadata"]["uid"]
    if evidence.of_berth(view, record) or (now is not None and now["metadata"]["uid"] == uid):
        return []
    freed = []
    for device in _there(view.devices, devices_of(record)):
        unlocked = unlock_device(device, uid)
        if unlocked is not None:
            freed.append(Write(REPLACE, LOCAL_DEVICE, unlocked, f"{_title(LOCAL_DEVICE, device)}: its Berth is gone"))
    for disk in _there(view.disks, disks_of(record)):
        unlocked = unlock_disk(disk, uid, keep_data=False)
        if unlocked is not None:
            freed.append(Write(REPLACE, LOCAL_DISK, unlocked, f"{_title(LOCAL_DISK, disk)}: its Berth is gone"))
    return freed


def _outcome(view: View, record: Object) -> str:
    if not evidence.of_berth(view, record):
        return states.NOTHING
    if claims.claim_of(record) is None or recorded(record) == states.REPLACING:
        return states.RETAIN  # an app's data is never wiped by giving it up, nor is a disk that is being exchanged
    volumes = [view.volumes.get(name) for name in _volume_names(record)]
    disks = [view.disks.get(each["name"]) for each in disks_of(record)]
    policies = [
        claim_manifests.reclaim_policy(str(volume["spec"].get("persistentVolumeReclaimPolicy")), disk)
        for volume, disk in zip(volumes, disks)
        if volume is not None and disk is not None  # a volume that is gone cannot ask for a wipe
    ]
    return states.WIPE if policies and set(policies) == {claim_manifests.DELETE} else states.RETAIN


def _claims(view: View, record: Object) -> Step | None:
    if _has_no_claims(view, record):
        return None
    names = {claim_name(record, each["claim"]): bool(each.get("volume")) for each in disks_of(record)}
    return _remove(PVC, view.claims, names, record)


def _device_claims(view: View, record: Object) -> Step | None:
    if _has_no_claims(view, record):
        return None
    names = {claim_name(record, each["claim"]): False for each in devices_of(record)}
    return _remove(RESOURCE_CLAIM, view.device_claims, names, record)


def _has_no_claims(view: View, record: Object) -> bool:
    """Claims were made for the pod of an app's berth. A claim that the berth was made for is somebody else's; those of
    a lost node are gone already (lost.py), and one of their names is the next berth's."""
    return claims.claim_of(record) is not None or view.loss is not None


def _volumes(view: View, record: Object) -> Step | None:
    names = {volume_of(record, each): bool(each.get("volume")) for each in disks_of(record)}
    return _remove(PV, view.volumes, names, record)


def _remove(resource: Resource, things: Objects, names: Mapping[str, bool], record: Object) -> Step | None:
    """All are asked to go before one of them is waited for. ``names``: with whether it was there before berth."""
    ours = [things[name] for name, before in names.items() if name in things and _of(things[name], record, before)]
    for thing in ours:
        if not going(thing):
            return Write(REMOVE, resource, dict(thing), f"{_title(resource, thing)} of a berth that is given up")
    if not ours:
        return None
    text = f"waits for the finalizers of {_title(resource, ours[0])}"
    return Wait(f"{resource.kind}Going", text, on=Ref.of(resource, ours[0]))


def _of(thing: Object, record: Object, before: bool) -> bool:
    """Made for this very berth, or by a StatefulSet's controller, which writes no uid. What was there ``before`` berth
    is the berth's by its mark alone: without it, somebody else goes on to use it."""
    uid = (thing["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION)
    return uid == record["metadata"]["uid"] or (uid is None and not before)


def _devices(view: View, record: Object) -> Step | None:
    for device in _there(view.devices, reversed(devices_of(record))):
        unlocked = unlock_device(device, record["metadata"]["uid"])
        if unlocked is not None:
            return Write(REPLACE, LOCAL_DEVICE, unlocked, f"{_title(LOCAL_DEVICE, device)} is given up")
    return None


def _disks(view: View, record: Object) -> Step | None:
    """The lock goes with the wipe request, or with the word whose data is kept, in one write."""
    uid, outcome = record["metadata"]["uid"], (record.get("status") or {}).get("release", states.RETAIN)
    for disk in _there(view.disks, reversed(disks_of(record))):
        keep = outcome != states.NOTHING or bool(evidence.on_disk(disk, uid))
        unlocked = unlock_disk(disk, uid, keep_data=keep)
        if unlocked is not None:
            return Write(REPLACE, LOCAL_DISK, *_given_up(view, record, disk, unlocked, outcome))
    return None


def _told_phases(view: View, record: Object) -> Step | None:
    for disk in () if view.quiet else _there(view.disks, disks_of(record)):
        step = told_phase(disk)
        if step is not None and not disk["spec"].get("claimRef"):
            return step
    return None


def _given_up(
    view: View, record: Object, disk: Object, unlocked: dict[str, Any], outcome: str
) -> tuple[dict[str, Any], str]:
    name, unlocked = _title(LOCAL_DISK, disk), history.carried(unlocked, record)
    # The disk's own word once more: it may have become careful since the outcome was written down.
    careful = claim_manifests.reclaim_policy(claim_manifests.DELETE, disk) != claim_manifests.DELETE
    if outcome == states.WIPE and claims.claim_of(record) is not None and not careful:
        unlocked["spec"]["wipe"] = claim_manifests.wipe_request(disk, record["metadata"]["uid"], view.key)
        return unlocked, f"{name}: a wipe is asked for (reclaim policy Delete)"
    if way_out.begun(record):
        return way_out.kept_for_volume(record, unlocked), f"{name} is held by nobody; its volume goes on to use it"
    kept = "its data is kept" if "retainedFor" in unlocked["spec"] else "nothing was written to it"
    return unlocked, f"{name} is given up; {kept}"


def told_phase(disk: Object) -> Write | None:
    """The phase that follows from spec and observation, where the disk does not say it: until its agent's next word."""
    status = disk.get("status") or {}
    phase = disk_phase(disk["spec"], status.get("observed"))
    if status.get("phase") == phase:
        return None
    body = {**copy.deepcopy(dict(disk)), "status": {**status, "phase": phase}}
    return Write(STATUS, LOCAL_DISK, body, f"{_title(LOCAL_DISK, disk)} is {phase}")


def _berth(_view: View, record: Object) -> Step:
    """Ask the Berth to go, then take berth's finalizer off: the last of all writes."""
    meta, why = record["metadata"], "nothing is held for it any more"
    if not going(record):
        return Write(REMOVE, BERTH, dict(record), why)
    if claims.FINALIZER not in (meta.get("finalizers") or ()):
        return Wait("BerthGoing", "waits for the finalizers of the Berth", on=Ref.of(BERTH, record))
    changed = copy.deepcopy(dict(record))
    changed["metadata"]["finalizers"] = [one for one in meta["finalizers"] if one != claims.FINALIZER]
    return Write(REPLACE, BERTH, changed, why)


#: How each write of the ways back is made; None: it has been.
_UNDO: Mapping[tuple[str, str], Callable[[View, Object], Step | None]] = {
    ("delete", "PersistentVolumeClaim"): _claims,
    ("delete", "ResourceClaim"): _device_claims,
    ("delete", "PersistentVolume"): _volumes,
    ("untie", "PersistentVolumeClaim"): way_out.untie_claims,
    ("untie", "PersistentVolume"): way_out.untie_volumes,
    ("unlock", "LocalDevice"): _devices,
    ("unlock", "LocalDisk"): _disks,
    ("record", "LocalDisk status"): _told_phases,
    ("delete", "Berth"): _berth,
}


def _there(things: Mapping[str, Object], entries: Iterable[Mapping[str, Any]]) -> list[Object]:
    return [things[each["name"]] for each in entries if each["name"] in things]


def _volume_names(record: Object) -> list[str]:
    return [volume_of(record, each) for each in disks_of(record)]


def _title(resource: Resource, thing: Object) -> str:
    return f"{resource.kind} {thing['metadata']['name']}"
