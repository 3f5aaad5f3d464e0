# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk table: one slot per LocalDisk, with everything that decides whether it can be given out as a column.

Owned by the snapshot, read by the plugin LocalDiskFit. Slots do not move; a slot whose disk is gone is used again.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from ..model.disk import Condition, LocalDisk, condition_of
from ..model.placement import Holder
from ..model.tenant import Tenant
from .columns import BoolColumn, IntColumn, bools, ints, np
from .intern import Interner

NOBODY = -1
Labels = tuple[tuple[str, str], ...]


class Hold(IntEnum):
    """What an owner has of a disk."""

    NONE = 0
    LOCKED = 1
    RETAINED = 2


Owner = tuple[str, str, int, str]
"""(namespace, app, ordinal, claim)"""


def owner_of(holder: Holder, claim: str) -> Owner:
    """Return the key under which a replica's claim owns a disk."""
    return holder.namespace, holder.app, holder.ordinal, claim


class DiskTable:
    """Columns of disks. `size` in bytes."""

    def __init__(self) -> None:
        self.disks: list[LocalDisk | None] = []
        self.slot_of: dict[str, int] = {}
        self.on_node: dict[str, list[int]] = {}
        self.nodes: Interner[str] = Interner()
        self.classes: Interner[str] = Interner()
        self.modes: Interner[str] = Interner()
        self.filesystems: Interner[str] = Interner()
        self.label_sets: Interner[Labels] = Interner()
        self.owners: Interner[Owner] = Interner()
        self.owned: dict[Owner, set[int]] = {}
        self._free: list[int] = []
        self._assumed: dict[str, Owner] = {}
        self._over: dict[str, set[str]] = {}
        self._below: dict[str, str] = {}
        self._grow(0)

    def _grow(self, size: int) -> None:
        for name in ("node", "size", "storage_class", "mode", "filesystem", "label_set", "condition", "owner", "hold"):
            column = ints(size)
            old = getattr(self, name, column)
            column[: len(old)] = old
            setattr(self, name, column)

    node: IntColumn
    size: IntColumn
    storage_class: IntColumn
    mode: IntColumn
    filesystem: IntColumn
    label_set: IntColumn
    condition: IntColumn
    owner: IntColumn
    hold: IntColumn

    def __len__(self) -> int:
        return len(self.disks)

    def upsert(self, disk: LocalDisk) -> None:
        """Add a disk or write its new facts."""
        slot, disk = self.slot_of.get(disk.name), self._with_volume(disk)
        if slot is None:
            slot = self._new_slot()
            self.slot_of[disk.name] = slot
        elif (old := self.disks[slot]) is not None:
            self.on_node[old.node_name].remove(slot)
        self.disks[slot] = disk
        self.on_node.setdefault(disk.node_name, []).append(slot)
        self.node[slot] = self.nodes.id(disk.node_name)
        self.size[slot] = disk.size
        self.storage_class[slot] = self.classes.id(disk.storage_class)
        self.mode[slot] = self.modes.id(disk.volume_mode)
        self.filesystem[slot] = self.filesystems.id(disk.fs_type)
        self.label_set[slot] = self.label_sets.id(disk.labels)
        self.condition[slot] = condition_of(disk)
        self._write_owner(slot, disk)

    def _with_volume(self, disk: LocalDisk) -> LocalDisk:
        """The disk with the volume that has stayed over it, where nobody is on record for the disk."""
        if not disk.unowned:
            return disk
        over = min(self._over.get(disk.name, ()), default="")
        return disk if over == disk.volume else replace(disk, volume=over)

    def cover(self, volume: str, name: str) -> list[str]:
        """Note that a volume stands for the disk of that name, "" for none. Return the nodes of disks it changes."""
        before = self._below.pop(volume, "")
        if name:
            self._below[volume] = name
        if before == name:
            return []
        if before:
            self._over[before].discard(volume)
            if not self._over[before]:
                del self._over[before]
        if name:
            self._over.setdefault(name, set()).add(volume)
        return [node for one in (before, name) if one for node in self._judge_anew(one)]

    def _judge_anew(self, name: str) -> list[str]:
        slot = self.slot_of.get(name)
        old = None if slot is None else self.disks[slot]
        if slot is None or old is None:
            return []
        disk = self._with_volume(old)
        if disk is old:
            return []
        self.disks[slot], self.condition[slot] = disk, condition_of(disk)
        return [disk.node_name]

    def remove(self, name: str) -> LocalDisk | None:
        """Take a disk out; return what it was."""
        slot = self.slot_of.pop(name, None)
        if slot is None:
            return None
        disk = self.disks[slot]
        if disk is not None:
            self.on_node[disk.node_name].remove(slot)
        self._disown(slot)
        self.disks[slot] = None
        self.condition[slot] = Condition.GONE
        self._free.append(slot)
        return disk

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self.disks.append(None)
        if len(self.disks) > len(self.size):
            self._grow(max(64, 2 * len(self.disks)))
            self.condition[len(self.disks) - 1 :] = Condition.GONE
        self.owner[len(self.disks) - 1] = NOBODY
        return len(self.disks) - 1

    def _disown(self, slot: int) -> None:
        if self.owner[slot] != NOBODY:
            self.owned[self.owners.values[int(self.owner[slot])]].discard(slot)
        self.owner[slot], self.hold[slot] = NOBODY, Hold.NONE

    def _write_owner(self, slot: int, disk: LocalDisk) -> None:
        self._disown(slot)
        owner: Owner | None = None
        hold = Hold.LOCKED
        if disk.claim_ref is not None:
            ref = disk.claim_ref
            owner = (ref.namespace, ref.app, ref.ordinal, ref.claim)
        elif disk.name in self._assumed:
            owner = self._assumed[disk.name]
        elif disk.retained_for is not None:
            kept = disk.retained_for
            owner, hold = (kept.namespace, kept.app, kept.ordinal, kept.claim), Hold.RETAINED
        if owner is not None:
            self.owner[slot], self.hold[slot] = self.owners.id(owner), hold
            self.owned.setdefault(owner, set()).add(slot)

    def assume(self, name: str, owner: Owner | None) -> None:
        """Treat a disk as locked by an owner (None: no longer), until the object itself says who holds it."""
        if owner is None:
            self._assumed.pop(name, None)
        else:
            self._assumed[name] = owner
        slot = self.slot_of.get(name)
        disk = None if slot is None else self.disks[slot]
        if slot is not None and disk is not None:
            self._write_owner(slot, disk)

    def own(self, owner: Owner, tenant: Tenant) -> list[LocalDisk]:
        """Return the disks that a replica's claim holds or left data on, sorted by name."""
        return [disk for disk in self._named(owner) if _is_of(disk, tenant)]

    def of_namesake(self, owner: Owner, tenant: Tenant) -> list[LocalDisk]:
        """Return the disks whose record has the owner's names and is another tenant's, sorted by name."""
        return [disk for disk in self._named(owner) if not _is_of(disk, tenant)]

    def _named(self, owner: Owner) -> list[LocalDisk]:
        slots = self.owned.get(owner)
        if not slots:
            return []
        disks = [self.disks[slot] for slot in slots]
        return sorted((disk for disk in disks if disk is not None), key=lambda disk: disk.name)

    def view(self, column: IntColumn) -> IntColumn:
        """Return the used part of a column."""
        return column[: len(self.disks)]

    def in_label_sets(self, verdicts: list[bool]) -> BoolColumn:
        """Spread a verdict per distinct label set over all disks."""
        if not verdicts:
            return bools(len(self))
        found: BoolColumn = np.array(verdicts, dtype=np.bool_)[self.view(self.label_set)]
        return found


def _is_of(disk: LocalDisk, tenant: Tenant) -> bool:
    """A disk without a record is one that is assumed to be the asker's."""
    return disk.unowned or tenant.may_have(disk.tenant)
