# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which local disks a claim can use, and why not the others: columns over the disk table.

Called by LocalDiskFit. Own disks (locked or left with data by this very replica and claim) come before free ones:
where there is one, no other disk will do, for the data is there.
"""

from __future__ import annotations

from typing import Callable

from ..cluster.columns import BoolColumn, IntColumn, bools, ints, np
from ..cluster.disks import NOBODY, DiskTable, Hold, Owner, owner_of
from ..cluster.snapshot import Snapshot
from ..framework.contract import ObjectVerdict
from ..model.disk import Condition, LocalDisk
from ..model.placement import DiskClaim, Holder
from ..model.quantity import format_bytes
from ..model.tenant import how_to_free

Check = tuple[str, BoolColumn, Callable[[LocalDisk], str]]
"""(reason, disks that it refuses, the particular of one disk)"""

#: Disks of earlier tenants that one refusal names.
_TOLD = 2
_CONDITIONS = {
    Condition.RESERVED: "reserved",
    Condition.PENDING: "not observed yet",
    Condition.FAULTED: "Faulted",
    Condition.MISSING: "Missing",
    Condition.UNHEALTHY: "unhealthy",
    Condition.TERMINATING: "being deleted",
    Condition.IN_USE: "in use without a lock",
    Condition.WIPING: "to be wiped",
    Condition.CORDONED: "cordoned",
    Condition.STALE: "not looked at since the lock went",
    Condition.VOLUME_LEFT: "below a PersistentVolume whose lock is gone",
}


def own_disks(snapshot: Snapshot, holder: Holder | None, claim: DiskClaim) -> list[LocalDisk]:
    """Return the disks that this replica's claim has; a lock counts before data left behind."""
    owner = _owner(holder, claim)
    if owner is None:
        return []
    owned = snapshot.disks.own(owner, snapshot.tenant(owner[0], claim.pod_uid))
    slots, hold = snapshot.disks.slot_of, snapshot.disks.hold
    locked = [disk for disk in owned if hold[slots[disk.name]] == Hold.LOCKED]
    return locked or owned


def of_earlier(snapshot: Snapshot, holder: Holder | None, claim: DiskClaim) -> list[LocalDisk]:
    """Return the disks with data under this claim's own names that is an earlier namespace's or pod's."""
    owner = _owner(holder, claim)
    if owner is None:
        return []
    found = snapshot.disks.of_namesake(owner, snapshot.tenant(owner[0], claim.pod_uid))
    return [disk for disk in found if disk.claim_ref is None]


def about_earlier(snapshot: Snapshot, holder: Holder | None, claim: DiskClaim) -> str:
    """Return what is said of these disks, with the way out; "" for most claims."""
    disks = of_earlier(snapshot, holder, claim)
    if not disks:
        return ""
    namespace = disks[0].retained_for.namespace if disks[0].retained_for is not None else ""
    tenant = snapshot.tenant(namespace, claim.pod_uid)
    return "; ".join(
        f"LocalDisk {disk.name} keeps the data of {disk.retained_for} {tenant.difference(disk.tenant)}; where nobody "
        f"needs it: {how_to_free(disk.name)}"
        for disk in disks[:_TOLD]
    )


def _owner(holder: Holder | None, claim: DiskClaim) -> Owner | None:
    return claim.owner or (owner_of(holder, claim.name) if holder is not None else None)


def usable(snapshot: Snapshot, holder: Holder | None, claim: DiskClaim, slots: IntColumn) -> BoolColumn:
    """Return which of these disk slots the claim can use."""
    table = snapshot.disks
    found: BoolColumn = (table.condition[slots] == Condition.GOOD) & _suitable(table, claim, slots)
    own = own_disks(snapshot, holder, claim)
    if own:
        found &= np.isin(slots, [table.slot_of[disk.name] for disk in own])
    else:
        found &= table.owner[slots] == NOBODY
    return found


def _suitable(table: DiskTable, claim: DiskClaim, slots: IntColumn) -> BoolColumn:
    found = (table.size[slots] >= claim.size_bytes) & (table.mode[slots] == table.modes.find(claim.volume_mode))
    if claim.storage_class is not None:
        found &= table.storage_class[slots] == table.classes.find(claim.storage_class)
    if claim.fs_type and claim.volume_mode != "Block":
        wanted, any_type = table.filesystems.find(claim.fs_type), table.filesystems.find("")
        found &= (table.filesystem[slots] == wanted) | (table.filesystem[slots] == any_type)
    if claim.selector is not None:
        found &= _labels_match(table, claim)[slots]
    if claim.disk_names:
        named = [table.slot_of[name] for name in claim.disk_names if name in table.slot_of]
        found &= np.isin(slots, named)
    result: BoolColumn = found
    return result


def _labels_match(table: DiskTable, claim: DiskClaim) -> BoolColumn:
    selector = claim.selector
    return table.in_label_sets([selector is None or selector.matches(dict(one)) for one in table.label_sets.values])


def node_rows(snapshot: Snapshot, slots: IntColumn) -> IntColumn:
    """Return the node row of each slot; -1 for a disk of an unknown node."""
    row_of, names = snapshot.nodes.row_of, snapshot.disks.nodes.values
    ids = snapshot.disks.node[slots]
    if len(slots) < len(names):
        # A few dirty rows: looking up their disks one by one is cheaper than every node of the cluster.
        return np.array([row_of.get(names[int(one)], -1) for one in ids], dtype=np.int64)
    rows = [row_of.get(name, -1) for name in names]
    found: IntColumn = np.array(rows, dtype=np.int64)[ids] if rows else ints(len(slots), -1)
    return found


def slots_of(snapshot: Snapshot, rows: IntColumn) -> IntColumn:
    """Return the slots of the disks on these rows, or all when most rows are asked for: cheaper than gathering."""
    if 4 * len(rows) > len(snapshot.nodes):
        return np.arange(len(snapshot.disks), dtype=np.int64)
    names, on_node = snapshot.nodes.names, snapshot.disks.on_node
    gathered = [slot for row in rows for slot in on_node.get(names[int(row)], ())]
    return np.array(gathered, dtype=np.int64)


def disk_verdicts(snapshot: Snapshot, holder: Holder | None, claim: DiskClaim) -> tuple[ObjectVerdict, ...]:
    """Judge every disk for a claim: the first reason that applies.

    A pinned disk is judged by its state first, others by their kind.
    """
    table = snapshot.disks
    slots = np.arange(len(table), dtype=np.int64)
    state, kind = _state_checks(snapshot, holder, claim, slots), _kind_checks(table, claim, slots)
    verdicts = []
    for slot, disk in enumerate(table.disks):
        if disk is None or (claim.disk_names and disk.name not in claim.disk_names):
            continue
        checks = state + kind if claim.disk_names else kind + state
        failed = next(((reason, detail) for reason, refused, detail in checks if refused[slot]), None)
        reason, detail = (failed[0], failed[1](disk)) if failed else ("", "")
        verdicts.append(
            ObjectVerdict("LocalDisk", disk.name, disk.node_name, claim.name, failed is None, reason, detail)
        )
    unknown = [name for name in claim.disk_names if name not in table.slot_of]
    verdicts += [ObjectVerdict("LocalDisk", name, "", claim.name, False, "not found") for name in unknown]
    return tuple(sorted(verdicts, key=lambda one: (one.node, one.name)))


def _state_checks(snapshot: Snapshot, holder: Holder | None, claim: DiskClaim, slots: IntColumn) -> list[Check]:
    table = snapshot.disks
    condition = table.view(table.condition)
    checks: list[Check] = [(words, condition == code, _more_of) for code, words in _CONDITIONS.items()]
    own = own_disks(snapshot, holder, claim)
    mine = np.isin(slots, [table.slot_of[disk.name] for disk in own]) if own else bools(len(slots))
    hold = table.view(table.hold)
    checks.append(("held", (hold == Hold.LOCKED) & ~mine, lambda disk: f"by {_holder_of(table, disk)}"))
    earlier = [table.slot_of[disk.name] for disk in of_earlier(snapshot, holder, claim)]
    if earlier:
        words = "with data of an earlier namespace or pod of that name"
        checks.append((words, np.isin(slots, earlier), lambda disk: f"of {disk.retained_for}"))
    checks.append(
        ("with data of another replica", (hold == Hold.RETAINED) & ~mine, lambda disk: f"of {disk.retained_for}")
    )
    if own:
        where = ", ".join(disk.name for disk in own)
        checks.append((f"without this replica's data, which is on {where}", ~mine, lambda _disk: ""))
    return checks


def _more_of(disk: LocalDisk) -> str:
    """The particular of a condition."""
    if not disk.healthy:
        return f"({disk.health})"
    return f"({disk.volume})" if disk.volume else ""


def _holder_of(table: DiskTable, disk: LocalDisk) -> str:
    if disk.claim_ref is not None:
        return str(disk.claim_ref)
    namespace, app, ordinal, _claim = table.owners.values[int(table.owner[table.slot_of[disk.name]])]
    return str(Holder(namespace, app, ordinal))


def _kind_checks(table: DiskTable, claim: DiskClaim, slots: IntColumn) -> list[Check]:
    checks: list[Check] = []
    if claim.storage_class is not None:
        other = table.storage_class[slots] != table.classes.find(claim.storage_class)
        checks.append(("of another class", other, lambda disk: f"is {disk.storage_class or 'without class'}"))
    other = table.mode[slots] != table.modes.find(claim.volume_mode)
    checks.append(("of another volumeMode", other, lambda disk: f"is {disk.volume_mode}"))
    if claim.fs_type and claim.volume_mode != "Block":
        wanted = (table.filesystems.find(claim.fs_type), table.filesystems.find(""))
        other = ~np.isin(table.filesystem[slots], wanted)
        checks.append(("of another filesystem", other, lambda disk: f"is {disk.fs_type}"))
    if claim.selector is not None:
        checks.append(("not selected by label", ~_labels_match(table, claim), lambda _disk: ""))
    too_small = table.size[slots] < claim.size_bytes
    checks.append(
        ("too small", too_small, lambda disk: f"{format_bytes(disk.size)} of {format_bytes(claim.size_bytes)}")
    )
    return checks
