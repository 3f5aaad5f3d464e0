# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a queue could have on each node now, when it is its turn: offers without a size that was asked for beforehand.

The rules are those of a round and are written there: those whose turn is sooner are given theirs by `admit`, and how
much of a resource is left to the queue is found by asking its obstacles, the quotas and the ceiling about amounts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Callable, NamedTuple

from ..errors import StateError
from ..model.pod import Amounts
from ..model.requests import CPU, PODS
from . import offers as room
from .admission import Ledger, admit
from .gangs import Members, Unit
from .offers import Free, Offer, Wants
from .policies import DEFAULT, Policies


class Probe(NamedTuple):
    """Who waits at the end of a queue, and asks for nothing yet."""

    namespace: str
    queue: str
    requests: Amounts = ()
    priority: int = -sys.maxsize
    created: str = "~"
    name: str = ""
    gang: None = None
    gang_key: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What it is called in a queue: no Task and no TaskOffer can have that name."""
        return self.namespace, "offers()"


def revived(
    probe: Probe,
    tasks: Iterable[Wants],
    ledger: Ledger,
    nodes: Mapping[str, Mapping[str, int]],
    offers: Sequence[Offer],
    policies: Policies = DEFAULT,
    members: Mapping[str, Members] | None = None,
    most: int = sys.maxsize,
) -> list[Offer]:
    """One offer a node; all together are no more than the queue may have, and `most` pods. The rest is as in `admit`.

    None where others are before the queue for whatever is free, or one of its own waits for room. What the queue would
    borrow is offered only while nobody else waits. Raises StateError where nothing of the queue is given at all.
    `ledger` and `offers` are changed.
    """
    verdict = admit([*tasks, probe], ledger, nodes, offers, policies, members, most=most, until=probe.key)
    if probe.key in verdict.waiting:
        raise StateError(": ".join(verdict.waiting[probe.key]))
    if not verdict.reached:
        return []
    left = _left(probe, ledger, room.total(offer.free for offer in offers), most, borrows=not verdict.full)
    return [part for offer in offers for part in _part(offer, left)]


def _left(probe: Probe, ledger: Ledger, free: Mapping[str, int], most: int, borrows: bool) -> Free:
    """How much of each resource the queue may have, of what is free."""
    cohort = ledger.cohort(probe.namespace)

    def may_have(name: str, value: int) -> bool:
        requests = ((name, value),)
        if cohort.obstacle(probe.queue, requests)[0] or (not borrows and cohort.borrows(probe.queue, requests)):
            return False
        return not ledger.bounds.obstacle(Unit((probe._replace(requests=requests),)))[0]

    def may_be(count: int) -> bool:  # a quota can count pods that ask for something, and no others
        return not ledger.bounds.obstacle(Unit((probe._replace(requests=((CPU, 1),)),) * count))[0]

    found = {name: _largest(value, lambda v, name=name: may_have(name, v)) for name, value in free.items()}  # type: ignore[misc]
    found[PODS] = _largest(min(free.get(PODS, 0), most), may_be)
    return found


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest amount from 1 to `most` that fits, where all smaller ones do; 0 where none does."""
    low, high = 0, max(0, most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _part(offer: Offer, left: Free) -> list[Offer]:
    """What is offered of one node; that is subtracted from what is left to the queue."""
    part = {name: min(value, left[name]) for name, value in offer.free.items()}
    part = {name: value for name, value in part.items() if value > 0}
    if PODS not in part or len(part) < 2:
        return []
    for name, value in part.items():
        left[name] -= value
    return [Offer(offer.node, part)]
