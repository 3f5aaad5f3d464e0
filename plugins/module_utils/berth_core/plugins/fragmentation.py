# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a node's free devices typical pods could not use: the measure of fragmentation gradient descent.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, section 3. Called by DevicePacking; pure functions over arrays, all nodes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..cluster.columns import BoolColumn, FloatColumn, IntColumn, np


@dataclass(frozen=True)
class TypicalPod:
    """A kind of pod that is expected: `cpu` in thousandths of a core, `count` devices with `shares` thousandths each.

    `weight`: how often it comes, next to the others. `count` 0: it needs no device.
    """

    cpu: int
    count: int
    shares: int
    weight: int


class Typical:
    """Typical pods as arrays, one entry per kind; the weights add up to 1."""

    def __init__(self, pods: Sequence[TypicalPod]) -> None:
        total = sum(one.weight for one in pods)
        self.cpu: IntColumn = np.array([one.cpu for one in pods], dtype=np.int64)
        self.count: IntColumn = np.array([one.count for one in pods], dtype=np.int64)
        self.shares: IntColumn = np.array([one.shares for one in pods], dtype=np.int64)
        self.weight: FloatColumn = np.array([one.weight / total for one in pods], dtype=np.float64)


def fragmentation(typical: Typical, cpu: IntColumn, free: IntColumn) -> FloatColumn:
    """Return per node the shares that a typical pod is expected not to be able to use.

    `cpu`: free thousandths of a core, shape (nodes,). `free`: free shares per device, shape (nodes, devices), 0 where a
    node has fewer devices. For a kind that fits, shares on devices that have too few left are lost to it; for one that
    does not fit, or needs no device, all are.
    """
    per_device = free[:, None, :]
    too_few = per_device < typical.shares[None, :, None]
    fits = (typical.cpu[None, :] <= cpu[:, None]) & ((~too_few).sum(axis=2) >= typical.count[None, :])
    lost = np.where(too_few, per_device, 0).sum(axis=2)
    every = free.sum(axis=1)[:, None]
    expected: FloatColumn = np.where(fits & (typical.count > 0)[None, :], lost, every) @ typical.weight
    return expected


def gradients(
    typical: Typical, cpu: IntColumn, free: IntColumn, wanted_cpu: int, count: int, shares: int
) -> FloatColumn:
    """Return by how much fragmentation falls when a pod takes `count` devices, for each device it could start with.

    Shape (nodes, devices): entry d is for the pod on device d and the next `count` - 1 of those that have `shares`
    free, in the table's order; -inf where that cannot be. Without devices (`count` 0) there is one entry per node.
    """
    before = fragmentation(typical, cpu, free)
    left = cpu - wanted_cpu
    if count == 0:
        return (before - fragmentation(typical, left, free))[:, None]
    found: FloatColumn = np.full(free.shape, -np.inf)
    for device in range(free.shape[1]):
        taken = taken_from(free, device, count, shares)
        possible = (taken.sum(axis=1) == count) & taken[:, device]
        after = fragmentation(typical, left, free - taken * shares)
        found[:, device] = np.where(possible, before - after, -np.inf)
    return found


def taken_from(free: IntColumn, device: int, count: int, shares: int) -> BoolColumn:
    """Return which devices are taken when `device` is the first: a boolean per node and device."""
    able = free >= shares
    able[:, :device] = False
    taken: BoolColumn = able & (np.cumsum(able, axis=1) <= count)
    return taken
