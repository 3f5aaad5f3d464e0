# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device table: the LocalDevices of each node and the shares of each that are free.

Owned by the snapshot, read by the plugin LocalDeviceFit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..model.device import LocalDevice
from ..model.placement import Holder

BAD_PHASES = ("", "Pending", "Faulted", "Missing")
Taken = tuple[Holder, str, int]
"""(holder, claim, shares)"""


def device_problem(device: LocalDevice) -> str:
    """Return what keeps a device from being given out, whoever asks; "" for nothing."""
    if device.terminating:
        return "is being deleted"
    if device.reserved:
        return "is reserved"
    if device.phase in BAD_PHASES:
        return f"is {device.phase}" if device.phase else "was not observed yet"
    return "" if device.healthy else f"is unhealthy ({device.health})"


class DeviceTable:
    """Devices by name and by node."""

    def __init__(self) -> None:
        self.devices: dict[str, LocalDevice] = {}
        self._on_node: dict[str, set[str]] = {}
        self._assumed: dict[str, list[Taken]] = {}
        self._locks: Counter[tuple[str, str]] = Counter()
        self._assumers: Counter[Holder] = Counter()
        self._sorted: dict[str, tuple[LocalDevice, ...]] = {}
        """Per node what `usable_on` has found; dropped when one of the node's devices changes."""

    def upsert(self, device: LocalDevice) -> LocalDevice | None:
        """Add a device or write its new facts; return what it was."""
        old = self.remove(device.name)
        self.devices[device.name] = device
        self._locks.update((ref.namespace, ref.name) for ref in device.claim_refs)
        self._on_node.setdefault(device.node_name, set()).add(device.name)
        self._sorted.pop(device.node_name, None)
        return old

    def remove(self, name: str) -> LocalDevice | None:
        """Take a device out; return what it was."""
        old = self.devices.pop(name, None)
        if old is not None:
            self._on_node[old.node_name].discard(name)
            self._sorted.pop(old.node_name, None)
            self._locks.subtract((ref.namespace, ref.name) for ref in old.claim_refs)
        return old

    def on_node(self, name: str) -> list[LocalDevice]:
        """Return the devices of a node, sorted by name."""
        return [self.devices[one] for one in sorted(self._on_node.get(name, ()))]

    def usable_on(self, name: str) -> tuple[LocalDevice, ...]:
        """Return the devices of a node that can be given out, sorted by name."""
        found = self._sorted.get(name)
        if found is None:
            found = self._sorted[name] = tuple(one for one in self.on_node(name) if not device_problem(one))
        return found

    def free(self, device: LocalDevice, holder: Holder) -> int:
        """Return the shares (thousandths) that a holder can have: what nobody else has.

        A lock names a berth, and a berth has the name of its pod; by it a replica knows its own.
        """
        assumed = self._assumed.get(device.name, ())
        if not device.claim_refs:  # as for most devices of most clusters: this is asked of every device of a row
            return device.shares - sum([shares for other, _claim, shares in assumed if other != holder])
        own = (holder.namespace, holder.berth_name)
        taken = sum(ref.shares for ref in device.claim_refs if (ref.namespace, ref.name) != own)
        written = {(ref.namespace, ref.name, ref.claim) for ref in device.claim_refs}
        for other, claim, shares in assumed:
            # An assumption counts until the lock itself can be seen in the object.
            if other != holder and (other.namespace, other.berth_name, claim) not in written:
                taken += shares
        return device.shares - taken

    def assume(self, name: str, taken: Taken) -> None:
        """Treat shares of a device as given out."""
        self._assumed.setdefault(name, []).append(taken)
        self._assumers[taken[0]] += 1

    def forget(self, name: str, taken: Taken) -> None:
        """Take an assumption back; one that is not there is no error, for forgetting twice must be safe."""
        listed = self._assumed.get(name, [])
        if taken in listed:
            listed.remove(taken)
            self._assumers[taken[0]] -= 1
            if not self._assumers[taken[0]]:
                del self._assumers[taken[0]]

    def knows(self, holder: Holder) -> bool:
        """Tell whether a replica holds any device, by a lock or by an assumption."""
        if self._locks[holder.namespace, holder.berth_name] > 0:
            return True
        return holder in self._assumers

    def holders(self, device: LocalDevice) -> Iterable[str]:
        """Return who has shares of a device, as namespace/berth."""
        return sorted({str(ref) for ref in device.claim_refs})
