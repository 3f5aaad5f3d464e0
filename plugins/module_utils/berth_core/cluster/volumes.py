# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage objects by name: volumes, claims and classes; what CSI drivers may attach, have attached, and can make.

Owned by the snapshot, read by the plugins about volumes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..model.attachable import Attachment
from ..model.volume import ClaimInfo, ClassInfo, VolumeInfo
from .capacities import CapacityTable


@dataclass
class VolumeTable:
    """What the API server has of storage."""

    volumes: dict[str, VolumeInfo] = field(default_factory=dict)
    claims: dict[tuple[str, str], ClaimInfo] = field(default_factory=dict)
    classes: dict[str, ClassInfo] = field(default_factory=dict)
    limits: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per node with a CSINode: driver -> how many volumes."""
    capacities: CapacityTable = field(default_factory=CapacityTable)
    _attachments: dict[str, Attachment] = field(default_factory=dict)
    _attached: dict[str, dict[str, Attachment]] = field(default_factory=dict)

    def of_class(self, storage_class: str) -> list[VolumeInfo]:
        """Return the volumes of a class, sorted by name."""
        found = [one for one in self.volumes.values() if one.storage_class == storage_class]
        return sorted(found, key=lambda one: one.name)

    def attach(self, attachment: Attachment) -> None:
        """Add an attachment whose name is new."""
        self._attachments[attachment.name] = attachment
        self._attached.setdefault(attachment.node_name, {})[attachment.name] = attachment

    def detach(self, name: str) -> Attachment | None:
        """Take an attachment out and return it."""
        found = self._attachments.pop(name, None)
        if found is not None:
            listed = self._attached[found.node_name]
            del listed[name]
            if not listed:
                del self._attached[found.node_name]
        return found

    def attached(self, node_name: str) -> list[Attachment]:
        """Return what is attached to a node."""
        return list(self._attached.get(node_name, {}).values())
