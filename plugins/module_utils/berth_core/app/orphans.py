# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has lost the other half of itself: locks without a berth, volumes without a disk, berths without an app.

Called by the controller, which reports every finding, and carries out a repair only where the finding names one: a lock
turns into retained data, an object that stands for nothing goes. No repair
touches a byte of a disk, and none frees one. The rules are those of docs/guides/orphans.md.

The caller has read locks and volumes before berths: what a berth is missing for is then missing it for certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..lifecycle import states
from ..lifecycle.view import recorded
from ..model.over_disk import berth_uid, disk_of
from ..model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, PV, Resource
from .claims import claim_of, provisioned

Object = Mapping[str, Any]

LOCK_WITHOUT_BERTH = "LockWithoutBerth"
DEVICE_WITHOUT_BERTH = "DeviceLockWithoutBerth"
VOLUME_WITHOUT_DISK = "VolumeWithoutDisk"
VOLUME_WITHOUT_LOCK = "VolumeWithoutLock"
BERTH_WITHOUT_DISK = "BerthWithoutDisk"
BERTH_WITHOUT_APP = "BerthWithoutApp"
REASONS = (
    LOCK_WITHOUT_BERTH,
    DEVICE_WITHOUT_BERTH,
    VOLUME_WITHOUT_DISK,
    VOLUME_WITHOUT_LOCK,
    BERTH_WITHOUT_DISK,
    BERTH_WITHOUT_APP,
)
#: Repairs: the lock becomes `retainedFor`; the PersistentVolume object is deleted.
RETAIN, DELETE_VOLUME = "retain", "delete volume"


class Finding(NamedTuple):
    """One orphan. ``about`` is the object as it was read; ``repair`` is empty where a person has to decide."""

    reason: str
    resource: Resource
    about: Object
    message: str
    repair: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The same orphan in two looks has the same key."""
        meta = self.about["metadata"]
        return self.reason, str(meta.get("uid")), self.message


@dataclass(frozen=True)
class Holdings:
    """Everything that can be an orphan, and what it would belong to. ``workloads``: (namespace, name) of StatefulSets;
    ``pods``: (namespace, name)."""

    disks: Iterable[Object]
    devices: Iterable[Object]
    volumes: Iterable[Object]
    berths: Iterable[Object]
    workloads: frozenset[tuple[str, str]] = frozenset()
    pods: frozenset[tuple[str, str]] = frozenset()


def find(holdings: Holdings) -> list[Finding]:
    """Every orphan, in a stable order."""
    berths = {record["metadata"]["uid"]: record for record in holdings.berths}
    disks = {disk["metadata"]["name"]: disk for disk in holdings.disks}
    volumes = [one for one in holdings.volumes if berth_uid(one)]
    with_volume = {berth_uid(one) for one in volumes}
    found = [
        *(_lock(disk, berths, with_volume) for disk in disks.values()),
        *(_device(device, berths) for device in holdings.devices),
        *(_volume(one, disks, berths) for one in volumes),
        *(_berth(record, disks, holdings) for record in berths.values()),
    ]
    return sorted((one for one in found if one is not None), key=lambda one: one.key)


def _lock(disk: Object, berths: Mapping[str, Object], with_volume: set[str]) -> Finding | None:
    ref = disk["spec"].get("claimRef")
    if not ref or ref["uid"] in berths:
        return None
    who = f"Berth {ref['namespace']}/{ref['name']} (uid {ref['uid']})"
    text = f"held for {who}, which is gone"
    if ref["uid"] in with_volume:
        # Somebody may be using the volume: the lock is all that keeps the disk from others.
        return Finding(LOCK_WITHOUT_BERTH, LOCAL_DISK, disk, f"{text}, and its PersistentVolume is still there")
    return Finding(LOCK_WITHOUT_BERTH, LOCAL_DISK, disk, text, RETAIN)


def _device(device: Object, berths: Mapping[str, Object]) -> Finding | None:
    stale = [ref for ref in device["spec"].get("claimRefs") or () if ref["uid"] not in berths]
    if not stale:
        return None
    who = ", ".join(f"{ref['namespace']}/{ref['name']} ({ref['shares']} shares)" for ref in stale)
    return Finding(DEVICE_WITHOUT_BERTH, LOCAL_DEVICE, device, f"shares are held for berths that are gone: {who}")


def _volume(volume: Object, disks: Mapping[str, Object], berths: Mapping[str, Object]) -> Finding | None:
    uid, name = berth_uid(volume), volume["metadata"]["name"]
    disk = disks.get(disk_of(volume))
    if disk is None:
        text = f"PersistentVolume {name} stands for LocalDisk {disk_of(volume)}, which is gone"
        return Finding(VOLUME_WITHOUT_DISK, PV, volume, text)
    ref = disk["spec"].get("claimRef")
    claim = str((volume["spec"].get("claimRef") or {}).get("namespace") or "")
    if ref and ref["uid"] == uid and claim in ("", ref["namespace"]):
        return None
    holder = f"held by {ref['namespace']}/{ref['name']}" if ref else "held by nobody"
    whose = f" of namespace {claim}" if claim else ""
    text = f"PersistentVolume {name}{whose} stands for LocalDisk {disk['metadata']['name']}, which is {holder}"
    released = (volume.get("status") or {}).get("phase") == "Released" and uid not in berths
    return Finding(VOLUME_WITHOUT_LOCK, PV, volume, text, DELETE_VOLUME if released and provisioned(volume) else "")


def _berth(record: Object, disks: Mapping[str, Object], holdings: Holdings) -> Finding | None:
    spec = record["spec"]
    gone = sorted(disk["name"] for disk in spec.get("disks") or () if disk["name"] not in disks)
    if gone:
        return Finding(BERTH_WITHOUT_DISK, BERTH, record, f"LocalDisk {', '.join(gone)} is gone")
    if claim_of(record) is not None or not states.reached(recorded(record), states.CREATED):
        return None  # a claim's berth goes with its claim; an app that is being made has no workload yet
    namespace, name = record["metadata"]["namespace"], record["metadata"]["name"]
    if (namespace, spec["app"]) in holdings.workloads or (namespace, name) in holdings.pods:
        return None
    text = f"neither StatefulSet {namespace}/{spec['app']} nor pod {namespace}/{name} is there"
    return Finding(BERTH_WITHOUT_APP, BERTH, record, text)
