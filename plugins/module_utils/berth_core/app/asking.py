# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a pod to what the engine is asked: its claims of berth's classes as local disks, and its own berth.

Called by the scheduler once for each attempt, as all of it may have changed since the last one; by its extender, the
simulation and placement_info, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ..cluster.disks import Owner
from ..cluster.snapshot import Snapshot
from ..errors import BerthError
from ..model import resources as kinds
from ..model.berth import BerthRecord
from ..model.placement import DiskClaim, Holder, PlacementRequest
from ..model.pod import ClaimVolume, PodInfo
from ..model.resources import Resource
from . import claims
from .claims import Asked


class Known(Protocol):
    """Where the objects are: the daemon's caches, the file of a simulation, the lists of a module."""

    @property
    def snapshot(self) -> Snapshot:
        """What the engine sees of them."""

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """One object as the API gives it, None if it is not there."""


class Ask(NamedTuple):
    """One attempt. ``berth``: the pod's own, whose node is the only one looked at. ``problem``: why nothing is asked.

    ``claims``: by the volume's name, what each claim that a local disk will fill asks for.
    """

    request: PlacementRequest
    claims: dict[str, Asked]
    berth: BerthRecord | None = None
    problem: str = ""


def ask(cluster: Known, pod: PodInfo) -> Ask:
    """What is asked for a pod. Its own Berth has the pod's name."""
    berth = own_berth(cluster.snapshot, pod)
    holder = Holder(berth.namespace, berth.app, berth.ordinal) if berth is not None else None
    found: dict[str, Asked] = {}
    problem = ""
    for volume in pod.volumes:
        try:
            asked = _asked(cluster, pod, volume)
        except BerthError as exc:
            problem = exc.message
            continue
        if asked is None or any(one.claim == asked.claim for one in found.values()):
            continue
        if asked.unsupported:
            problem = f'persistentvolumeclaim "{asked.claim.name}": {asked.unsupported}'
        found[volume.volume] = asked
    disks = tuple(_disk_claim(volume, asked) for volume, asked in found.items())
    return Ask(PlacementRequest(pod, disks, holder=holder), found, berth, problem)


def own_berth(snapshot: Snapshot, pod: PodInfo) -> BerthRecord | None:
    """The Berth that is kept for this very pod."""
    found = snapshot.berths.get((pod.namespace, pod.name))
    if found is None or found.terminating or not found.node_name:
        return None
    return found if found.pod_name in ("", pod.name) else None


def owner_of(asked: Asked) -> Owner:
    """Who the lock on a claim's disk names: its namespace, app, ordinal and claim."""
    claim = asked.claim
    return (claim.namespace, claims.app_name(claim.name), 0, claims.volume_label(claim.name))


def _asked(cluster: Known, pod: PodInfo, volume: ClaimVolume) -> Asked | None:
    """The claim, where it waits for a disk. All others, and those with a problem, are VolumeBinding's."""
    info = cluster.snapshot.volumes.claims.get((pod.namespace, volume.claim))
    if info is None or info.volume_name or info.terminating or info.phase == "Lost":
        return None
    if volume.ephemeral and info.owner_uid != pod.uid:
        return None
    claim = cluster.get(kinds.PVC, volume.claim, pod.namespace)
    storage_class = cluster.get(kinds.STORAGE_CLASS, info.storage_class)
    if claim is None or storage_class is None or not claims.ours(storage_class):
        return None
    asked = claims.parse(claim, storage_class)
    return asked if asked.storage_class.waits else None


def _disk_claim(volume: str, asked: Asked) -> DiskClaim:
    claim = asked.claim
    return DiskClaim(
        name=volume,
        size_bytes=claim.request,
        storage_class=claim.storage_class,
        volume_mode=claim.volume_mode,
        selector=claim.selector,
        owner=owner_of(asked),
        pod_uid=claim.pod_uid,
    )
