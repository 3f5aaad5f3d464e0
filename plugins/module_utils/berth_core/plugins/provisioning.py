# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that are made on demand: for which nodes a claim can have one, as far as anybody can tell beforehand.

Called by VolumeBinding for claims that wait and have no volume yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..cluster.columns import BoolColumn, IntColumn, bools, np
from ..cluster.snapshot import Snapshot
from ..model.csi_capacity import CapacityInfo
from ..model.labels import IN, Requirement
from ..model.volume import ClaimInfo
from .rows import all_match

Requirements = tuple[Requirement, ...]


def allowed(snapshot: Snapshot, claim: ClaimInfo, rows: IntColumn) -> BoolColumn:
    """Return for which rows the claim's class lets a volume be made."""
    storage_class = snapshot.volumes.classes[claim.storage_class]
    if not storage_class.provisions or not storage_class.topologies:
        return bools(len(rows), storage_class.provisions)
    infos = snapshot.nodes.infos
    found: BoolColumn = np.array([storage_class.allows(infos[int(row)].labels) for row in rows], dtype=np.bool_)
    return found


def limited(snapshot: Snapshot, claim: ClaimInfo) -> bool:
    """Tell whether a driver can make the claim's volume only where it has reported room for it."""
    storage_class = snapshot.volumes.classes.get(claim.storage_class)
    if storage_class is None or not storage_class.has_driver or not claim.sized:
        return False
    return snapshot.volumes.capacities.reports(storage_class.provisioner)


def has_room(snapshot: Snapshot, claim: ClaimInfo, rows: IntColumn) -> BoolColumn:
    """Return which rows reach some capacity with room for the claim."""
    if not limited(snapshot, claim):
        return bools(len(rows), True)
    listed = snapshot.volumes.capacities.of_class(claim.storage_class)
    return _reached(snapshot, [one for one in listed if one.holds(claim.request)], rows)


def _reached(snapshot: Snapshot, capacities: Iterable[CapacityInfo], rows: IntColumn) -> BoolColumn:
    """Return which rows reach one of the capacities.

    A driver of local storage has one for each node, with the node's own labels: those are looked up all at once.
    """
    others: set[Requirements] = set()
    plain: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for one in capacities:
        if one.topology is None:
            continue
        wanted = one.topology.requirements
        if wanted and all(each.operator == IN and len(each.values) == 1 for each in wanted):
            keys = tuple([each.key for each in wanted])
            plain.setdefault(keys, set()).add(tuple([each.values[0] for each in wanted]))
        else:
            others.add(wanted)
    found = bools(len(rows))
    for keys, values in plain.items():
        found |= snapshot.labels.among(keys, values, rows)
    for requirements in others:
        found |= all_match(snapshot, requirements, rows)
    return found
