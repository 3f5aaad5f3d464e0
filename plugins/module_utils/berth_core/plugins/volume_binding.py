# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VolumeBinding: a bound claim keeps the pod at its volume; one that waits gets the smallest volume of the node.

Made for local volumes. Claims that the request's local disks are going to fill are not looked at: their volumes do
not exist yet. Volumes made on demand are taken to fit where the class's topology allows, and where the class's CSI
driver reports room for them if it reports any; room in berth's own classes is LocalDiskFit's to find.
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
from .provisioning import allowed, has_room, limited
from .rows import all_match

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_REASONS = (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, NO_VOLUME)
_NODE_CONFLICT, _BIND_CONFLICT, _NOT_ENOUGH_SPACE, _NO_VOLUME = 1, 2, 4, 8


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
        """Return the claims and the state of storage: any change to it makes all verdicts stale.

        Capacity changes much more often. It counts for claims that are held against it, class by class.
        """
        volumes = claim_volumes(cycle.request)
        return (cycle.request.pod.namespace, tuple(volumes), cycle.snapshot.volume_generation, _room(cycle, volumes))

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows that a bound volume cannot be reached from, or that have no volume for a claim that waits.

        A volume that could be made there counts as one that the row has.
        """
        claims = self._claims(cycle)
        failed = _judge_bound(cycle.snapshot, [one for one in claims if one.bound], rows)
        waiting = [one for one in claims if not one.bound]
        if waiting:
            failed |= _Matching(cycle.snapshot, waiting, rows).judge()
        kinds, inverse = np.unique(failed, return_inverse=True)
        return Verdict(inverse.astype(np.int64) + 1, (SUCCESS, *(_status(int(kind)) for kind in kinds)))

    def reserve(self, cycle: Cycle, row: int) -> Choice:
        """Choose a volume for each claim that waits and is not to be provisioned."""
        if not claim_volumes(cycle.request):
            return Choice()
        waiting = [one for one in self._claims(cycle) if not one.bound]
        failed, chosen = _Matching(cycle.snapshot, waiting, np.array([row], dtype=np.int64)).find(0)
        return Choice(volumes={} if failed else chosen)


def _status(kind: int) -> Status:
    reasons = [reason for bit, reason in enumerate(_REASONS) if kind >> bit & 1]
    return unresolvable(*reasons) if reasons else SUCCESS


def _room(cycle: Cycle, volumes: list[ClaimVolume]) -> Hashable:
    """Return what has become of the capacity that the claims are held against."""
    table, namespace = cycle.snapshot.volumes, cycle.request.pod.namespace
    claims = [table.claims.get((namespace, one.claim)) for one in volumes]
    classes = {one.storage_class for one in claims if one and not one.bound and limited(cycle.snapshot, one)}
    return tuple([(name, table.capacities.changes[name]) for name in sorted(classes)])


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
        self._made: dict[ClaimInfo, IntColumn] = {}

    def judge(self) -> IntColumn:
        """Return per row what it fails by."""
        if any(self._candidates.values()):
            return np.array([self.find(position)[0] for position in range(len(self._rows))], dtype=np.int64)
        failed = ints(len(self._rows))
        for claim in self._selected:
            failed[self._rows != self._snapshot.nodes.row_of.get(claim.selected_node or "", -1)] = _BIND_CONFLICT
        for claim in (*self._selected, *self._claims):
            failed = np.where(failed == 0, self._provisioned(claim), failed)
        return failed

    def find(self, position: int) -> tuple[int, dict[str, str]]:
        """Return what a row fails by, and claim -> volume there; claims to be provisioned are not in it."""
        name = self._snapshot.nodes.names[int(self._rows[position])]
        if any(claim.selected_node != name for claim in self._selected):
            return _BIND_CONFLICT, {}
        chosen: dict[str, str] = {}
        provision = list(self._selected)
        for claim in self._claims:
            volume = self._smallest(claim, position, set(chosen.values()))
            if volume is None:
                provision.append(claim)
            else:
                chosen[claim.name] = volume.name
        # The first claim that fails has the say, in kube-scheduler's order: those with a node, then the smaller ones.
        return next((failed for one in provision if (failed := int(self._provisioned(one)[position]))), 0), chosen

    def _provisioned(self, claim: ClaimInfo) -> IntColumn:
        """Return per row why no volume can be made there for the claim; 0 where one can."""
        found = self._made.get(claim)
        if found is None:
            room = np.where(has_room(self._snapshot, claim, self._rows), 0, _NOT_ENOUGH_SPACE)
            found = np.where(allowed(self._snapshot, claim, self._rows), room, _BIND_CONFLICT).astype(np.int64)
            self._made[claim] = found
        return found

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
