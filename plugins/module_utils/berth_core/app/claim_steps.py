# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a claim and what is there of it to the next write: one at a time, so that any of them may be the last.

Called by the controller, which carries a step out, puts the answer into the view and asks again, until there is nothing
to write. The steps are those of the state table (states.py): select, reserve, prebind, and back: unreserve, forget.

Four writes make a claim, and each is needed: the Berth, whose uid the lock carries; the lock; Reserved, the fence
between a disk that is given up without a trace and one that may carry data; the volume. There the Berth rests: that
Kubernetes has bound the claim, the claim says itself.
Nothing is remembered between two questions but what the API server says. Never reads, never writes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

from ..errors import LockError, StateError
from ..model.disk import Condition, LocalDisk, condition_of
from ..model.resources import BERTH, LOCAL_DISK, PV, Resource
from . import claim_manifests, claims, states
from .claim_disks import unfit
from .claims import Asked
from .fsid import DEFAULT_MOUNT_ROOT
from .lock import holds_disk, lock_disk, unlock_disk
from .observed import recorded

Object = Mapping[str, Any]

CREATE, REPLACE, STATUS, REMOVE = "create", "replace", "status", "delete"


class Write(NamedTuple):
    """One request. ``body`` of a delete is the object that is meant: its uid is the precondition.

    ``status`` and ``replace`` are compare-and-swaps on the body's resourceVersion. ``why`` is for people.
    """

    do: str
    resource: Resource
    body: dict[str, Any]
    why: str


class Choose(NamedTuple):
    """A disk has to be chosen; ask again with ``View.chosen``."""


class Wait(NamedTuple):
    """Nothing to write until something changes; without a reason, all is done. ``warn``: a person may have to act."""

    reason: str = ""
    message: str = ""
    warn: bool = False


DONE = Wait()
Step = Union[Write, Choose, Wait]


@dataclass(frozen=True)
class View:
    """What is there of one claim. ``asked`` is None when the claim is gone for certain (asked for live, by uid).

    ``disk`` and ``volume`` are those that the berth names; None: not there. ``hostname`` is that of the berth's node;
    None: the node is gone. ``own``: an earlier claim of this name has left its data, so no scheduler needs to be waited
    for. ``chosen``: the LocalDisk that was chosen. ``lost``: why the claim, which is there, cannot be read (no class).
    """

    key: str
    asked: Asked | None
    berth: Object | None = None
    disk: Object | None = None
    volume: Object | None = None
    hostname: str | None = None
    own: bool = False
    chosen: LocalDisk | None = None
    lost: str = ""
    mount_root: str = DEFAULT_MOUNT_ROOT


def next_step(view: View) -> Step:
    """What has to be done next for this claim."""
    if view.lost:
        return Wait("ClassGone", view.lost, True)
    if view.asked is None:
        return _release(view, view.berth) if view.berth is not None else DONE
    if view.berth is None:
        return _begin(view, view.asked)
    if view.berth["metadata"].get("deletionTimestamp"):
        if recorded(view.berth) == states.SELECTED:
            return _give_up(view, view.berth)
        text = "its Berth is asked to go while the claim is there: nothing is given up before the claim is deleted"
        return Wait("BerthDeleted", text, True)
    if recorded(view.berth) == states.SELECTED:
        return _reserve(view, view.asked, view.berth)
    return _bind(view, view.asked, view.berth)


def take_back(record: Object | None, disk: Object | None, now: Object | None) -> Write | None:
    """The lock on ``disk`` that was taken for ``record``, which went meanwhile without having been Reserved; or None.

    ``now``: the Berth of that name as it is. Who let the Berth go has not seen the lock, so nobody else gives it up;
    the version of the disk is that of the lock, so a disk that was touched since is left alone. A volume of that Berth
    says that it was Reserved after all: whoever carries this out looks for it.
    """
    if record is None or disk is None or recorded(record) != states.SELECTED:
        return None
    uid, name = record["metadata"]["uid"], disk["metadata"]["name"]
    unlocked = unlock_disk(disk, uid, keep_data=False)
    if unlocked is None or (now is not None and now["metadata"]["uid"] == uid):
        return None
    return Write(REPLACE, LOCAL_DISK, unlocked, f"the lock on LocalDisk {name} is given up: its Berth is gone")


def _begin(view: View, asked: Asked) -> Step:
    """Absent -> Selected."""
    claim = asked.claim
    if claim.volume_name or claim.terminating:
        return DONE  # bound by somebody else, or about to go
    if asked.unsupported:
        return Wait("Unsupported", asked.unsupported, True)
    if not asked.due and not view.own:
        return Wait("WaitForFirstConsumer", "waits for a scheduler to choose the node of the first pod that uses it")
    if view.chosen is None:
        return Choose()
    body = claim_manifests.berth(asked, view.chosen.name, view.chosen.node_name)
    return Write(CREATE, BERTH, body, f"LocalDisk {view.chosen.name} on node {view.chosen.node_name} is chosen")


def _reserve(view: View, asked: Asked, record: Object) -> Step:
    """Selected -> Reserved, or the choice is given up and made again."""
    claim, name = asked.claim, _disk_name(record)
    if claim.volume_name or claim.terminating or _moved(view, asked, record):
        return _give_up(view, record)
    if view.disk is None or (not _held(view, record) and _unusable(asked, view.disk)):
        return _give_up(view, record)
    holder = claims.holder(claim.namespace, claim.name, claim.uid, record["metadata"]["uid"])
    try:
        locked = lock_disk(view.disk, holder)
    except LockError:
        return _give_up(view, record)
    if locked is not None:
        return Write(REPLACE, LOCAL_DISK, locked, f"LocalDisk {name} is locked")
    return _record(record, states.RESERVED)


def _moved(view: View, asked: Asked, record: Object) -> bool:
    """Whether the scheduler has changed its mind since the choice was written down; the data of a claim never moves."""
    held = view.disk["spec"].get("claimRef") if view.disk is not None and _held(view, record) else None
    own = view.own or (held is not None and held["dataUID"] != held["uid"])
    return asked.storage_class.waits and not own and asked.node != record["spec"]["nodeName"]


def _unusable(asked: Asked, disk: Object) -> bool:
    """Asked again right before the lock: the disk may have changed, and anybody may have written the Berth."""
    seen = LocalDisk.from_object(disk)
    return condition_of(seen) != Condition.GOOD or bool(unfit(asked, seen))


def _give_up(view: View, record: Object) -> Step:
    """A choice that was never Reserved leaves no trace: nobody has written to its disk.

    The Berth is asked to go before its lock is given up: of this write and that of Reserved, both on the same version,
    one is refused. So nobody makes a volume over a disk that another one of us is giving up.
    """
    name, unlocked = _disk_name(record), None
    if view.disk is not None and record["metadata"].get("deletionTimestamp"):
        unlocked = unlock_disk(view.disk, record["metadata"]["uid"], keep_data=recorded(record) != states.SELECTED)
    if unlocked is not None:
        return Write(REPLACE, LOCAL_DISK, unlocked, f"the lock on LocalDisk {name} is given up")
    return _forget(record, f"LocalDisk {name} cannot be had; another one is chosen")


def _bind(view: View, asked: Asked, record: Object) -> Step:
    """The volume of a Reserved claim. A choice that was Reserved is final: the disk may carry data from now on."""
    claim, name = asked.claim, _disk_name(record)
    if view.disk is None:
        return Wait("DiskGone", f"LocalDisk {name} is gone; it held this claim's data", True)
    if not _held(view, record):
        who = view.disk["spec"].get("claimRef")
        holder = f"held by {who['namespace']}/{who['name']}" if who else "held by nobody"
        text = f"LocalDisk {name} is {holder}, and this claim was given it: find out who took the lock away"
        return Wait("LockLost", text, True)
    if view.volume is None:
        return _make_volume(view, asked, record, view.disk)
    ref, meta = view.volume["spec"].get("claimRef") or {}, view.volume["metadata"]
    if ref.get("uid") not in (claim.uid, None):
        return Wait("VolumeTaken", f"PersistentVolume {meta['name']} is tied to another claim", True)
    if claim.volume_name and claim.volume_name != meta["name"]:
        return Wait("BoundElsewhere", f"the claim is bound to PersistentVolume {claim.volume_name}", True)
    if claim.phase == "Bound" and claim.volume_name:
        return DONE  # the claim says so itself: no record repeats it
    return Wait("Binding", f"PersistentVolume {meta['name']} is there; Kubernetes binds the claim to it")


def _make_volume(view: View, asked: Asked, record: Object, disk: Object) -> Step:
    """Also where somebody has deleted it under its claim: the same name over the same lock mends the claim."""
    node, name = record["spec"]["nodeName"], _disk_name(record)
    if view.hostname is None:
        return Wait("NodeGone", f"node {node} is gone, and LocalDisk {name} with it", True)
    condition = condition_of(LocalDisk.from_object(disk))
    if condition in (Condition.FAULTED, Condition.MISSING, Condition.UNHEALTHY) and not asked.claim.volume_name:
        return Wait("DiskNotUsable", f"LocalDisk {name} is {condition.name.lower()}; waits for it to come back", True)
    try:
        body = claim_manifests.volume(asked, record, disk, view.hostname, view.mount_root)
    except StateError as exc:
        return Wait("NoStableLink", exc.message, True)
    return Write(CREATE, PV, body, f"PersistentVolume over LocalDisk {name}")


def _release(view: View, record: Object) -> Step:
    """The claim is gone: its lock, its volume, its Berth, in this order.

    The lock goes with the wipe request or with the word whose data is kept, in one write; until the volume is gone it
    tells which of the two was asked for, and the Berth goes last.
    """
    uid = record["metadata"]["uid"]
    if view.disk is not None and holds_disk(view.disk, uid):
        return _unlock(view, record, view.disk)
    if view.volume is not None:
        if view.volume["metadata"].get("deletionTimestamp"):
            return Wait("VolumeGoing", "waits for the finalizers of the PersistentVolume")
        return Write(REMOVE, PV, dict(view.volume), "the PersistentVolume of a claim that is gone")
    return _forget(record, "the claim is gone, and nothing is held for it")


def _unlock(view: View, record: Object, disk: Object) -> Step:
    written = recorded(record) != states.SELECTED
    freed = unlock_disk(disk, record["metadata"]["uid"], keep_data=written)
    if freed is None:
        raise AssertionError("the caller has seen the lock")
    name, policy = _disk_name(record), _policy(view, disk)
    if written and policy == claim_manifests.DELETE:
        freed["spec"]["wipe"] = claim_manifests.wipe_request(disk, record["metadata"]["uid"], view.key)
        return Write(REPLACE, LOCAL_DISK, freed, f"LocalDisk {name}: a wipe is asked for (reclaim policy Delete)")
    kept = "its data is kept (reclaim policy Retain)" if written else "nothing was written to it"
    return Write(REPLACE, LOCAL_DISK, freed, f"LocalDisk {name} is given up; {kept}")


def _policy(view: View, disk: Object) -> str:
    """What the volume says now; a volume that is gone cannot ask for a wipe."""
    if view.volume is None:
        return claim_manifests.RETAIN
    return claim_manifests.reclaim_policy(str(view.volume["spec"].get("persistentVolumeReclaimPolicy")), disk)


def _forget(record: Object, why: str) -> Step:
    """Ask the Berth to go, then take our finalizer off: the last of all writes."""
    meta = record["metadata"]
    if not meta.get("deletionTimestamp"):
        return Write(REMOVE, BERTH, dict(record), why)
    if claims.FINALIZER not in (meta.get("finalizers") or ()):
        return Wait("BerthGoing", "waits for the finalizers of the Berth")
    changed = copy.deepcopy(dict(record))
    changed["metadata"]["finalizers"] = [one for one in meta["finalizers"] if one != claims.FINALIZER]
    return Write(REPLACE, BERTH, changed, why)


def _record(record: Object, phase: str) -> Step:
    changed = copy.deepcopy(dict(record))
    changed["status"] = {**(record.get("status") or {}), "phase": phase}
    return Write(STATUS, BERTH, changed, f"phase {phase}")


def _held(view: View, record: Object) -> bool:
    return view.disk is not None and holds_disk(view.disk, record["metadata"]["uid"])


def _disk_name(record: Object) -> str:
    """A Berth of ours has one disk."""
    disks = record["spec"].get("disks") or [{"name": ""}]
    return str(disks[0]["name"])
