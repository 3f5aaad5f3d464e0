# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small numbers for values, so that a column can hold them. Called by the tables."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)


class Interner(Generic[Value]):
    """Gives each distinct value a number, from 0 on. Numbers are never given back."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._ids: dict[Value, int] = {}

    def id(self, value: Value) -> int:
        """Return the number of a value, a new one for a new value."""
        if value not in self._ids:
            self._ids[value] = len(self.values)
            self.values.append(value)
        return self._ids[value]

    def find(self, value: Value) -> int:
        """Return the number of a value, -1 for one that was never seen."""
        return self._ids.get(value, -1)
