"""Placed: the sums of what was given to tasks, by node, kept as it changes: to add up ten thousand takes a while.

Whatever may have changed of a try is looked at anew before the sums are used; nothing is worked out from the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby

from berth_core.model.pod import Amounts
from berth_core.tasks import offers
from berth_core.tasks.account import ByCharge, Charge
from berth_core.tasks.offers import Free, Offer

Place = tuple[str, Amounts]


class Placed:
    """``place_of``: the node of a try, empty where that is not known, and what it takes; None: it takes nothing."""

    def __init__(self, place_of: Callable[[Charge], Place | None]) -> None:
        self._place_of = place_of
        self._places: ByCharge[Place] = ByCharge()
        #: What is taken on each node, as a negative amount of what is free.
        self._sums: dict[str, Free] = {}
        #: Those without a node, in the order in which they came.
        self._nowhere: dict[Charge, Amounts] = {}
        self._changed: ByCharge[None] = ByCharge()

    def look(self, charge: Charge) -> None:
        """Something may be otherwise of that try."""
        self._changed[charge] = None

    def subtract(self, found: Sequence[Offer]) -> None:
        """Take everything. Where a pod without a node will be nobody knows: it counts where there is room for it."""
        self._update()
        for offer in found:
            for name, value in self._sums.get(offer.node, {}).items():
                offer.free[name] = offer.free.get(name, 0) + value
        for requests, alike in groupby(self._nowhere.values()):
            offers.subtract_alike(found, requests, sum(1 for _one in alike))

    def _update(self) -> None:
        changed, self._changed = self._changed, ByCharge()
        for charge in changed:
            old, new = self._places.get(charge), self._place_of(charge)
            if old == new:
                continue
            if old is not None:
                self._count(charge, *old, -1)
                del self._places[charge]
            if new is not None:
                self._count(charge, *new, 1)
                self._places[charge] = _shared(*new)

    def _count(self, charge: Charge, node: str, requests: Amounts, sign: int) -> None:
        if node:
            offers.take(self._sums.setdefault(node, {}), requests, sign)
            if not any(self._sums[node].values()):
                del self._sums[node]
        elif sign > 0:
            self._nowhere[charge] = requests
        else:
            del self._nowhere[charge]


@lru_cache(maxsize=4096)
def _shared(node: str, requests: Amounts) -> Place:
    """Very many are alike."""
    return node, requests
