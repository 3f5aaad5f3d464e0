# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node table: one row per node, sorted by name, one column per fact.

Owned by the snapshot, read by plugins. What is requested of a node is written here by the snapshot alone.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Any, Callable

from ..model.node import NodeInfo
from ..model.requests import CPU, EPHEMERAL, MEMORY, PODS
from ..model.taint import Taint
from .columns import BoolColumn, IntColumn, bools, ints, np, with_row
from .images import ImageSets
from .labels import LabelColumns

BASIC = (CPU, MEMORY, EPHEMERAL, PODS)


class NodeTable:
    """Columns of nodes. cpu in thousandths of a core, memory and storage in bytes, everything else counted."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.infos: list[NodeInfo] = []
        self._row_of: dict[str, int] | None = {}
        self.labels = LabelColumns()
        self.taint_sets: list[tuple[Taint, ...]] = []
        self._taint_ids: dict[tuple[Taint, ...], int] = {}
        self.taint_set: IntColumn = ints(0)
        self.unschedulable: BoolColumn = bools(0)
        self.images = ImageSets()
        self.generation: IntColumn = ints(0)
        self.described: IntColumn = ints(0)
        """Generations of the rows: of anything about them, and of the node object alone."""
        self.allocatable: dict[str, IntColumn] = {name: ints(0) for name in BASIC}
        self.requested: dict[str, IntColumn] = {name: ints(0) for name in BASIC}
        self.nonzero: dict[str, IntColumn] = {CPU: ints(0), MEMORY: ints(0)}
        self._everywhere: dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def row_of(self) -> dict[str, int]:
        """Return the rows by name: after rows have moved made when somebody asks, and not for each of many nodes."""
        if self._row_of is None:
            self._row_of = {name: row for row, name in enumerate(self.names)}
        return self._row_of

    def find(self, name: str) -> int | None:
        """Return a node's row; None for one that is not there."""
        row = bisect.bisect_left(self.names, name)
        return row if row < len(self.names) and self.names[row] == name else None

    def column(self, table: dict[str, IntColumn], name: str) -> IntColumn:
        """Return the column of a resource in `allocatable` or `requested`.

        One of zeros where nobody has or asked for it.
        """
        if name not in table:
            table[name] = ints(len(self))
        return table[name]

    def everywhere(self, resource: str) -> bool:
        """Tell whether every node has some of a resource."""
        known = self._everywhere.get(resource)
        if known is None:
            known = self._everywhere[resource] = bool(self.column(self.allocatable, resource).all())
        return known

    def fill(self, infos: Iterable[NodeInfo]) -> None:
        """Take all nodes at once, as from a list of the API."""
        self.infos = sorted(infos, key=lambda info: info.name)
        self.names, self._row_of = [info.name for info in self.infos], None
        self.labels.reset([dict(info.labels) for info in self.infos])
        size = len(self.infos)
        self.taint_set, self.unschedulable = ints(size), bools(size)
        self.generation, self.described = ints(size), ints(size)
        for table in (self.allocatable, self.requested, self.nonzero):
            for name in table:
                table[name] = ints(size)
        self.images = ImageSets.of([info.images for info in self.infos])
        for row, info in enumerate(self.infos):
            self._write(row, info)

    def insert(self, info: NodeInfo) -> int:
        """Add a node at its place in the order and return its row; all later rows move by one."""
        row = bisect.bisect_left(self.names, info.name)
        self._relayout(lambda column: with_row(column, row))
        if row < len(self.names):
            self._row_of = None
        elif self._row_of is not None:  # a list of the API comes in order: no other row moves
            self._row_of[info.name] = row
        self.infos.insert(row, info)
        self.names.insert(row, info.name)
        self.labels.insert(row, dict(info.labels))
        self.images.insert(row, info.images)
        self._write(row, info)
        return row

    def delete(self, name: str) -> None:
        """Take a node out; all later rows move by one."""
        row = self.row_of[name]
        self._everywhere.clear()
        self._relayout(lambda column: np.delete(column, row))
        self.images.give_back(self.infos[row].images)
        del self.infos[row], self.names[row]
        self.labels.delete(row)
        self._row_of = None

    def replace(self, row: int, info: NodeInfo) -> None:
        """Write new facts of a node that stays where it is."""
        self.images.replace(row, self.infos[row].images, info.images)
        self.infos[row] = info
        self.labels.set_row(row, dict(info.labels))
        self._write(row, info)

    def _relayout(self, change: Callable[[Any], Any]) -> None:
        self.taint_set, self.unschedulable = change(self.taint_set), change(self.unschedulable)
        self.generation, self.described = change(self.generation), change(self.described)
        self.images.relayout(change)
        for table in (self.allocatable, self.requested, self.nonzero):
            for name in table:
                table[name] = change(table[name])

    def _write(self, row: int, info: NodeInfo) -> None:
        if info.taints not in self._taint_ids:
            self._taint_ids[info.taints] = len(self.taint_sets)
            self.taint_sets.append(info.taints)
        self.taint_set[row] = self._taint_ids[info.taints]
        self.unschedulable[row] = info.unschedulable
        self._everywhere.clear()
        for column in self.allocatable.values():
            column[row] = 0
        for name, value in info.allocatable:
            self.column(self.allocatable, name)[row] = value
