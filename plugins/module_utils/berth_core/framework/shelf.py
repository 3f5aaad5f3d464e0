# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept from one request to the next, bounded by bytes: what was used longest ago goes first.

Lives in `Snapshot.memo`; called by framework/kept.py. Never looks inside what it keeps.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Callable, Protocol, TypeVar

MAX_BYTES = 32 << 20
"""About 600 shapes of pods at 5,000 nodes; more shapes are judged anew when their turn comes."""


class Sized(Protocol):
    """Something with a size."""

    @property
    def nbytes(self) -> int:
        """Return the size in bytes, once and for all."""


Thing = TypeVar("Thing", bound=Sized)


class Shelf:
    """Things by key."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._limit, self._bytes = limit, 0
        self._kept: dict[Hashable, Any] = {}
        self._newest: Any = None

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """Return how many bytes are kept."""
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], Thing]) -> Thing:
        """Return what is kept under a key, making it where there is nothing. The newest is kept, whatever its size."""
        found: Thing | None = self._kept.pop(key, None)
        if found is None:
            found = make()
            self._bytes += found.nbytes
        self._newest = self._kept[key] = found
        while self._bytes > self._limit and len(self._kept) > 1:
            self._bytes -= self._kept.pop(next(iter(self._kept))).nbytes
        return found

    def find(self, key: Hashable) -> Any:
        """Return what is kept under a key, None where there is nothing."""
        found = self._kept.get(key)
        if found is not None and found is not self._newest:
            self._newest = self._kept[key] = self._kept.pop(key)
        return found

    def drop(self, key: Hashable) -> None:
        """Forget what is kept under a key."""
        self._bytes -= self._kept.pop(key).nbytes

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._bytes = 0
