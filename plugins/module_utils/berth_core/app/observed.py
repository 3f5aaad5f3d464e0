# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server says of one application, and how far each of its berths has come.

The phase is derived from the objects themselves; the one recorded in a Berth's status is for people and for order,
never believed: a process may have died before it could write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..lifecycle import states
from ..lifecycle.locks import BERTH_ANNOTATION, holds_device, holds_disk
from ..lifecycle.view import claim_name, recorded
from ..lifecycle.view import going as _going
from .manifests import volume_of
from .wanted import ORDINAL_LABEL, STATEFUL_SET

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Observed:
    """One application's objects. ``disks`` and ``devices``: by name, those that name this app in a lock. ``pods`` by
    name."""

    name: str
    namespace: str
    berths: Mapping[int, Object] = field(default_factory=dict)
    disks: Mapping[str, Object] = field(default_factory=dict)
    devices: Mapping[str, Object] = field(default_factory=dict)
    volumes: Mapping[str, Object] = field(default_factory=dict)
    claims: Mapping[str, Object] = field(default_factory=dict)
    pods: Mapping[str, Object] = field(default_factory=dict)
    stateful_set: Object | None = None
    service: Object | None = None
    #: ResourceClaims by name; read only where the app or its berths have devices
    device_claims: Mapping[str, Object] = field(default_factory=dict)
    #: by (kind, name): other Services, and ConfigMaps, of the app's manifest
    beside: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    #: helper pods of an update (app.helper_pods), by name
    helpers: Mapping[str, Object] = field(default_factory=dict)
    #: objects that stand where berth's would, and are somebody else's
    foreign: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Nothing of the app is there."""
        return not (
            self.berths
            or self.disks
            or self.devices
            or self.volumes
            or self.claims
            or self.device_claims
            or self.pods
            or self.helpers
            or self.stateful_set
            or self.service
            or self.beside
        )

    def pod(self, ordinal: int) -> Object | None:
        return self.pods.get(f"{self.name}-{ordinal}")

    def stale_disks(self) -> list[Object]:
        """Held in this app's name by a berth that is gone: the berth is always deleted last, so nobody is coming
        back for them."""
        alive = {record["metadata"]["uid"] for record in self.berths.values()}
        return [disk for disk in self.disks.values() if disk["spec"]["claimRef"]["uid"] not in alive]

    def stale_devices(self) -> list[tuple[Object, str]]:
        """(device, uid of the berth that is gone) likewise, for berths of this app's names."""
        alive = {record["metadata"]["uid"] for record in self.berths.values()}
        return [
            (device, ref["uid"])
            for device in self.devices.values()
            for ref in device["spec"].get("claimRefs") or ()
            if self.owns(ref) and ref["uid"] not in alive
        ]

    def stale_claims(self) -> tuple[list[Object], list[Object]]:
        """(claims, volumes) that were made for a berth that is gone, of ordinals without a pod. They hold no data
        themselves. They were read before the berths: what was made for a new one is not taken for stale."""
        alive = {record["metadata"]["uid"] for record in self.berths.values()}

        def stale(thing: Object) -> bool:
            meta = thing["metadata"]
            uid = (meta.get("annotations") or {}).get(BERTH_ANNOTATION)
            ordinal = (meta.get("labels") or {}).get(ORDINAL_LABEL, "")
            used = f"{self.name}-{ordinal}" in self.pods
            return uid is not None and uid not in alive and not used and not _going(thing)

        return [one for one in self.claims.values() if stale(one)], [one for one in self.volumes.values() if stale(one)]

    def owns(self, ref: Mapping[str, Any]) -> bool:
        """Whether a lock's holder is a berth of this app."""
        stem, _dash, ordinal = str(ref["name"]).rpartition("-")
        return ref["namespace"] == self.namespace and stem == self.name and ordinal.isdigit()


def with_locks(seen: Observed, disks: Mapping[str, Object], devices: Mapping[str, Object]) -> Observed:
    """What was seen, with the locks as who gives up berths has left them: a disk may be the next berth's at once."""
    held = {name: disks[name] for name in seen.disks if name in disks and disks[name]["spec"].get("claimRef")}
    shared = {
        name: devices[name] for name in seen.devices if name in devices and devices[name]["spec"].get("claimRefs")
    }
    return replace(seen, disks=held, devices=shared)


def selector_of(observed: Observed) -> Mapping[str, str]:
    """The labels by which the app's StatefulSet finds its pods; one that was there before berth has its own."""
    found: Mapping[str, str] = (((observed.stateful_set or {}).get("spec") or {}).get("selector") or {}).get(
        "matchLabels"
    ) or {}
    return found


def device_claim_stands(record: Object, name: str, observed: Observed) -> bool:
    """Whether the ResourceClaim ``name`` is there for this very berth."""
    claim = observed.device_claims.get(name)
    if claim is None or _going(claim):
        return False
    return bool((claim["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION) == record["metadata"]["uid"])


def locked(record: Object, observed: Observed) -> bool:
    """Whether every disk and device that the berth names carries its lock."""
    uid, spec = record["metadata"]["uid"], record["spec"]
    disks = all(_held(observed.disks.get(disk["name"]), uid) for disk in spec.get("disks") or ())
    devices = (observed.devices.get(device["name"]) for device in spec.get("devices") or ())
    return disks and all(device is not None and holds_device(device, uid) for device in devices)


def _held(disk: Object | None, uid: str) -> bool:
    return disk is not None and holds_disk(disk, uid)


def bound(record: Object, observed: Observed) -> bool:
    """Whether every disk of the berth has its volume and its claim."""
    meta, spec = record["metadata"], record["spec"]
    for disk in spec.get("disks") or ():
        volume = observed.volumes.get(volume_of(record, disk))
        claim = observed.claims.get(claim_name(record, disk["claim"]))
        if volume is None or claim is None or _going(volume) or _going(claim):
            return False
        if (claim["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION) != meta["uid"]:
            return False
    return True


def created(record: Object, observed: Observed, workload: str) -> bool:
    """Whether the workload has been told of this ordinal (StatefulSet), or the pod is there (Pod)."""
    ordinal = record["spec"]["ordinal"]
    if workload == STATEFUL_SET:
        return observed.stateful_set is not None and int(observed.stateful_set["spec"].get("replicas", 1)) > int(
            ordinal
        )
    pod = observed.pod(ordinal)
    return pod is not None and not _going(pod)


def ready(pod: Object | None) -> bool:
    """The pod's Ready condition."""
    if pod is None or _going(pod):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def ended(pod: Object | None) -> str:
    """How a pod has ended, with the reason that the cluster gives; empty for one that has not."""
    status = (pod or {}).get("status") or {}
    if status.get("phase") not in ("Failed", "Succeeded"):
        return ""
    told = ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
    return f"{status['phase']} ({told})" if told else str(status["phase"])


def unscheduled(pod: Object) -> str:
    """Why a pod has no node, in the words of its scheduler; empty for one that has, or was not looked at."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return str(one.get("message") or one.get("reason") or "no reason is given")
    return ""


def phase(ordinal: int, observed: Observed, workload: str) -> str:
    """How far the berth of this ordinal has come, from what is there."""
    record = observed.berths.get(ordinal)
    if record is None:
        return states.ABSENT
    if recorded(record) in (states.REPLACING, states.RELEASING):
        return recorded(record)
    if not locked(record, observed):
        return states.SELECTED
    if recorded(record) == states.SELECTED:
        return states.SELECTED  # all locks are held, but that it may count (node room) was not yet decided
    if not bound(record, observed):
        return states.RESERVED
    if not created(record, observed, workload):
        return states.BOUND
    return states.RUNNING if ready(observed.pod(ordinal)) else states.CREATED
