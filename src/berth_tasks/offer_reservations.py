"""OfferReservations: TaskOffers that wait for their turn, and those whose room on a node is reserved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from berth_core.tasks.account import Charge
from berth_core.tasks.admission import Verdict
from berth_core.tasks.bounds import demand_of
from berth_core.tasks.held import TaskOffer
from berth_core.tasks.next_step import Start
from berth_core.tasks.task import Task

from .allocations import Allocations
from .nodes import Nodes
from .quotas import Quotas
from .task_registry import TaskKey


class OfferEvents(NamedTuple):
    """Who is told of TaskOffers, and must not wait."""

    given: Callable[[TaskOffer, str], None]
    waits: Callable[[TaskOffer, str, str], None]
    ended: Callable[[TaskOffer], None]


class OfferReservations:
    """By the offers' names in a queue. ``events``: None until somebody is to be told."""

    def __init__(self, nodes: Nodes, quotas: Quotas, allocations: Allocations) -> None:
        self._nodes, self._quotas, self._allocations = nodes, quotas, allocations
        self._asking: dict[TaskKey, TaskOffer] = {}
        self._held: dict[TaskKey, tuple[TaskOffer, str]] = {}
        self.events: OfferEvents | None = None

    def __bool__(self) -> bool:
        return bool(self._asking or self._held)

    def asking(self) -> list[TaskOffer]:
        """Those that wait for their turn."""
        return list(self._asking.values())

    def ask(self, offer: TaskOffer) -> None:
        """The offer waits for its turn."""
        self._asking[offer.key] = offer

    def hold(self, offer: TaskOffer, node: str) -> None:
        """The room on that node is the offer's, until it is dropped or a Task takes it."""
        self._asking.pop(offer.key, None)
        self._held[offer.key] = (offer, node)
        self._allocations.account.charge(offer.charge, f"{offer.namespace}/{offer.queue}", offer.requests)
        self._allocations.place(offer.charge, node)
        self._quotas.ask(offer.charge, offer.namespace, demand_of(offer))

    def drop(self, offer: TaskOffer) -> None:
        """Nobody holds it any more: what it took is free."""
        self._asking.pop(offer.key, None)
        self._held.pop(offer.key, None)
        self._allocations.displace(offer.charge)
        self._quotas.drop(offer.charge)
        self._allocations.account.give_back(offer.charge)

    def _end(self, offer: TaskOffer) -> None:
        self.drop(offer)
        if self.events is not None:
            self.events.ended(offer)

    def rescind(self) -> None:
        """Room on a node that takes no pods any more is none."""
        whole = self._nodes.whole()
        for offer, node in list(self._held.values()):
            if node not in whole:
                self._end(offer)

    def accepted(self, waiting: Iterable[tuple[Task, Start]]) -> list[tuple[Task, Start]]:
        """Tasks whose offer is held: they have its room, before anybody else is asked."""
        found: list[tuple[Task, Start]] = []
        for task, start in waiting if self._held else ():
            offer, node = self._held.get((task.namespace, f"offer({task.asked.offer})"), (None, ""))
            if offer is None or offer.queue != task.queue or not offer.room_for(task.requests):
                continue
            self._end(offer)
            self._allocations.place((task.uid, start.number), node)
            found.append((task, start))
        return found

    def apply(self, verdict: Verdict, taken_back: Sequence[Charge]) -> None:
        """What the verdict says of offers. Room that a queue has borrowed goes back at once: nothing runs there."""
        for offer, _node in list(self._held.values()):
            if offer.charge in taken_back:
                self._end(offer)
        if self.events is None:
            return
        for wanted in verdict.admitted:
            if isinstance(wanted, TaskOffer):
                self.hold(wanted, verdict.nodes[wanted.key])
                self.events.given(wanted, verdict.nodes[wanted.key])
        for key, (reason, words) in verdict.waiting.items():
            if key in self._asking:
                self.events.waits(self._asking[key], reason, words)
