# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VolumeRestrictions: volumes that only one pod, or only one writer, of a node may have; and ReadWriteOncePod.

A claim with the access mode ReadWriteOncePod that a pod uses anywhere is refused everywhere: another pod has to go.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import IntColumn, ints
from ..framework.contract import (
    ALL_NODES,
    MUCH_MORE,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    SUCCESS,
    Dirt,
    Narrowing,
    Source,
    Verdict,
    unresolvable,
    unschedulable,
)
from ..framework.state import Cycle
from .claims import claim_not_found, claim_volumes

DISK_CONFLICT = unschedulable("node(s) had no available disk")
USED_ONCE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@dataclass(frozen=True)
class VolumeRestrictions:
    """Filter on volumes in use."""

    name: str = "VolumeRestrictions"
    filter_dirt: Dirt = Dirt.TOPOLOGY

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Refuse a pod whose claim is missing; skip one whose volumes restrict nothing."""
        known, pod = cycle.snapshot.volumes.claims, cycle.request.pod
        for one in claim_volumes(cycle.request):
            if not one.ephemeral and (pod.namespace, one.claim) not in known:
                return Narrowing(unresolvable(claim_not_found(one.claim)))
        restricted = any(one.kind for one in pod.inline) or _used_once(cycle)
        return ALL_NODES if restricted else NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing more for a pod without volumes."""
        return MUCH_MORE if cycle.request.pod.inline or claim_volumes(cycle.request) else ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the volumes and the state of storage."""
        pod = cycle.request.pod
        volumes = tuple(claim_volumes(cycle.request))
        return (pod.namespace, pod.inline, volumes, cycle.snapshot.volume_generation)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows on which a volume is in use by another pod. Few nodes have any: they are looked up by volume."""
        nodes = cycle.snapshot.nodes
        codes = ints(len(nodes), 2 if _used_once(cycle) else 0)
        for volume in cycle.request.pod.inline:
            for name in cycle.snapshot.volume_uses.nodes_in_conflict(volume):
                codes[nodes.row_of[name]] = 1
        return Verdict(codes[rows], (SUCCESS, DISK_CONFLICT, USED_ONCE))


def _used_once(cycle: Cycle) -> bool:
    """Tell whether a claim that one pod alone may use is in use."""
    namespace, claims = cycle.request.pod.namespace, cycle.snapshot.volumes.claims
    return any(
        "ReadWriteOncePod" in claims[namespace, one.claim].access_modes
        and cycle.snapshot.volume_uses.claim_used(namespace, one.claim)
        for one in claim_volumes(cycle.request)
        if not one.ephemeral
    )
