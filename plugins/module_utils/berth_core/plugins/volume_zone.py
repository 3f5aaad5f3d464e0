# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VolumeZone: a volume with labels for zone or region is reached from nodes of that zone or region alone.

Volumes made by CSI drivers say it by node affinity, which VolumeBinding looks at; older ones have labels only. A node
without any such label is in a cluster of one zone, and may have all.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import IntColumn, bools, np
from ..cluster.labels import ABSENT
from ..framework.contract import (
    ALL_NODES,
    MUCH_MORE,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    Dirt,
    Narrowing,
    Source,
    Verdict,
    unresolvable,
)
from ..framework.state import Cycle
from ..model.labels import IN, Requirement
from ..model.volume import VolumeInfo
from .claims import claim_not_found, claim_volumes
from .rows import one_reason

REFUSAL = unresolvable("node(s) had no available volume zone")
NEW_NAME = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
KEYS = (*NEW_NAME, *NEW_NAME.values())


@dataclass(frozen=True)
class VolumeZone:
    """Filter on the zone labels of bound volumes."""

    name: str = "VolumeZone"
    filter_dirt: Dirt = Dirt.NODE

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Refuse a pod whose volumes are missing; skip one whose volumes are of no zone."""
        for one in claim_volumes(cycle.request):
            problem = "" if one.ephemeral else _problem(cycle, one.claim)
            if problem:
                return Narrowing(unresolvable(problem))
        return ALL_NODES if _wanted(cycle) else NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing more for a pod without volumes."""
        return MUCH_MORE if cycle.request.pod.inline or claim_volumes(cycle.request) else ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return what the volumes ask of a node's labels."""
        return _wanted(cycle)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse labelled rows outside a volume's zones."""
        labels = cycle.snapshot.labels
        passed, labelled = bools(len(rows), True), bools(len(rows))
        for key in KEYS:
            labelled |= labels.ids(key)[rows] != ABSENT
        for one in _wanted(cycle):
            new = Requirement(NEW_NAME.get(one.key, one.key), IN, one.values)
            named = labels.ids(one.key)[rows] != ABSENT
            passed &= np.where(named, labels.matches(one, rows), labels.matches(new, rows))
        return one_reason(passed | ~labelled, REFUSAL)

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return nothing: a volume does not change its zone."""
        return ""


def _problem(cycle: Cycle, claim_name: str) -> str:
    table = cycle.snapshot.volumes
    claim = table.claims.get((cycle.request.pod.namespace, claim_name))
    if claim is None:
        return claim_not_found(claim_name)
    if claim.volume_name:
        return "" if claim.volume_name in table.volumes else f'persistentvolume "{claim.volume_name}" not found'
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if claim.storage_class not in table.classes:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return "" if table.classes[claim.storage_class].waits else "PersistentVolume had no name"


def _wanted(cycle: Cycle) -> tuple[Requirement, ...]:
    """Return what the bound volumes of the pod ask of node labels."""

    def find() -> tuple[Requirement, ...]:
        table, found = cycle.snapshot.volumes, []
        for one in claim_volumes(cycle.request):
            claim = None if one.ephemeral else table.claims.get((cycle.request.pod.namespace, one.claim))
            volume = table.volumes.get(claim.volume_name) if claim else None
            found += _zones(volume) if volume else []
        return tuple(found)

    return cycle.once("VolumeZone/wanted", find)


def _zones(volume: VolumeInfo) -> list[Requirement]:
    """Return a volume's zones and regions; a__b is a and b, and a label with an empty part says nothing."""
    labels, found = dict(volume.labels), []
    for key in KEYS:
        values = [part.strip() for part in labels.get(key, "").split("__")]
        if key in labels and all(values):
            found.append(Requirement(key, IN, tuple(sorted(set(values)))))
    return found
