# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CSIDriver and CSIStorageCapacity: what drivers say that they can still make, as the plugin VolumeBinding sees it.

Called by the snapshot; by the queueing hints for an object's limit alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fields import Object, boolean, mapping, metadata, string
from .labels import LabelSelector
from .quantity import bytes_


@dataclass(frozen=True)
class DriverInfo:
    """A CSIDriver. `reports`: capacity objects say how much it can still make, and where there is none, nothing."""

    name: str
    reports: bool

    @classmethod
    def from_object(cls, driver: Object) -> DriverInfo:
        """Read a CSIDriver of the API."""
        _namespace, name = metadata(driver, "CSIDriver")
        where = f"CSIDriver {name}: spec"
        return cls(name, boolean(mapping(driver, "spec", where), "storageCapacity", f"{where}.storageCapacity"))


@dataclass(frozen=True)
class CapacityInfo:
    """A CSIStorageCapacity: how large a volume of a class may be where node labels are these.

    `topology` None: no node has access. `limit` in bytes; None: nothing is known, so nothing can be made.
    """

    namespace: str
    name: str
    storage_class: str
    topology: LabelSelector | None
    limit: int | None

    @classmethod
    def from_object(cls, capacity: Object) -> CapacityInfo:
        """Read a CSIStorageCapacity of the API."""
        namespace, name = metadata(capacity, "CSIStorageCapacity")
        where = f"CSIStorageCapacity {namespace}/{name}"
        return cls(
            namespace=namespace,
            name=name,
            storage_class=string(capacity, "storageClassName", f"{where}: storageClassName"),
            topology=LabelSelector.parse(capacity.get("nodeTopology"), f"{where}: nodeTopology"),
            limit=volume_limit(capacity, where),
        )

    def holds(self, size: int) -> bool:
        """Tell whether a volume of so many bytes can be made."""
        return self.limit is not None and size <= self.limit


def volume_limit(capacity: Object, where: str = "") -> int | None:
    """Return the bytes that a new volume may have at most.

    The largest volume is more precise than what is left in all, and is preferred.
    """
    key = "capacity" if capacity.get("maximumVolumeSize") is None else "maximumVolumeSize"
    found = capacity.get(key)
    return None if found is None else bytes_(found, f"{where}: {key}" if where else key)
