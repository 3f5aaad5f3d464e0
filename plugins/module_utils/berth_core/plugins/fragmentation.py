# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a node's free devices typical pods could not use: the measure of fragmentation gradient descent.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, section 3. `unserved` is berth's own: that measure sees that a node lacks cpu only when the next pod
does not fit any more, which is too late to put the pods that need much cpu elsewhere. Called by DevicePacking; pure
functions over arrays, all nodes at once.
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
        served = sum(one.count * one.shares * one.weight for one in pods)
        used = sum(one.cpu * one.weight for one in pods if one.count)
        self.cpu_per_share: float = used / served if served else 0.0
        """Thousandths of a core that a pod with devices needs on average beside each share."""


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
    # No matrix product: its order of summing depends on the number of rows; a row must not rate differently alone.
    expected: FloatColumn = (np.where(fits & (typical.count > 0)[None, :], lost, every) * typical.weight).sum(axis=1)
    return expected


def unserved(typical: Typical, cpu: IntColumn, free: IntColumn) -> FloatColumn:
    """Return per node the free shares beside which there is too little cpu for pods with devices, on their average.

    Units and shapes as in `fragmentation`.
    """
    every = free.sum(axis=1)
    if not typical.cpu_per_share:
        return np.zeros(len(every))
    too_few: FloatColumn = np.maximum(every - cpu / typical.cpu_per_share, 0.0)
    return too_few


def gradients(
    typical: Typical, cpu: IntColumn, free: IntColumn, wanted_cpu: int, count: int, shares: int, cpu_weight: float = 0.0
) -> FloatColumn:
    """Return by how much fragmentation falls when a pod takes `count` devices, for each device it could start with.

    Shape (nodes, devices): entry d is for the pod on device d and the next `count` - 1 of those that have `shares`
    free, in the table's order; -inf where that cannot be. Without devices (`count` 0) there is one entry per node.
    `cpu_weight`: how much of a share counts as lost where there is too little cpu beside it; 0 is the paper's measure.
    """

    def lost(cpu: IntColumn, free: IntColumn) -> FloatColumn:
        whole = fragmentation(typical, cpu, free)
        return whole + cpu_weight * unserved(typical, cpu, free) if cpu_weight else whole

    before = lost(cpu, free)
    left = cpu - wanted_cpu
    if count == 0:
        return (before - lost(left, free))[:, None]
    found: FloatColumn = np.full(free.shape, -np.inf)
    for device in range(free.shape[1]):
        taken = taken_from(free, device, count, shares)
        possible = (taken.sum(axis=1) == count) & taken[:, device]
        after = lost(left, free - taken * shares)
        found[:, device] = np.where(possible, before - after, -np.inf)
    return found


def taken_from(free: IntColumn, device: int, count: int, shares: int) -> BoolColumn:
    """Return which devices are taken when `device` is the first: a boolean per node and device."""
    able = free >= shares
    able[:, :device] = False
    taken: BoolColumn = able & (np.cumsum(able, axis=1) <= count)
    return taken
