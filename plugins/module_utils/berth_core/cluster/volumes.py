# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PersistentVolumes, PersistentVolumeClaims and StorageClasses by name.

Owned by the snapshot, read by the plugin VolumeBinding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..model.volume import ClaimInfo, ClassInfo, VolumeInfo


@dataclass
class VolumeTable:
    """What the API server has of storage."""

    volumes: dict[str, VolumeInfo] = field(default_factory=dict)
    claims: dict[tuple[str, str], ClaimInfo] = field(default_factory=dict)
    classes: dict[str, ClassInfo] = field(default_factory=dict)

    def of_class(self, storage_class: str) -> list[VolumeInfo]:
        """Return the volumes of a class, sorted by name."""
        found = [one for one in self.volumes.values() if one.storage_class == storage_class]
        return sorted(found, key=lambda one: one.name)
