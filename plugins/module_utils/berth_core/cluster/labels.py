# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels as columns: for each key that somebody asks about, one column of value ids.

Owned by the node table. A condition is judged once per distinct value and then gathered, so that a selector over
thousands of nodes costs as many comparisons as there are different values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..model.labels import Requirement
from .columns import BoolColumn, IntColumn, ints, np

ABSENT = -1


class LabelColumns:
    """Columns of value ids per label key, built on first use. ABSENT where a row has no such label."""

    def __init__(self) -> None:
        self._rows: list[Mapping[str, str]] = []
        self._columns: dict[str, IntColumn] = {}
        self._ids: dict[str, dict[str, int]] = {}
        self._domains: dict[str, IntColumn] = {}

    def of(self, row: int) -> Mapping[str, str]:
        """Return the labels of a row."""
        return self._rows[row]

    def reset(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Take new rows; columns are built again when they are asked for."""
        self._rows = list(rows)
        self._forget()

    def insert(self, row: int, labels: Mapping[str, str]) -> None:
        """Take one more row."""
        self._rows.insert(row, labels)
        self._forget()

    def delete(self, row: int) -> None:
        """Take a row out."""
        del self._rows[row]
        self._forget()

    def _forget(self) -> None:
        self._columns.clear()
        self._ids.clear()
        self._domains.clear()

    def set_row(self, row: int, labels: Mapping[str, str]) -> None:
        """Replace the labels of one row."""
        self._rows[row] = labels
        self._domains.clear()
        for key, column in self._columns.items():
            column[row] = self._value_id(key, labels.get(key))

    def _value_id(self, key: str, value: str | None) -> int:
        if value is None:
            return ABSENT
        ids = self._ids[key]
        return ids.setdefault(value, len(ids))

    def ids(self, key: str) -> IntColumn:
        """Return the column of value ids of a key."""
        if key not in self._columns:
            self._ids[key] = {}
            column = ints(len(self._rows), ABSENT)
            for row, labels in enumerate(self._rows):
                column[row] = self._value_id(key, labels.get(key))
            self._columns[key] = column
        return self._columns[key]

    def size(self, key: str) -> int:
        """Return how many different values a key has; ids are smaller than that."""
        self.ids(key)
        return len(self._ids[key])

    def domains(self, key: str) -> IntColumn:
        """Return the column of value ids of a key with `size(key)` for rows without it: to count by."""
        self.ids(key)
        if key not in self._domains:
            ids, size = self._columns[key], len(self._ids[key])
            self._domains[key] = np.where(ids == ABSENT, size, ids)
        return self._domains[key]

    def sums(self, key: str, counts: IntColumn) -> IntColumn:
        """Return per value id the sum of a column; the last entry is that of rows without the key."""
        summed: IntColumn = np.bincount(self.domains(key), counts, self.size(key) + 1).astype(np.int64)
        return summed

    def find(self, key: str, value: str) -> int:
        """Return the id of a key's value, ABSENT where no row has it."""
        self.ids(key)
        return self._ids[key].get(value, ABSENT)

    def values(self, key: str) -> list[str]:
        """Return the values of a key; the position is the id."""
        self.ids(key)
        return list(self._ids[key])

    def among(self, keys: Sequence[str], values: Iterable[Sequence[str]], rows: IntColumn) -> BoolColumn:
        """Return which of the rows have under these keys one of the lists of values, of which there may be thousands.

        One condition after the other would be held against every value of every key.
        """
        columns = [self.ids(key)[rows].tolist() for key in keys]
        wanted = {tuple([self._ids[key].get(value) for key, value in zip(keys, one)]) for one in values}
        found: BoolColumn = np.array([one in wanted for one in zip(*columns)], dtype=np.bool_)
        return found

    def matches(self, requirement: Requirement, rows: IntColumn) -> BoolColumn:
        """Return which of the rows satisfy the condition."""
        ids = self.ids(requirement.key)[rows]
        # The verdict on a missing label stands last, where the id ABSENT (-1) finds it.
        verdicts = [requirement.accepts(value) for value in self._ids[requirement.key]]
        verdicts.append(requirement.accepts(None))
        found: BoolColumn = np.array(verdicts, dtype=np.bool_)[ids]
        return found
