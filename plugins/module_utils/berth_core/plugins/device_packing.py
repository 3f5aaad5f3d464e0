# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DevicePacking: shared devices are given out so that what is left stays of use to the pods that are expected.

Stands beside LocalDeviceFit, which filters; behind it in the profile, so that its choice of the device is the one that
holds. It rates pods with one device claim of its class, and pods without any (they take cpu that devices need).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..cluster.columns import FloatColumn, IntColumn, np
from ..errors import InputError
from ..framework.contract import MAX_SCORE, SKIPPED, SUCCESS, Choice, Dirt, Status
from ..framework.state import Cycle
from ..model.device import WHOLE, LocalDevice
from ..model.fields import integer, objects, string
from ..model.quantity import cpu_milli
from ..model.requests import CPU
from .args import known_only
from .fragmentation import Typical, TypicalPod, gradients, taken_from

KEYS = ("cpu", "count", "shares", "weight")
CPU_WEIGHT = 50
DIGITS = 6
"""Of a share: what differs by less is the rounding of sums, and must not decide."""


@dataclass(frozen=True)
class DevicePacking:
    """Score by the fall of fragmentation (FGD), and choose the device for which it falls most."""

    device_class: str
    typical_pods: tuple[TypicalPod, ...]
    cpu_weight: int = CPU_WEIGHT
    name: str = "DevicePacking"
    score_dirt: Dirt = Dirt.ROW

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> DevicePacking:
        """Read deviceClass, typicalPods and cpuWeight (per cent). Raises InputError with the path."""
        known_only(args, ("deviceClass", "typicalPods", "cpuWeight"), path)
        device_class = string(args, "deviceClass", f"{path}.deviceClass")
        if not device_class:
            raise InputError(f"{path}.deviceClass: expected the class of the devices", field=f"{path}.deviceClass")
        where = f"{path}.typicalPods"
        listed = objects(args, "typicalPods", where)
        if not listed:
            raise InputError(f"{where}: expected at least one kind of pod that is expected", field=where)
        pods = tuple(_typical_pod(one, f"{where}[{index}]") for index, one in enumerate(listed))
        where = f"{path}.cpuWeight"
        cpu_weight = integer(args, "cpuWeight", where, CPU_WEIGHT)
        if not 0 <= cpu_weight <= 100:
            raise InputError(f"{where}: expected 0 (cpu beside devices does not count) to 100", field=where)
        return cls(device_class, pods, cpu_weight)

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip pods with several device claims or of another class, and clusters without devices."""
        claims = cycle.request.devices
        other = len(claims) > 1 or any(one.device_class != self.device_class for one in claims)
        return SKIPPED if other or not cycle.snapshot.devices.devices else SUCCESS

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return what is asked for, and the replica where it holds devices: its own locks are free to it alone."""
        owner = cycle.request.owner
        held = owner if cycle.snapshot.devices.knows(owner) else None
        return (_cpu(cycle), tuple((one.count, one.shares) for one in cycle.request.devices), held)

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Return 0 to 100 by how far the row's fragmentation would fall at best: above 50 it falls, below it grows.

        100 * sigmoid(fall in whole devices), cut to an integer, as in the paper's own program. The cut matters: nodes
        that are nearly alike stay equal, and the first of them is filled before the next is begun.
        """
        best = _gradients(self, cycle, rows)[0].max(axis=1).round(DIGITS)
        # A row that LocalDeviceFit has not let pass may have no way at all: it rates 0.
        rated: IntColumn = (MAX_SCORE / (1 + np.exp(np.clip(-best / WHOLE, -50, 50)))).astype(np.int64)
        return rated

    def reserve(self, cycle: Cycle, row: int) -> Choice:
        """Choose the devices for which fragmentation falls most; of equal ones the first by name."""
        claims = cycle.request.devices
        if len(claims) != 1 or claims[0].device_class != self.device_class:
            return Choice()
        (claim,) = claims
        rows = np.array([row], dtype=np.int64)
        found, devices, free = _gradients(self, cycle, rows)
        first = int(np.argmax(found[0].round(DIGITS)))
        taken = taken_from(free, first, claim.count, claim.shares)[0]
        names = sorted(one.name for one, chosen in zip(devices[0], taken) if chosen)
        # One that has nothing to say leaves LocalDeviceFit's choice as it is.
        if len(names) != claim.count:
            return Choice()
        return Choice(devices={claim.name: tuple((name, claim.shares) for name in names)})


@lru_cache(maxsize=16)
def _arrays(pods: tuple[TypicalPod, ...]) -> Typical:
    return Typical(pods)


def _cpu(cycle: Cycle) -> int:
    return dict(cycle.request.pod.requests).get(CPU, 0)


def _gradients(
    plugin: DevicePacking, cycle: Cycle, rows: IntColumn
) -> tuple[FloatColumn, list[list[LocalDevice]], IntColumn]:
    """Return the gradients per row and device, the devices, and their free shares."""
    snapshot, owner = cycle.snapshot, cycle.request.owner
    nodes = snapshot.nodes
    devices = [_devices(plugin, cycle, nodes.names[int(row)]) for row in rows]
    width = max([1, *(len(one) for one in devices)])
    free = np.zeros((len(rows), width), dtype=np.int64)
    for position, listed in enumerate(devices):
        free[position, : len(listed)] = [max(snapshot.devices.free(one, owner), 0) for one in listed]
    cpu = nodes.allocatable[CPU][rows] - nodes.requested[CPU][rows]
    claim = cycle.request.devices[0] if cycle.request.devices else None
    count, shares = (claim.count, claim.shares) if claim else (0, 0)
    found = gradients(_arrays(plugin.typical_pods), cpu, free, _cpu(cycle), count, shares, plugin.cpu_weight / 100)
    return found, devices, free


def _devices(plugin: DevicePacking, cycle: Cycle, node: str) -> list[LocalDevice]:
    return [one for one in cycle.snapshot.devices.usable_on(node) if one.device_class == plugin.device_class]


def _typical_pod(source: Mapping[str, Any], path: str) -> TypicalPod:
    known_only(source, KEYS, path)
    cpu = cpu_milli(source.get("cpu", 0))
    count = integer(source, "count", f"{path}.count", 1)
    shares = integer(source, "shares", f"{path}.shares", WHOLE)
    weight = integer(source, "weight", f"{path}.weight", 1)
    if cpu < 0 or count < 0 or weight < 1 or not 1 <= shares <= WHOLE:
        raise InputError(
            f"{path}: expected cpu and count of at least 0, shares from 1 to {WHOLE} and a weight of at least 1; "
            f"got cpu {source.get('cpu', 0)}, count {count}, shares {shares} and weight {weight}",
            field=path,
        )
    return TypicalPod(cpu, count, shares if count else 0, weight)
