# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What queues take back of what they lent: which tries of borrowers are killed, the youngest first.

Only where the whole of what is owed fits afterwards; never more than it takes, and never so much that a borrower is
left with less than its own. What is on its way out already counts as given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..model.pod import Amounts
from . import offers as room
from .account import Charge
from .admission import Ledger
from .gangs import Unit
from .offers import Free, Offer
from .queues import Cohort, QueueKey


class Held(NamedTuple):
    """A try that has resources. `queue`: namespace/name; `node`: where they count; `going`: asked to go already.

    `started`: when its pod did, as the API server writes it; empty where it has not. `placed`: its pod is on the node.
    """

    charge: Charge
    queue: str
    requests: Amounts
    node: str
    started: str
    going: bool = False
    placed: bool = True

    @property
    def borrower(self) -> str:
        """The queue's name."""
        return self.queue.partition("/")[2]


def victims(owed: Iterable[Unit], ledger: Ledger, offers: Sequence[Offer], held: Iterable[Held]) -> list[Charge]:
    """The tries to kill. Ledger and offers are those that `admit` has left; neither is changed."""
    # Of tries that started in one second the one that was charged last goes first.
    youngest_first = sorted(held, key=lambda one: one.started or "~")[::-1]
    free = {offer.node: dict(offer.free) for offer in offers}
    cohorts: dict[str, Cohort] = {}
    for one in youngest_first:
        if one.going and one.node in free:
            room.take(free[one.node], one.requests, -1)
    chosen: list[Charge] = []
    behind: set[QueueKey] = set()
    for unit in owed:
        namespace, key = unit.first.namespace, (unit.first.namespace, unit.first.queue)
        mine = [one for one in youngest_first if one.queue.partition("/")[0] == namespace]
        if namespace not in cohorts:
            cohorts[namespace] = ledger.cohort(namespace).copy()
            for one in mine:
                if one.going:
                    cohorts[namespace].take(one.borrower, one.requests, -1)
        if key not in behind:
            trial = _Trial(unit, cohorts[namespace], free)
            if not trial.run([one for one in mine if not one.going and one.charge not in chosen]):
                behind.add(key)  # nothing comes back for the first of its queue, and so nothing for those behind it
            chosen += [one.charge for one in trial.gone]
    return chosen


class _Trial:
    """Who goes for one task or gang. What it gets and what they give is in cohort and `free` afterwards."""

    def __init__(self, unit: Unit, cohort: Cohort, free: dict[str, Free]) -> None:
        self._queue, self._requests, self._parts = unit.first.queue, unit.requests, unit.parts
        self._cohort, self._free = cohort, free
        #: A node that has room for a single one.
        self._at = self._room()
        self.gone: list[Held] = []

    def run(self, held: Iterable[Held]) -> bool:
        """Whether it fits when those have gone."""
        cohort = self._cohort
        if cohort.borrows(self._queue, self._requests):
            return False
        wanted = {name for name, value in self._requests if value}
        for one in held:
            if self._fits():
                break
            lent = cohort.borrows(one.borrower) & wanted & {name for name, value in one.requests if value}
            if one.borrower != self._queue and lent:
                self._release(one)
                self.gone.append(one)
        done = self._fits()
        for one in self.gone[::-1]:
            self._put_back(one)
            if done and not self._fits():
                self._release(one)
            else:
                self.gone.remove(one)
        if done:
            cohort.take(self._queue, self._requests)
            room.place([Offer(node, left) for node, left in self._free.items()], self._parts)
        return done

    def _fits(self) -> bool:
        if self._cohort.obstacle(self._queue, self._requests)[0]:
            return False
        if len(self._parts) == 1:
            return bool(self._at)
        return room.place([Offer(node, dict(left)) for node, left in self._free.items()], self._parts) == len(
            self._parts
        )

    def _room(self) -> str:
        return next((node for node, left in self._free.items() if room.fits(self._requests, left)), "")

    def _release(self, one: Held) -> None:
        self._count(one, -1)
        if not self._at and one.node in self._free and room.fits(self._requests, self._free[one.node]):
            self._at = one.node

    def _put_back(self, one: Held) -> None:
        self._count(one, 1)
        if one.node == self._at and not room.fits(self._requests, self._free[self._at]):
            self._at = self._room()

    def _count(self, one: Held, sign: int) -> None:
        self._cohort.take(one.borrower, one.requests, sign)
        if one.node in self._free:
            room.take(self._free[one.node], one.requests, sign)
