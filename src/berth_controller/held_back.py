"""Nodes that a scheduler chose in vain, and that give nothing to a class for a while.

CSIStorageCapacity tells the largest free disk of a node. It cannot tell that a pod wants two of them, or one of another
mode, or with certain labels; a scheduler that was sent away would choose the same node for ever. The binder puts such a
node here, capacities leaves it out: until the claims in question are bound or gone, and never for long. Then it is
shown for a while whatever those claims do: a pod that fits nowhere must not hide the disks from pods that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable

#: A scheduler tries again within ten seconds; it may have to be sent away from several nodes.
SECONDS = 60.0
#: How long the same claims may not hide the node again: long enough for a scheduler to try every pod that waits.
SHOWN = 30.0


class HeldBack:
    """(node, class) -> for whose sake and until when. ``settled(claim)``: it is bound, or gone. ``now``: seconds."""

    def __init__(self, settled: Callable[[Hashable], bool], now: Callable[[], float]) -> None:
        self._settled, self._now = settled, now
        self._entries: dict[tuple[str, str], tuple[frozenset[Hashable], float]] = {}

    def put(self, node: str, storage_class: str, claims: Collection[Hashable]) -> None:
        """Hold the node back for the sake of these claims; not where they have just held it back."""
        self._tidy()
        now, wanted = self._now(), frozenset(claims)
        before, until = self._entries.get((node, storage_class), (frozenset(), 0.0))
        if before & wanted and until <= now:
            return
        self._entries[node, storage_class] = (wanted, now + SECONDS)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def places(self) -> set[tuple[str, str]]:
        """What is held back now."""
        self._tidy()
        now = self._now()
        return {place for place, (_claims, until) in self._entries.items() if until > now}

    def seconds(self) -> float | None:
        """Until the first of them gives again; None where there is none."""
        now = self._now()
        first = min((until for _claims, until in self._entries.values() if until > now), default=None)
        return None if first is None else max(0.1, first - now)

    def _tidy(self) -> None:
        now = self._now()
        self._entries = {
            place: (claims, until)
            for place, (claims, until) in self._entries.items()
            if until + SHOWN > now and not all(self._settled(claim) for claim in claims)
        }
