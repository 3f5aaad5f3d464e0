# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pools of devices that can be had on a node: the newest generation of each, whole, in kube-scheduler's order.

Called by dynamic_resources.py for each node that the other filters let pass. A pool of which slices are missing is
being updated, and nothing is given out of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..cluster.dynamic import DynamicTable
from ..model.resource_slice import PoolId, SliceDevice, SliceInfo


@dataclass(frozen=True)
class PooledDevice:
    """A device and its slice."""

    device: SliceDevice
    slice: SliceInfo


@dataclass(frozen=True)
class Pool:
    """One pool as a node sees it. `incomplete`, `invalid`, `problem`: nothing is given out of it, and why."""

    id: PoolId
    devices: tuple[PooledDevice, ...] = ()
    incomplete: bool = False
    invalid: str = ""
    problem: str = ""

    @property
    def usable(self) -> bool:
        """Tell whether devices of it can be had."""
        return not (self.incomplete or self.invalid or self.problem)

    def __str__(self) -> str:
        """Return driver/name."""
        return "/".join(self.id)


def pools_of(table: DynamicTable, slices: Iterable[SliceInfo]) -> list[Pool]:
    """Return the pools of the slices that a node can reach, sorted by driver and name.

    Those with devices that have to be waited for stand behind all others.
    """
    found: dict[PoolId, list[SliceInfo]] = {}
    for one in slices:
        listed = found.setdefault(one.pool, [])
        if listed and one.generation > listed[0].generation:
            listed.clear()
        if not listed or one.generation == listed[0].generation:
            listed.append(one)
    pools = [_pool(table, pool, listed) for pool, listed in sorted(found.items())]
    return sorted((one for one in pools if one is not None), key=_waits)


def _waits(pool: Pool) -> bool:
    return any(one.device.waits for one in pool.devices)


def _pool(table: DynamicTable, pool: PoolId, reached: list[SliceInfo]) -> Pool | None:
    """Return the pool; None where its newest generation has nothing for the node."""
    whole = list(table.pools[pool].values())
    generation, of = reached[0].generation, reached[0].of
    if len(reached) != of:
        if any(one.generation > generation for one in whole):
            return None
        if sum(one.generation == generation for one in whole) != of:
            return Pool(pool, incomplete=True)
    problem = next((one.problem for one in whole if one.problem and one.generation == generation), "")
    if problem:
        return Pool(pool, problem=problem)
    ordered = sorted(reached, key=lambda one: one.name)
    devices = tuple(PooledDevice(device, one) for one in ordered for device in one.devices)
    names: set[str] = set()
    for pooled in devices:
        name = pooled.device.id[2]
        if name in names:
            return Pool(pool, invalid=f"duplicate device name {name}")
        names.add(name)
    return Pool(pool, devices)
