"""Values that very many objects have alike, as texts that are read from JSON anew for each: one object for all."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

H = TypeVar("H", bound=Hashable)
#: So many are known; then it is begun anew, as most of them may be used no more.
MOST = 10_000


class Alike:
    """Not for values that are equal and of other types, as 1 and true are."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def one(self, value: H) -> H:
        """The value that is equal and was there before."""
        if len(self._known) > MOST:
            self._known.clear()
        found: H = self._known.setdefault(value, value)
        return found
