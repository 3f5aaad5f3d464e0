# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LocalDeviceFit: every device claim of the pod gets devices of the node, whole or in shares, never more than there is.

All claims are decided together and exactly; the fullest device that takes a share is taken first, so that whole
devices stay whole. Score: how full the touched devices are afterwards (least waste).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import IntColumn, ints, np
from ..cluster.devices import device_problem
from ..framework.contract import (
    ALL_NODES,
    MAX_SCORE,
    MUCH_MORE,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    SKIPPED,
    SUCCESS,
    Choice,
    Dirt,
    Narrowing,
    ObjectVerdict,
    Source,
    Status,
    Verdict,
    unschedulable,
)
from ..framework.state import Cycle
from ..model.device import LocalDevice
from ..model.placement import DeviceClaim
from .assignment import Item, assign_shares
from .rows import one_reason


@dataclass(frozen=True)
class LocalDeviceFit:
    """Filter, score and choose local devices."""

    name: str = "LocalDeviceFit"
    filter_dirt: Dirt = Dirt.ROW
    score_dirt: Dirt = Dirt.ROW

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod without device claims."""
        return ALL_NODES if cycle.request.devices else NOTHING_TO_FILTER

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing more for a pod without device claims."""
        return MUCH_MORE if cycle.request.devices else ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the claims, and the replica where it holds devices: its own locks are free to it alone."""
        owner = cycle.request.owner
        return (cycle.request.devices, owner if cycle.snapshot.devices.knows(owner) else None)

    score_key = filter_key

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows without an assignment."""
        passed = np.array([_assign(cycle, int(row)) is not None for row in rows], dtype=np.bool_)
        wanted = ", ".join(claim.name for claim in cycle.request.devices)
        return one_reason(passed, unschedulable(f"node(s) didn't have the free local devices for {wanted}"))

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip a pod without device claims."""
        return SUCCESS if cycle.request.devices else SKIPPED

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate the row by the used share of the devices that the pod would be on."""
        scores = ints(len(rows))
        for position, row in enumerate(rows):
            given = _assign(cycle, int(row))
            if given:
                touched = {device.name: device for _claim, device, _shares in given}
                free = sum(cycle.snapshot.devices.free(device, cycle.request.owner) for device in touched.values())
                scores[position] = sum(shares for _claim, _device, shares in given) * MAX_SCORE // free
        return scores

    def reserve(self, cycle: Cycle, row: int) -> Choice:
        """Choose the devices on the row."""
        if not cycle.request.devices:
            return Choice()
        given = _assign(cycle, row) or []
        return Choice(
            devices={
                claim.name: tuple(sorted((device.name, shares) for name, device, shares in given if name == claim.name))
                for claim in cycle.request.devices
            }
        )

    def verdicts(self, cycle: Cycle) -> tuple[ObjectVerdict, ...]:
        """Judge every device for every claim."""
        table = cycle.snapshot.devices
        return tuple(
            _judge(cycle, claim, table.devices[name])
            for claim in cycle.request.devices
            for name in sorted(table.devices)
        )

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out."""
        return f"{' and '.join(str(claim) for claim in cycle.request.devices)} free on {{node}}"


def _assign(cycle: Cycle, row: int) -> list[tuple[str, LocalDevice, int]] | None:
    """Return (claim, device, shares) for each unit asked for, or None. Found once per cycle and row."""
    return cycle.once(("LocalDeviceFit", row), lambda: _assign_now(cycle, row))


def _assign_now(cycle: Cycle, row: int) -> list[tuple[str, LocalDevice, int]] | None:
    table, owner = cycle.snapshot.devices, cycle.request.owner
    devices = table.usable_on(cycle.snapshot.nodes.names[row])
    free = [table.free(one, owner) for one in devices]
    items: list[Item] = []
    for number, claim in enumerate(cycle.request.devices):
        fitting = frozenset(
            index
            for index, one in enumerate(devices)
            if one.device_class == claim.device_class and free[index] >= claim.shares
        )
        if len(fitting) < claim.count:
            return None
        items += [(number, claim.shares, fitting)] * claim.count
    claims = cycle.request.devices
    if len(claims) == 1:  # the fullest that can take it, at once: nothing else competes
        fullest = sorted(items[0][2], key=lambda index: (free[index], index))[: claims[0].count]
        return [(claims[0].name, devices[index], claims[0].shares) for index in fullest]
    given = assign_shares(items, free)
    if given is None:
        return None
    return [(claims[item[0]].name, devices[at], item[1]) for item, at in zip(items, given)]


def _judge(cycle: Cycle, claim: DeviceClaim, device: LocalDevice) -> ObjectVerdict:
    table = cycle.snapshot.devices
    free = table.free(device, cycle.request.owner)
    reason, detail = "", ""
    if device.device_class != claim.device_class:
        reason, detail = "of another class", f"is {device.device_class}"
    elif device_problem(device):
        reason, detail = "not to be given out", device_problem(device)
    elif free < claim.shares:
        holders = ", ".join(table.holders(device)) or "a placement under way"
        reason, detail = "held", f"{free} of {claim.shares} shares free, by {holders}"
    return ObjectVerdict("LocalDevice", device.name, device.node_name, claim.name, not reason, reason, detail)
