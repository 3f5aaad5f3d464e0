"""Nodes that a scheduler chose in vain, and that give nothing to a class for a while.

CSIStorageCapacity tells the largest free disk of a node. It cannot tell that a pod wants two of them, or one of another
mode, or with certain labels; a scheduler that was sent away would choose the same node for ever. The binder puts such a
node here, capacities leaves it out: until the claims in question are bound or gone, and never for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable

#: A scheduler tries again within ten seconds; it may have to be sent away from several nodes.
SECONDS = 120.0


class HeldBack:
    """(node, class) -> for whose sake and until when. ``settled(claim)``: it is bound, or gone."""

    def __init__(self, settled: Callable[[Hashable], bool]) -> None:
        self._settled, self._loop = settled, asyncio.get_running_loop()
        self._entries: dict[tuple[str, str], tuple[frozenset[Hashable], float]] = {}

    def put(self, node: str, storage_class: str, claims: Collection[Hashable]) -> None:
        """Hold the node back for the sake of these claims."""
        self._entries[node, storage_class] = (frozenset(claims), self._loop.time() + SECONDS)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def places(self) -> set[tuple[str, str]]:
        """What is held back now."""
        now = self._loop.time()
        self._entries = {
            place: (claims, until)
            for place, (claims, until) in self._entries.items()
            if until > now and not all(self._settled(claim) for claim in claims)
        }
        return set(self._entries)

    def seconds(self) -> float | None:
        """Until the first of them gives again; None where there is none."""
        first = min((until for _claims, until in self._entries.values()), default=None)
        return None if first is None else max(0.1, first - self._loop.time())
