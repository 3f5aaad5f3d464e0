# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Columns that are kept from one request to the next, and evaluated again only where they are stale.

Called by framework/cycle.py. The columns live in `Snapshot.memo`; a column knows for each row at which generation of
the row it was computed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Callable

from ..cluster.columns import IntColumn, ints, np
from ..cluster.snapshot import Snapshot
from .contract import Dirt, Status, Verdict

MAX_COLUMNS = 512
"""Columns kept; beyond it the one used longest ago goes. At 5,000 nodes a column takes 80 kB."""


class _Column:
    """Values of all rows, and the generation of the row for which each was computed (-1: never)."""

    def __init__(self, length: int, layout: int, topology: int) -> None:
        self.values = ints(length)
        self.seen = ints(length, -1)
        self.layout, self.topology = layout, topology
        self.table: list[Status] = []


class ColumnMemo:
    """The kept columns of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def _column(self, key: Hashable, dirt: Dirt) -> _Column:
        memo, snapshot = self._snapshot.memo, self._snapshot
        found = memo.pop(key, None)
        column: _Column | None = found if isinstance(found, _Column) else None
        if column is not None and (
            column.layout != snapshot.layout_generation
            or (dirt is Dirt.TOPOLOGY and column.topology != snapshot.topology_generation)
        ):
            column = None
        if column is None:
            column = _Column(len(snapshot.nodes), snapshot.layout_generation, snapshot.topology_generation)
        memo[key] = column
        while len(memo) > MAX_COLUMNS:
            del memo[next(iter(memo))]
        return column

    def _stale(self, column: _Column, dirt: Dirt, rows: IntColumn) -> IntColumn:
        seen = column.seen[rows]
        stale: IntColumn = rows[seen < self._snapshot.nodes.generation[rows] if dirt is Dirt.ROW else seen < 0]
        return stale

    def verdict(
        self, key: Hashable, dirt: Dirt, rows: IntColumn, judge: Callable[[IntColumn], Verdict]
    ) -> tuple[Verdict, int]:
        """Return the verdict on these rows, and on how many the filter itself was asked."""
        if dirt is Dirt.ALL:
            return judge(rows), len(rows)
        column = self._column(("filter", key), dirt)
        stale = self._stale(column, dirt, rows)
        if len(stale):
            fresh = judge(stale)
            renumber = np.array([_intern(column.table, status) for status in fresh.table], dtype=np.int64)
            column.values[stale] = renumber[fresh.codes]
            column.seen[stale] = self._snapshot.nodes.generation[stale]
        return Verdict(column.values[rows], tuple(column.table)), len(stale)

    def scores(
        self, key: Hashable, dirt: Dirt, rows: IntColumn, rate: Callable[[IntColumn], IntColumn]
    ) -> tuple[IntColumn, int]:
        """Return the raw scores of these rows, and how many the plugin itself was asked for."""
        if dirt is Dirt.ALL:
            return rate(rows), len(rows)
        column = self._column(("score", key), dirt)
        stale = self._stale(column, dirt, rows)
        if len(stale):
            column.values[stale] = rate(stale)
            column.seen[stale] = self._snapshot.nodes.generation[stale]
        return column.values[rows], len(stale)


def _intern(table: list[Status], status: Status) -> int:
    if status not in table:
        table.append(status)
    return table.index(status)
