# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rows changed lately: for who knows the table as it was a moment ago. Kept by the snapshot.

Comparing the generations of all rows finds the same, and costs as much as there are rows.
"""

from __future__ import annotations

from bisect import bisect_right

MOST = 4096
"""Changes that are remembered at least; who has missed more compares all rows."""


class Journal:
    """Changes of rows by generation, ascending."""

    def __init__(self) -> None:
        self._generations: list[int] = []
        self._rows: list[int] = []
        self._forgotten = 0

    def note(self, generation: int, row: int) -> None:
        """Write down that a row changed."""
        self._generations.append(generation)
        self._rows.append(row)
        if len(self._rows) > 2 * MOST:
            self._forgotten = self._generations[-MOST - 1]
            del self._generations[:-MOST], self._rows[:-MOST]

    def since(self, generation: int, most: int = MOST) -> list[int] | None:
        """Return the rows that changed after a generation, ascending.

        None where that is not known any more, or there were more changes than `most`.
        """
        first = bisect_right(self._generations, generation)
        if generation < self._forgotten or len(self._rows) - first > most:
            return None
        return sorted(set(self._rows[first:]))

    def forget(self, generation: int) -> None:
        """Forget everything up to a generation: rows have moved."""
        self._generations, self._rows, self._forgotten = [], [], generation
