# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dynamic resource allocation as a table: slices by pool and node, classes, claims, and which devices are given out.

Owned by the snapshot, read by DynamicResources. What is given out is kept up to date with each change of a claim, as
there are far more claims than changes. An allocation that is not written yet counts as one that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from ..model.quantity import Number, parse_quantity
from ..model.resource_claim import Allocation, DeviceClassInfo, ResourceClaimInfo, given
from ..model.resource_slice import DeviceId, PoolId, SliceInfo

Name = TypeVar("Name", bound=Hashable)


class DynamicTable:
    """Everything public is for reading. `generation` grows with every change."""

    def __init__(self) -> None:
        self.generation = 1
        self.classes: dict[str, DeviceClassInfo] = {}
        self.claims: dict[tuple[str, str], ResourceClaimInfo] = {}
        self.pending: dict[str, Allocation] = {}
        """By the claim's uid: chosen, and not written yet."""
        self.pools: dict[PoolId, dict[str, SliceInfo]] = defaultdict(dict)
        self.on_node: dict[str, dict[str, SliceInfo]] = defaultdict(dict)
        self.elsewhere: dict[str, SliceInfo] = {}
        """Slices that are not those of one node, by name."""
        self.taken: dict[DeviceId, int] = {}
        """Of devices that one claim has: how many have it."""
        self.consumed: dict[DeviceId, dict[str, Number]] = {}
        """Of devices that several claims share: how much of each capacity is given out."""
        self._slices: dict[str, SliceInfo] = {}
        self._stored: dict[str, Allocation] = {}
        self._counted: dict[str, Allocation] = {}

    # -- slices and classes

    def put_slice(self, info: SliceInfo) -> None:
        """Add a slice, or write its new facts."""
        self.remove_slice(info.name)
        self._slices[info.name] = info
        self.pools[info.pool][info.name] = info
        (self.on_node[info.node] if info.node else self.elsewhere)[info.name] = info

    def remove_slice(self, name: str) -> None:
        """Take a slice out."""
        self.generation += 1
        old = self._slices.pop(name, None)
        if old is None:
            return
        _drop(self.pools, old.pool, name)
        _drop(self.on_node, old.node, name)
        self.elsewhere.pop(name, None)

    def put_class(self, info: DeviceClassInfo) -> None:
        """Add a class, or write its new facts."""
        self.generation += 1
        self.classes[info.name] = info

    def remove_class(self, name: str) -> None:
        """Take a class out."""
        self.generation += 1
        self.classes.pop(name, None)

    # -- claims

    def put_claim(self, info: ResourceClaimInfo) -> None:
        """Add a claim, or write its new facts."""
        old = self.claims.get((info.namespace, info.name))
        if old is not None and old.uid != info.uid:
            self.remove_claim(info.namespace, info.name)
        self.claims[info.namespace, info.name] = info
        if info.allocation is None:
            self._stored.pop(info.uid, None)
        else:
            self._stored[info.uid] = info.allocation
        self._count(info.uid)

    def remove_claim(self, namespace: str, name: str) -> None:
        """Take a claim out; its devices are free."""
        old = self.claims.pop((namespace, name), None)
        if old is not None:
            self._stored.pop(old.uid, None)
            self._count(old.uid)

    def assume(self, chosen: Mapping[str, Allocation]) -> None:
        """Count allocations, by the claim's uid, as if they were written."""
        for uid, allocation in chosen.items():
            self.pending[uid] = allocation
            self._count(uid)

    def forget(self, chosen: Mapping[str, Allocation]) -> None:
        """Count what the API server says of these claims again."""
        for uid in chosen:
            self.pending.pop(uid, None)
            self._count(uid)

    # -- what is given out

    def overdrawn(self, allocation: Allocation) -> DeviceId | None:
        """Return a device of an allocation that several claims have, or more of it than there is; None: there is none.

        Of two schedulers that do not know of each other's choice, both may have written it.
        """
        for one in given(allocation):
            if not one.shared:
                if self.taken.get(one.device, 0) > 1 or one.device in self.consumed:
                    return one.device
                continue
            if one.device in self.taken or self._too_much(one.device):
                return one.device
        return None

    def _too_much(self, device: DeviceId) -> bool:
        capacity = next(
            (
                known.capacity
                for of in self.pools.get(device[:2], {}).values()
                for known in of.devices
                if known.id == device
            ),
            {},
        )
        amounts = self.consumed.get(device, {})
        return any(name in capacity and amount > capacity[name].amount for name, amount in amounts.items())

    def _count(self, uid: str) -> None:
        self.generation += 1
        new = self._stored.get(uid)
        new = self.pending.get(uid) if new is None else new
        old = self._counted.get(uid)
        if new is old:
            return
        for allocation, sign in ((old, -1), (new, 1)):
            if allocation is not None:
                self._add(allocation, sign)
        if new is None:
            self._counted.pop(uid, None)
        else:
            self._counted[uid] = new

    def _add(self, allocation: Allocation, sign: int) -> None:
        for one in given(allocation):
            if not one.shared:
                self.taken[one.device] = self.taken.get(one.device, 0) + sign
                if not self.taken[one.device]:
                    del self.taken[one.device]
                continue
            amounts = self.consumed.setdefault(one.device, {})
            for name, text in one.consumed:
                amounts[name] = amounts.get(name, 0) + sign * parse_quantity(text)
                if not amounts[name]:
                    del amounts[name]
            if not amounts:
                del self.consumed[one.device]


def _drop(table: dict[Name, dict[str, SliceInfo]], key: Name, name: str) -> None:
    listed = table.get(key, {})
    listed.pop(name, None)
    if not listed:
        table.pop(key, None)
