# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CSI drivers report that they can still make, by storage class.

Owned by the table of storage objects, read by VolumeBinding. Capacity changes with every volume that is made: it is
counted by class, so that nothing is asked again for claims of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ..model.csi_capacity import CapacityInfo, DriverInfo

Key = tuple[str, str]


class CapacityTable:
    """Drivers that report, and what they have reported. Who changes something is told whether that made a difference.

    `changes`: by storage class how often its capacity has changed.
    """

    def __init__(self) -> None:
        self.changes: Counter[str] = Counter()
        self._reporting: set[str] = set()
        self._known: dict[Key, CapacityInfo] = {}
        self._of_class: dict[str, dict[Key, CapacityInfo]] = {}

    def reports(self, driver: str) -> bool:
        """Tell whether a driver can only make what its capacity objects say."""
        return driver in self._reporting

    def put_driver(self, info: DriverInfo) -> bool:
        """Add a driver, or write its new word."""
        if not info.reports:
            return self.remove_driver(info.name)
        new = info.name not in self._reporting
        self._reporting.add(info.name)
        return new

    def remove_driver(self, name: str) -> bool:
        """Take a driver out."""
        known = name in self._reporting
        self._reporting.discard(name)
        return known

    def of_class(self, storage_class: str) -> Collection[CapacityInfo]:
        """Return what is reported for a class."""
        return self._of_class.get(storage_class, {}).values()

    def put(self, info: CapacityInfo) -> bool:
        """Add a capacity, or write its new facts."""
        key = (info.namespace, info.name)
        if self._known.get(key) == info:
            return False
        self.remove(*key)
        self._known[key] = info
        self._of_class.setdefault(info.storage_class, {})[key] = info
        self.changes[info.storage_class] += 1
        return True

    def remove(self, namespace: str, name: str) -> bool:
        """Take a capacity out."""
        old = self._known.pop((namespace, name), None)
        if old is None:
            return False
        listed = self._of_class[old.storage_class]
        del listed[namespace, name]
        if not listed:
            del self._of_class[old.storage_class]
        self.changes[old.storage_class] += 1
        return True
