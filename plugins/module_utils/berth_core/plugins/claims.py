# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request's PersistentVolumeClaims: what the plugins about volumes have in common."""

from __future__ import annotations

from ..model.placement import PlacementRequest
from ..model.pod import ClaimVolume


def claim_volumes(request: PlacementRequest) -> list[ClaimVolume]:
    """Return the volumes with a claim, but for those that the request's local disks are going to fill."""
    if not request.pod.volumes:
        return []
    filled = {claim.name for claim in request.disks}
    return [one for one in request.pod.volumes if one.volume not in filled]


def claim_not_found(name: str) -> str:
    """Return the API server's words for a claim that is not there."""
    return f'persistentvolumeclaim "{name}" not found'
