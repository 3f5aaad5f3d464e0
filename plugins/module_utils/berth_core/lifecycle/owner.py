# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a berth is for: what has to be known of a replica or a claim to make its berth and what belongs to it.

next_step asks an owner; the order of the writes is the same for all.
"""

from __future__ import annotations

from typing import Any, Protocol

from .locks import Holder
from .step import Step, Wait
from .view import Object, View


class Owner(Protocol):
    """Replicas of apps (replica.py) and PersistentVolumeClaims without an app (claim.py) are owners. Pure."""

    def begin(self) -> Step:
        """There is no Berth: the write that makes it, or why there is none to make."""

    def withdrawn(self, view: View, record: Object) -> str:
        """Why a choice that is only Selected is to be given up and made again; empty where it stands."""

    def unusable(self, claim: str, disk: Object) -> str:
        """Why the chosen disk cannot be locked although nobody holds it; empty where it can."""

    def waits_for_others(self) -> bool:
        """Whether Reserved is to be recorded only when all berths of the run have their locks."""

    def holder(self, record: Object, claim: str) -> Holder:
        """Whom the lock of one claim names; of its tenant, the pod alone (the namespace is in the view)."""

    def volume(self, record: Object, claim: str, disk: Object, hostname: str) -> dict[str, Any] | Wait:
        """The PersistentVolume over a locked disk; a Wait where none can be made."""

    def check_volume(self, record: Object, claim: str, disk: Object, volume: Object) -> Wait | None:
        """What to say of a volume that is there; None where it is as it should be."""

    def claim(self, record: Object, claim: str, disk: Object) -> dict[str, Any] | None:
        """The PersistentVolumeClaim to be made; None where it is the owner itself."""

    def made_by_its_workload(self, live: Object) -> bool:
        """Whether its workload's controller makes claims with the labels that this one has."""

    def device_claims(self, view: View, record: Object) -> list[dict[str, Any] | Wait]:
        """The ResourceClaims to be there; a Wait for one that could not work."""

    def kept(self, record: Object) -> str:
        """Its Berth is asked to go: what of the owner is still there, and what has to go first."""

    def arrived(self, view: View, record: Object) -> Step:
        """Locks, volumes and claims are there: what is to be recorded or waited for."""
