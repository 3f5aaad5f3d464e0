# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LocalDiskFit: every disk claim of the pod gets a free local disk of its own, the smallest that fits.

All claims are decided together, so an assignment is found whenever there is one. A replica that has left its data on
disks is sent to their node and nowhere else. Score: the share of the taken disks that was asked for (least waste).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..cluster.columns import BoolColumn, IntColumn, ints, np
from ..framework.contract import (
    ALL_NODES,
    MAX_SCORE,
    MUCH_MORE,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    SKIPPED,
    SUCCESS,
    Choice,
    Code,
    Dirt,
    Narrowing,
    ObjectVerdict,
    Source,
    Status,
    Verdict,
    unresolvable,
    unschedulable,
)
from ..framework.state import Cycle
from ..model.placement import DiskClaim
from .assignment import assign_disks
from .disk_candidates import about_earlier, disk_verdicts, node_rows, own_disks, slots_of, usable

NO_WAY = -1


@dataclass(frozen=True)
class LocalDiskFit:
    """Filter, score and choose local disks."""

    name: str = "LocalDiskFit"
    filter_dirt: Dirt = Dirt.ROW
    score_dirt: Dirt = Dirt.ROW

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod without disk claims; send a replica with data to the node of its data."""
        if not cycle.request.disks:
            return NOTHING_TO_FILTER
        own = {claim.name: own_disks(cycle.snapshot, cycle.request.holder, claim) for claim in cycle.request.disks}
        places = [{disk.node_name for disk in disks} for disks in own.values() if disks]
        if not places:
            return ALL_NODES
        nodes = frozenset(set.intersection(*places))
        if nodes:
            return Narrowing(nodes=nodes, elsewhere=f"node(s) didn't hold the data of {cycle.request.owner}")
        where = ", ".join(f"{name} on {disk.node_name} ({disk.name})" for name, disks in own.items() for disk in disks)
        return Narrowing(unresolvable(f"the data of {cycle.request.owner} is on disks of different nodes: {where}"))

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing more for a pod without disk claims."""
        return MUCH_MORE if cycle.request.disks else ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the claims and the replica's own disks, for most replicas none; and what is said of data that is not.

        So that an app's replicas share verdicts.
        """
        own = tuple(
            tuple(disk.name for disk in own_disks(cycle.snapshot, cycle.request.holder, claim))
            for claim in cycle.request.disks
        )
        return (cycle.request.disks, own, _about_earlier(cycle))

    score_key = filter_key

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows without an assignment; the claims for which the node has no disk at all are named."""
        taken, lacking = _taken(cycle, rows)
        codes = np.where(taken[rows] == NO_WAY, 1 + lacking[rows], 0)
        kinds, inverse = np.unique(codes, return_inverse=True)
        told = _about_earlier(cycle)
        table = [_status(int(kind) - 1, cycle.request.disks, told) if kind else SUCCESS for kind in kinds]
        return Verdict(inverse.astype(np.int64) + 1, (SUCCESS, *table))

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip a pod without disk claims."""
        return SUCCESS if cycle.request.disks else SKIPPED

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate the row by the share of the taken bytes that was asked for."""
        asked = sum(claim.size_bytes for claim in cycle.request.disks)
        taken, _lacking = _taken(cycle, rows)
        sizes = taken[rows]
        # In floating point a multiple of 100 of exabytes would be rounded; in Python's integers it is exact.
        return np.array([asked * MAX_SCORE // int(size) if size > 0 else 0 for size in sizes], dtype=np.int64)

    def reserve(self, cycle: Cycle, row: int) -> Choice:
        """Choose the disks on the row."""
        if not cycle.request.disks:
            return Choice()
        table = cycle.snapshot.disks
        rows = np.array([row], dtype=np.int64)
        slots = slots_of(cycle.snapshot, rows)
        slots = slots[node_rows(cycle.snapshot, slots) == row]
        masks = [usable(cycle.snapshot, cycle.request.holder, claim, slots) for claim in cycle.request.disks]
        given = _assign(cycle, slots, masks)
        claims = cycle.request.disks
        disks = [table.disks[slot] for slot in given or ()]
        return Choice(disks={claim.name: disk.name for claim, disk in zip(claims, disks) if disk is not None})

    def verdicts(self, cycle: Cycle) -> tuple[ObjectVerdict, ...]:
        """Judge every disk for every claim."""
        return tuple(
            one for claim in cycle.request.disks for one in disk_verdicts(cycle.snapshot, cycle.request.holder, claim)
        )

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out.

        The claims that the node cannot serve, or one more disk where it can serve each but not all.
        """
        rows = np.array([row], dtype=np.int64)
        _bytes, lacking = _taken(cycle, rows)
        claims = cycle.request.disks
        missing = [claim for bit, claim in enumerate(claims) if int(lacking[row]) >> bit & 1]
        if any(claim.disk_names for claim in missing):
            return ""  # a pinned disk is not had by adding one; its own verdict says what is wrong with it
        if missing:
            return f"{' and '.join(str(claim) for claim in missing)} on {{node}}"
        return f"one more disk that fits one of the claims {', '.join(one.name for one in claims)} on {{node}}"


def _about_earlier(cycle: Cycle) -> tuple[str, ...]:
    """Return for each claim what is said of data under its names that is another's."""
    snapshot, holder = cycle.snapshot, cycle.request.holder
    return tuple(about_earlier(snapshot, holder, claim) for claim in cycle.request.disks)


def _status(lacking: int, claims: tuple[DiskClaim, ...], earlier: tuple[str, ...]) -> Status:
    names = [claim.name for bit, claim in enumerate(claims) if lacking >> bit & 1]
    if names:
        told = [text for bit, text in enumerate(earlier) if text and lacking >> bit & 1]
        why = f" ({'; '.join(told)})" if told else ""
        return unschedulable(f"node(s) didn't have a free local disk for {', '.join(names)}{why}")
    return Status(Code.UNSCHEDULABLE, ("node(s) didn't have enough free local disks for all claims together",))


def _taken(cycle: Cycle, rows: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Return per node row the bytes that would be taken, and as bits the claims without any disk.

    NO_WAY stands for rows without an assignment. Only the asked rows are filled; what the filter found is found again
    by the score of the same cycle.
    """
    known = cycle.once(
        "LocalDiskFit/taken", lambda: (ints(len(cycle.snapshot.nodes), NO_WAY - 1), ints(len(cycle.snapshot.nodes)))
    )
    taken, lacking = known
    new = rows[taken[rows] == NO_WAY - 1]
    if len(new):
        _fill(cycle, new, taken, lacking)
    return known


def _fill(cycle: Cycle, rows: IntColumn, taken: IntColumn, lacking: IntColumn) -> None:
    """Judge these rows: by counting where that decides, else by matching."""
    snapshot, claims = cycle.snapshot, cycle.request.disks
    slots = slots_of(snapshot, rows)
    at = node_rows(snapshot, slots)
    slots, at = slots[at >= 0], at[at >= 0]
    masks = [usable(snapshot, cycle.request.holder, claim, slots) for claim in claims]
    taken[rows] = NO_WAY
    lacking[rows] = 0
    for bit, mask in enumerate(masks):
        served = np.bincount(at[mask], minlength=len(taken)) > 0
        lacking[rows] |= np.where(served[rows], 0, 1 << bit)
    if len(claims) == 1:
        smallest = ints(len(taken), np.iinfo(np.int64).max)
        np.minimum.at(smallest, at[masks[0]], snapshot.disks.size[slots[masks[0]]])
        taken[rows] = np.where(lacking[rows] == 0, smallest[rows], NO_WAY)
        return
    order = np.argsort(at, kind="stable")
    starts = np.searchsorted(at[order], rows)
    ends = np.searchsorted(at[order], rows, side="right")
    for row, start, end in zip(rows, starts, ends):
        if lacking[row] or end - start < len(claims):
            continue
        here = order[start:end]
        given = _assign(cycle, slots[here], [mask[here] for mask in masks])
        if given is not None:
            taken[row] = int(snapshot.disks.size[np.array(given)].sum())


def _assign(cycle: Cycle, slots: IntColumn, masks: list[BoolColumn]) -> list[int] | None:
    """Return the slot for each claim among the slots of one node.

    Disks by size, then name; smaller claims choose first.
    """
    table, claims = cycle.snapshot.disks, cycle.request.disks
    names = [disk.name if (disk := table.disks[int(slot)]) is not None else "" for slot in slots]
    order = sorted(range(len(slots)), key=lambda one: (int(table.size[slots[one]]), names[one]))
    by_size = sorted(range(len(claims)), key=lambda one: (claims[one].size_bytes, claims[one].name))
    fits = [[position for position, one in enumerate(order) if masks[claim][one]] for claim in by_size]
    given = assign_disks(fits)
    if given is None:
        return None
    chosen = {claim: int(slots[order[position]]) for claim, position in zip(by_size, given)}
    return [chosen[claim] for claim in range(len(claims))]
