# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeVolumeLimits: a CSI driver attaches so many volumes to a node, and no more.

What counts against the limit is what the node's pods use and what is attached to it otherwise, each volume once.
Volumes of old kinds count under the CSI driver that has taken them over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cluster.columns import IntColumn, bools
from ..cluster.snapshot import Snapshot
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
    unschedulable,
)
from ..framework.state import Cycle
from ..model.attachable import DRIVER_OF, NOT_MIGRATED, Attachable, InlineVolume
from ..model.fields import integer, mapping
from ..model.pod import ClaimVolume
from ..model.volume import ClaimInfo
from .args import known_only
from .claims import claim_not_found, claim_volumes
from .rows import one_reason

REFUSAL = unschedulable("node(s) exceed max volume count")


@dataclass(frozen=True)
class NodeVolumeLimits:
    """Filter on attachable volumes."""

    default_limits: tuple[tuple[str, int], ...] = ()
    """Per driver, for nodes whose CSINode says nothing of it: the fixed limits of times before CSI."""
    name: str = "NodeVolumeLimits"
    filter_dirt: Dirt = Dirt.ROW

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> NodeVolumeLimits:
        """Read defaultLimits, which kube-scheduler's plugin does not have. Raises InputError with the path."""
        known_only(args, ("defaultLimits",), path)
        limits = mapping(args, "defaultLimits", f"{path}.defaultLimits")
        where = f"{path}.defaultLimits"
        return cls(tuple(sorted((driver, integer(limits, driver, f"{where}.{driver}")) for driver in limits)))

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod without volumes that could be attached."""
        wanted = claim_volumes(cycle.request) or any(one.attachable for one in cycle.request.pod.inline)
        return ALL_NODES if wanted else NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing more for a pod without volumes."""
        return MUCH_MORE if cycle.request.pod.inline or claim_volumes(cycle.request) else ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the volumes and the state of storage."""
        pod = cycle.request.pod
        volumes = tuple(claim_volumes(cycle.request))
        return (pod.namespace, volumes, pod.inline, cycle.snapshot.volume_generation)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows with a limit that the pod's volumes would exceed."""
        snapshot, pod, volumes = cycle.snapshot, cycle.request.pod, claim_volumes(cycle.request)
        for one in volumes:
            if (pod.namespace, one.claim) not in snapshot.volumes.claims:
                reason = f"looking up PVC {pod.namespace}/{one.claim}: {claim_not_found(one.claim)}"
                return one_reason(bools(len(rows)), unresolvable(reason))
        wanted = _used(snapshot, pod.namespace, volumes, pod.inline)
        passed = bools(len(rows), True)
        if wanted:
            drivers = {one.driver for one in wanted}
            for position, row in enumerate(rows):
                node = snapshot.nodes.names[int(row)]
                limits = {**dict(self.default_limits), **snapshot.volumes.limits.get(node, {})}
                if limits and not drivers.isdisjoint(limits):
                    passed[position] = _fits(snapshot, node, wanted, limits)
        return one_reason(passed, REFUSAL)


def _fits(snapshot: Snapshot, node: str, wanted: set[Attachable], limits: dict[str, int]) -> bool:
    there: set[Attachable] = set()
    for occupant in snapshot.occupants_of(node):
        if occupant.volumes or occupant.inline:
            there |= _used(snapshot, occupant.namespace, occupant.volumes, occupant.inline)
    new = Counter(one.driver for one in wanted - there)
    for one in snapshot.volumes.attached(node):
        volume = snapshot.volumes.volumes.get(one.volume_name)
        if one.attacher and volume is not None and volume.csi and volume.attachable is not None:
            there.add(Attachable(one.attacher, volume.attachable.handle))
    have = Counter(one.driver for one in there)
    return all(have[driver] + count <= limits[driver] for driver, count in new.items() if driver in limits)


def _used(
    snapshot: Snapshot, namespace: str, volumes: Iterable[ClaimVolume], inline: Iterable[InlineVolume]
) -> set[Attachable]:
    """Return what these volumes of a pod are to CSI drivers; claims that are not there count for nothing."""
    used = {one.attachable for one in inline if one.attachable is not None}
    for one in volumes:
        claim = snapshot.volumes.claims.get((namespace, one.claim))
        found = _attachable(snapshot, claim) if claim is not None else None
        if found is not None and found.driver and found.handle:
            used.add(found)
    return used


def _attachable(snapshot: Snapshot, claim: ClaimInfo) -> Attachable | None:
    """Return the claim's volume, or the one that its class's driver is going to make."""
    volume = snapshot.volumes.volumes.get(claim.volume_name)
    if volume is not None:
        return volume.attachable
    storage_class = snapshot.volumes.classes.get(claim.storage_class)
    if storage_class is None or storage_class.provisioner in NOT_MIGRATED:
        return None
    driver = DRIVER_OF.get(storage_class.provisioner, storage_class.provisioner)
    # No driver's handle has two spaces in it: the volume to come is like no other.
    return Attachable(driver, f"to be made  {claim.namespace}/{claim.name}")
