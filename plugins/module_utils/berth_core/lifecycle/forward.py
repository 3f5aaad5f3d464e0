# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way forward: locks, Reserved, volumes and claims, Bound. The same order for replicas and claims.

Called by next_step with a record that is there and is not being given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..app.compare import differences
from ..app.manifests import NAMESPACE_LABEL, replica_labels, volume_of
from ..app.wanted import APP_LABEL, MANAGED_LABEL
from ..errors import LockError
from ..model.resources import LOCAL_DEVICE, LOCAL_DISK, PV, PVC, RESOURCE_CLAIM, Resource
from . import left_volumes, states
from .back import release, told_phase
from .locks import BERTH_ANNOTATION, DISK_ANNOTATION, Holder, holds_disk, lock_device, lock_disk
from .owner import Owner
from .recording import record_phase
from .step import CREATE, PATCH, REMOVE, REPLACE, Look, Ref, Step, Wait, Write, first_due
from .view import Object, View, claim_name, devices_of, disks_of, going


def reserve(view: View, record: Object, owner: Owner) -> Step:
    """Selected -> Reserved: every lock, then the record; or the choice is given up and made again.

    The table's order stands in the code here: each disk's lock is followed by its phase before the next disk's, and a
    lock that is refused changes the way.
    """
    why = owner.withdrawn(view, record)
    if why:
        return release(view, record, why)
    try:
        step = lock_disks(view, record, owner) or _lock_devices(view, record, owner)
    except LockError as exc:
        return release(view, record, exc.message)
    if step is not None:
        return step
    if owner.waits_for_others():
        return Wait("Held", "its locks are taken; waits for those of the other replicas")
    return record_phase(record, states.RESERVED)


def prebind(view: View, record: Object, owner: Owner) -> Step | None:
    """Reserved -> Bound, but for the record, which the owner makes. A choice that was Reserved is final: its disks may
    carry data from now on. Of a berth that is further on, what is missing is made again."""
    return first_due(states.STEPS["prebind"].writes, _PREBIND, view, record, owner)


def _volumes(view: View, record: Object, owner: Owner) -> Step | None:
    steps = (_volume(view, record, owner, entry) for entry in disks_of(record))
    return next((step for step in steps if step is not None), None)


def _claims(view: View, record: Object, owner: Owner) -> Step | None:
    steps = (_claim(view, record, owner, entry) for entry in disks_of(record))
    return next((step for step in steps if step is not None), None)


def hold(view: View, record: Object, owner: Owner) -> Step | None:
    """Every lock that a Reserved berth is to have. One that is gone is taken again where the disk keeps this replica's
    data, or a device has its shares free; else nothing is done with the berth until somebody has looked."""
    for entry in disks_of(record):
        name, disk = entry["name"], view.disks.get(entry["name"])
        if disk is None:
            return Wait("DiskGone", f"LocalDisk {name} is gone; it held this claim's data", True)
        if not holds_disk(disk, record["metadata"]["uid"]):
            return _take_again(view, record, owner, entry, disk)
    for entry in devices_of(record):
        device = view.devices.get(entry["name"])
        if device is None:
            return Wait("LockLost", f"LocalDevice {entry['name']} is gone", True)
        try:
            step = _lock_device(device, record, owner, entry)
        except LockError as exc:
            return Wait("LockLost", f"{exc.message}, and this berth was given it", True)
        if step is not None:
            return step
    return None


def _take_again(view: View, record: Object, owner: Owner, entry: Mapping[str, Any], disk: Object) -> Step | None:
    if disk["spec"].get("retainedFor"):
        try:
            return _lock_disk(view, record, owner, entry)
        except LockError:
            pass
    ref = disk["spec"].get("claimRef")
    who = f"held by {ref['namespace']}/{ref['name']}" if ref else "held by nobody"
    text = f"LocalDisk {entry['name']} is {who}, and this claim was given it: find out who took the lock away"
    return Wait("LockLost", text, True)


def _lock_disk(view: View, record: Object, owner: Owner, entry: Mapping[str, Any]) -> Write | Look | None:
    """The lock of one disk, and the phase that follows; None where both are there. Raises LockError.

    The namespace is looked at first: its uid goes into the lock, and decides whose data may be taken.
    """
    name, uid = entry["name"], record["metadata"]["uid"]
    disk = view.disks.get(name)
    if disk is None:
        raise LockError(f"LocalDisk {name} is gone", disk=name)
    why = "" if holds_disk(disk, uid) else _unusable(view, record, owner, entry["claim"], disk)
    if why:
        raise LockError(f"LocalDisk {name} is {why}", disk=name)
    if not holds_disk(disk, uid) and view.tenant is None:
        return Look(str(record["metadata"]["namespace"]))
    locked = lock_disk(disk, _of_tenant(view, record, owner.holder(record, entry["claim"])))
    if locked is not None:
        return Write(REPLACE, LOCAL_DISK, locked, f"LocalDisk {name} is locked")
    return None if view.quiet else told_phase(disk)


def _unusable(view: View, record: Object, owner: Owner, claim: str, disk: Object) -> str:
    return owner.unusable(claim, disk) or left_volumes.over(view, record["metadata"]["uid"], disk)


def _of_tenant(view: View, record: Object, holder: Holder) -> Holder:
    if view.tenant is None:
        return holder  # has the lock already
    if not view.tenant.namespace_uid:
        raise LockError(f"namespace {record['metadata']['namespace']} is gone, and the Berth with it")
    return holder._replace(tenant=view.tenant._replace(pod_uid=holder.tenant.pod_uid))


def lock_disks(view: View, record: Object, owner: Owner) -> Write | Look | None:
    """The first lock that is missing, or the phase that follows. Raises LockError."""
    for entry in disks_of(record):
        step = _lock_disk(view, record, owner, entry)
        if step is not None:
            return step
    return None


def _lock_devices(view: View, record: Object, owner: Owner) -> Step | None:
    for entry in devices_of(record):
        device = view.devices.get(entry["name"])
        if device is None:
            raise LockError(f"LocalDevice {entry['name']} is gone", device=entry["name"])
        step = _lock_device(device, record, owner, entry)
        if step is not None:
            return step
    return None


def _lock_device(device: Object, record: Object, owner: Owner, entry: Mapping[str, Any]) -> Write | None:
    locked = lock_device(device, owner.holder(record, entry["claim"]), entry["shares"])
    if locked is None:
        return None
    return Write(REPLACE, LOCAL_DEVICE, locked, f"LocalDevice {entry['name']} is locked")


def _volume(view: View, record: Object, owner: Owner, entry: Mapping[str, Any]) -> Step | None:
    """Also where somebody has deleted it under its claim: the same name over the same lock mends the claim."""
    name, node = entry["name"], record["spec"]["nodeName"]
    disk, volume = view.disks[name], view.volumes.get(volume_of(record, entry))
    if volume is not None and going(volume):
        return waits(PV, volume)
    if volume is not None:
        return _adopted_volume(record, entry, disk, volume) or owner.check_volume(record, entry["claim"], disk, volume)
    if entry.get("volume"):
        return _volume_gone(record, entry)
    if view.hostname is None:
        return Wait("NodeGone", f"node {node} is gone, and LocalDisk {name} with it", True)
    left = left_volumes.waits(view, record["metadata"]["uid"], disk)
    if left is not None:
        return left
    body = owner.volume(record, entry["claim"], disk, view.hostname)
    return body if isinstance(body, Wait) else Write(CREATE, PV, body, f"PersistentVolume over LocalDisk {name}")


def _adopted_volume(record: Object, entry: Mapping[str, Any], disk: Object, volume: Object) -> Write | None:
    """The mark on a volume that was there before berth: of this very replica's claim, over the disk that keeps its data
    for that volume. Its disk is cleaned by nobody when it goes."""
    held = (disk["spec"].get("claimRef") or {}).get("volume")
    if not entry.get("volume") or held != entry["volume"] or BERTH_ANNOTATION in _notes(volume):
        return None
    meta, claim = record["metadata"], volume["spec"].get("claimRef") or {}
    if (claim.get("namespace"), claim.get("name")) != (meta["namespace"], claim_name(record, entry["claim"])):
        return None
    labels = {**replica_labels(record), NAMESPACE_LABEL: meta["namespace"]}
    notes = {BERTH_ANNOTATION: meta["uid"], DISK_ANNOTATION: entry["name"]}
    body = {
        "metadata": {**_seen(volume), "labels": labels, "annotations": notes},
        "spec": {"persistentVolumeReclaimPolicy": "Retain"},
    }
    return Write(PATCH, PV, body, f"PersistentVolume {volume['metadata']['name']} is this berth's from now on")


def _volume_gone(record: Object, entry: Mapping[str, Any]) -> Wait:
    name = record["metadata"]["name"]
    text = (
        f"PersistentVolume {entry['volume']} over LocalDisk {entry['name']} is gone. It was there before berth, and is "
        f"not made anew; the data is on the disk. Give the replica up, which keeps its data (scale down, or "
        f"release_ordinals), unmount the filesystem on node {record['spec']['nodeName']}, and make the replica "
        f"{name} again: it gets a volume of berth's own over the same data"
    )
    return Wait("VolumeGone", text, True)


def _claim(view: View, record: Object, owner: Owner, entry: Mapping[str, Any]) -> Step | None:
    """The claim that a StatefulSet would make, tied to its volume; none where the berth was made for a claim."""
    body = owner.claim(record, entry["claim"], view.disks[entry["name"]])
    if body is None:
        return None
    live = view.claims.get(body["metadata"]["name"])
    if live is None:
        return Write(CREATE, PVC, body, f"PersistentVolumeClaim over LocalDisk {entry['name']}")
    if going(live):
        return waits(PVC, live)
    tied = {"metadata": body["metadata"], "spec": {"volumeName": body["spec"]["volumeName"]}}
    if not differences(tied, live):
        return None
    if _made_anew(record, owner, entry, live):
        return Write(PATCH, PVC, _tie(body, live), "the claim that a StatefulSet made anew is tied to the new disk")
    if (
        entry.get("volume")
        and entry["volume"] == live["spec"].get("volumeName")
        and BERTH_ANNOTATION not in _notes(live)
    ):
        return Write(PATCH, PVC, _tie(body, live), "the claim is this berth's from now on")
    return differs(PVC, live, differences(body, live))


def _made_anew(record: Object, owner: Owner, entry: Mapping[str, Any], live: Object) -> bool:
    """Whether a StatefulSet's controller may have made this claim, while its disk was exchanged or because the berth
    before was given up under its pod; nothing else has it. Kubernetes binds it to the new volume, which names it, as
    soon as that is there."""
    exchanged = (record.get("status") or {}).get("replacing") or {}
    free = live["spec"].get("volumeName") in (None, "", volume_of(record, entry))
    free = free and not entry.get("volume")
    return free and (exchanged.get("claim") == entry["claim"] or _of_its_set(record, owner, live))


def _of_its_set(record: Object, owner: Owner, live: Object) -> bool:
    """Whether it has the labels that the app's StatefulSet gives its claims, and no berth's mark."""
    labels = live["metadata"].get("labels") or {}
    ours = (labels.get(APP_LABEL), labels.get(MANAGED_LABEL)) == (record["spec"]["app"], "berth")
    return (ours or owner.made_by_its_workload(live)) and BERTH_ANNOTATION not in _notes(live)


def _tie(body: Object, live: Object) -> dict[str, Any]:
    meta = {key: body["metadata"][key] for key in ("labels", "annotations")}
    return {"metadata": {**_seen(live), **meta}, "spec": {"volumeName": body["spec"]["volumeName"]}}


def _seen(live: Object) -> dict[str, Any]:
    """What makes a patch a compare-and-swap."""
    return {
        key: live["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion") if key in live["metadata"]
    }


def _notes(live: Object) -> Mapping[str, Any]:
    return live["metadata"].get("annotations") or {}


def _device_claim(view: View, record: Object, owner: Owner) -> Step | None:
    """One of an earlier berth of this name goes first: it holds no data."""
    for body in owner.device_claims(view, record):
        if isinstance(body, Wait):
            return body
        name, uid = body["metadata"]["name"], record["metadata"]["uid"]
        live = view.device_claims.get(name)
        if live is None:
            return Write(CREATE, RESOURCE_CLAIM, body, f"ResourceClaim {name} over the locked devices")
        if going(live):
            return waits(RESOURCE_CLAIM, live)
        if (live["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION) != uid:
            return Write(REMOVE, RESOURCE_CLAIM, dict(live), f"ResourceClaim {name} of an earlier berth")
        # admission fills in its spec; the berth's uid in the annotations tells whose it is
        wrong = differences({"metadata": body["metadata"]}, live)
        if wrong:
            return differs(RESOURCE_CLAIM, live, wrong)
    return None


#: How each write of the step is made; None: it has been.
_PREBIND: Mapping[tuple[str, str], Callable[[View, Object, Owner], Step | None]] = {
    ("create", "PersistentVolume"): _volumes,
    ("create", "PersistentVolumeClaim"): _claims,
    ("create", "ResourceClaim"): _device_claim,
}


def differs(resource: Resource, live: Object, wrong: list[str]) -> Wait:
    """Something stands in the way that is not berth's: it is never touched."""
    meta = live["metadata"]
    text = (
        f"{resource.describe(meta['name'], meta.get('namespace'))} is there already and is not what this berth needs "
        f"(it differs in {', '.join(wrong)}): delete it or give the app another name; its data was not touched"
    )
    return Wait("Differs", text, True)


def waits(resource: Resource, live: Object) -> Wait:
    """For something of berth's that was asked to go before it is made anew."""
    ref = Ref.of(resource, live)
    text = f"{resource.describe(ref.name, ref.namespace)} is being deleted and does not go; its finalizers hold it"
    return Wait(f"{resource.kind}Going", text, on=ref)
