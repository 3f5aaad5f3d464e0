# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disk to which claim, which device to which claim: exact, deterministic, smallest first.

Pure functions over small lists (the disks or devices of one node), called by LocalDiskFit and LocalDeviceFit.
"""

from __future__ import annotations

from collections.abc import Sequence


def assign_disks(fits: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Give each claim a disk of its own.

    ``fits[c]`` lists the disks that claim c can use; disks are numbered from the smallest to the largest. Returns the
    disk of each claim, or None when there is no way at all. Among all ways, the disks taken are the smallest: sets of
    disks that can be given out together form a transversal matroid, so taking each next smallest disk that can still
    be matched is optimal. Of those disks, earlier claims get the smaller ones.
    """
    usable: dict[int, list[int]] = {}
    for claim, disks in enumerate(fits):
        for disk in disks:
            usable.setdefault(disk, []).append(claim)
    holder: dict[int, int] = {}
    for disk in sorted(usable):
        if len(holder) == len(fits):
            break
        _augment(disk, usable, holder, set())
    if len(holder) < len(fits):
        return None
    return _smallest_first(fits, set(holder.values()))


def _augment(disk: int, usable: dict[int, list[int]], holder: dict[int, int], tried: set[int]) -> bool:
    """Find a claim for the disk, moving the disks of other claims where that helps. `holder`: claim -> disk."""
    for claim in usable[disk]:
        if claim in tried:
            continue
        tried.add(claim)
        if claim not in holder or _augment(holder[claim], usable, holder, tried):
            holder[claim] = disk
            return True
    return False


def _smallest_first(fits: Sequence[Sequence[int]], chosen: set[int]) -> tuple[int, ...]:
    """Share out exactly the chosen disks: each claim in turn takes the smallest that leaves the others a way."""
    given: list[int] = []
    for claim, disks in enumerate(fits):
        for disk in sorted(set(disks) & chosen):
            rest = chosen - {disk}
            if _complete(fits[claim + 1 :], rest):
                given.append(disk)
                chosen = rest
                break
    return tuple(given)


def _complete(fits: Sequence[Sequence[int]], disks: set[int]) -> bool:
    """Tell whether these claims can all be served from these disks."""
    usable: dict[int, list[int]] = {disk: [] for disk in disks}
    for claim, listed in enumerate(fits):
        for disk in listed:
            if disk in usable:
                usable[disk].append(claim)
    holder: dict[int, int] = {}
    for disk in sorted(disks):
        _augment(disk, usable, holder, set())
    return len(holder) == len(fits)


Item = tuple[int, int, frozenset[int]]
"""One unit of a claim: (claim, shares, devices that it can be on)."""


def assign_shares(items: Sequence[Item], free: Sequence[int]) -> tuple[int, ...] | None:
    """Give each item a device with that many shares left; items of one claim go to different devices.

    `free` are the shares of each device. Returns the device of each item, or None when there is no way at all. Items
    are placed from the largest on, each on the fullest device that takes it; where that fails, all other ways are
    tried. Devices that are alike (equal shares left, usable by the same items, and used alike so far) are tried once,
    and states that failed are remembered.
    """
    order = sorted(range(len(items)), key=lambda index: (-items[index][1], items[index][0], index))
    kinds = [frozenset(i for i, item in enumerate(items) if device in item[2]) for device in range(len(free))]
    placed: list[int] = [-1] * len(items)
    left = list(free)
    failed: set[tuple[object, ...]] = set()

    def used_by(device: int, claim: int) -> bool:
        return any(at == device and items[index][0] == claim for index, at in enumerate(placed))

    def look(device: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        claims = tuple(sorted({items[index][0] for index, at in enumerate(placed) if at == device}))
        return left[device], claims, tuple(sorted(kinds[device]))

    def place(step: int) -> bool:
        if step == len(order):
            return True
        state = (step, *sorted(look(device) for device in range(len(left))))
        if state in failed:
            return False
        index = order[step]
        claim, shares, devices = items[index]
        seen: set[object] = set()
        for device in sorted(devices, key=lambda one: (left[one], one)):
            if left[device] < shares or used_by(device, claim) or look(device) in seen:
                continue
            seen.add(look(device))
            placed[index] = device
            left[device] -= shares
            if place(step + 1):
                return True
            left[device] += shares
            placed[index] = -1
        failed.add(state)
        return False

    return tuple(placed) if place(0) else None
