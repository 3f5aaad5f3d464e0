# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VolumeBinding: a bound claim keeps the pod at its volume; one that waits gets the smallest volume of the node.

Made for local volumes. Claims that the request's local disks are going to fill are not looked at: their volumes do
not exist yet. Volumes made on demand are taken to fit where the class's topology allows; capacity that a CSI driver
reports is not looked at.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import BoolColumn, IntColumn, bools, ints, np
from ..cluster.snapshot import Snapshot
from ..framework.contract import (
    ALL_NODES,
    MUCH_MORE,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    SUCCESS,
    Choice,
    Dirt,
    Narrowing,
    Source,
    Status,
    Verdict,
    unresolvable,
)
from ..framework.state import Cycle
from ..model.pod import ClaimVolume
from ..model.volume import ClaimInfo, VolumeInfo
from .claims import claim_not_found, claim_volumes
from .rows import all_match

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_REASONS = (NODE_CONFLICT, BIND_CONFLICT, NO_VOLUME)
_NODE_CONFLICT, _BIND_CONFLICT, _NO_VOLUME = 1, 2, 4


@dataclass(frozen=True)
class VolumeBinding:
    """Filter on PersistentVolumeClaims, and choose volumes for those that wait."""

    name: str = "VolumeBinding"
    filter_dirt: Dirt = Dirt.ROW

    def _claims(self, cycle: Cycle) -> list[ClaimInfo]:
        known = cycle.snapshot.volumes.claims
        return [known[cycle.request.pod.namespace, one.claim] for one in claim_volumes(cycle.request)]

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod without claims.

        Refuse one whose claims are missing, lost, going away, or unbound and not waiting.
        """
        volumes = claim_volumes(cycle.request)
        if not volumes:
            return NOTHING_TO_FILTER
        for one in volumes:
            problem = _problem(cycle, one)
            if problem:
                return Narrowing(unresolvable(problem))
        if any(not claim.bound and not _waits(cycle.snapshot, claim) for claim in self._claims(cycle)):
            return Narrowing(unresolvable("pod has unbound immediate PersistentVolumeClaims"))
        return ALL_NODES

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing more for a pod without volumes."""
        return MUCH_MORE if cycle.request.pod.inline or claim_volumes(cycle.request) else ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the claims and the state of storage: any change to it makes all verdicts stale."""
        return (cycle.request.pod.namespace, tuple(claim_volumes(cycle.request)), cycle.snapshot.volume_generation)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows that a bound volume cannot be reached from, or that have no volume for a claim that waits."""
        claims = self._claims(cycle)
        failed = _judge_bound(cycle.snapshot, [one for one in claims if one.bound], rows)
        waiting = [one for one in claims if not one.bound]
        if waiting:
            match = _Matching(cycle.snapshot, waiting, rows)
            for position in range(len(rows)):
                if match.find(position) is None:
                    failed[position] |= _BIND_CONFLICT
        kinds, inverse = np.unique(failed, return_inverse=True)
        return Verdict(inverse.astype(np.int64) + 1, (SUCCESS, *(_status(int(kind)) for kind in kinds)))

    def reserve(self, cycle: Cycle, row: int) -> Choice:
        """Choose a volume for each claim that waits and is not to be provisioned."""
        if not claim_volumes(cycle.request):
            return Choice()
        waiting = [one for one in self._claims(cycle) if not one.bound]
        found = _Matching(cycle.snapshot, waiting, np.array([row], dtype=np.int64)).find(0)
        return Choice(volumes=found or {})


def _status(kind: int) -> Status:
    reasons = [reason for bit, reason in enumerate(_REASONS) if kind >> bit & 1]
    return unresolvable(*reasons) if reasons else SUCCESS


def _problem(cycle: Cycle, volume: ClaimVolume) -> str:
    pod = cycle.request.pod
    claim = cycle.snapshot.volumes.claims.get((pod.namespace, volume.claim))
    if claim is None and volume.ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{volume.claim}"'
    if claim is None:
        return claim_not_found(volume.claim)
    if claim.phase == "Lost":
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume_name}"'
    if claim.terminating:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if volume.ephemeral and claim.owner_uid != pod.uid:
        where = f"{claim.namespace}/{claim.name}"
        return f"PVC {where} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
    return ""


def _waits(snapshot: Snapshot, claim: ClaimInfo) -> bool:
    """Tell whether binding waits for the pod. A claim that names its volume was meant to be bound already."""
    storage_class = snapshot.volumes.classes.get(claim.storage_class)
    return bool(claim.storage_class) and storage_class is not None and storage_class.waits and not claim.volume_name


def _reachable(snapshot: Snapshot, volume: VolumeInfo, rows: IntColumn) -> BoolColumn:
    """Return the rows from which a volume can be reached, by node labels alone."""
    if volume.affinity is None:
        return bools(len(rows), True)
    found = bools(len(rows))
    for term in volume.affinity.terms:
        if not term.problem:
            found |= all_match(snapshot, term.expressions, rows)
    return found


def _judge_bound(snapshot: Snapshot, claims: list[ClaimInfo], rows: IntColumn) -> IntColumn:
    """Return per row what the first bound claim that fails there fails by."""
    failed = ints(len(rows))
    for claim in claims:
        volume = snapshot.volumes.volumes.get(claim.volume_name)
        found = ints(len(rows), _NO_VOLUME)
        if volume is not None:
            found = np.where(_reachable(snapshot, volume, rows), 0, _NODE_CONFLICT)
        failed = np.where(failed == 0, found, failed).astype(np.int64)
    return failed


class _Matching:
    """Volumes for claims that wait: which could be used is found once, which are used is found per row."""

    def __init__(self, snapshot: Snapshot, claims: list[ClaimInfo], rows: IntColumn) -> None:
        self._snapshot, self._rows = snapshot, rows
        # The smallest claim chooses first, so that a large volume is left for the large claim.
        self._claims = sorted((one for one in claims if one.selected_node is None), key=lambda one: one.request)
        self._selected = [one for one in claims if one.selected_node is not None]
        self._candidates = {one: _candidates(snapshot, one) for one in self._claims}
        volumes = {volume for listed in self._candidates.values() for volume in listed}
        self._reach = {volume.name: _reachable(snapshot, volume, rows) for volume in volumes}

    def find(self, position: int) -> dict[str, str] | None:
        """Return claim -> volume for a row; claims to be provisioned there are not in it. None: the row will not do."""
        name = self._snapshot.nodes.names[int(self._rows[position])]
        if any(claim.selected_node != name for claim in self._selected):
            return None
        chosen: dict[str, str] = {}
        provision = list(self._selected)
        for claim in self._claims:
            volume = self._smallest(claim, position, set(chosen.values()))
            if volume is None:
                provision.append(claim)
            else:
                chosen[claim.name] = volume.name
        labels = self._snapshot.nodes.infos[int(self._rows[position])].labels
        for claim in provision:
            storage_class = self._snapshot.volumes.classes[claim.storage_class]
            if not storage_class.provisions or not storage_class.allows(labels):
                return None
        return chosen

    def _smallest(self, claim: ClaimInfo, position: int, taken: set[str]) -> VolumeInfo | None:
        free = [one for one in self._candidates[claim] if one.name not in taken]
        meant = [one for one in free if one.bound_to(claim)]
        if meant:
            # A volume that was bound to this claim beforehand: this one or none.
            return meant[0] if self._reach[meant[0].name][position] else None
        return next((one for one in free if self._reach[one.name][position]), None)


def _candidates(snapshot: Snapshot, claim: ClaimInfo) -> list[VolumeInfo]:
    """Return the volumes that could be bound to a claim on some node, smallest first, then by name."""
    found = []
    for volume in snapshot.volumes.of_class(claim.storage_class):
        other = volume.claim is not None and not volume.bound_to(claim)
        if other or volume.terminating or volume.capacity < claim.request or volume.volume_mode != claim.volume_mode:
            continue
        if volume.attributes_class != claim.attributes_class:
            continue
        if volume.bound_to(claim) or _available(volume, claim):
            found.append(volume)
    return sorted(found, key=lambda one: (one.capacity, one.name))


def _available(volume: VolumeInfo, claim: ClaimInfo) -> bool:
    if volume.phase != "Available" or not set(claim.access_modes) <= set(volume.access_modes):
        return False
    return claim.selector is None or claim.selector.matches(dict(volume.labels))
