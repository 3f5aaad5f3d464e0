"""KubernetesTaskSchedulerBackend: what tasks may use now, who of those that wait gets it, and what became of them.

An amount is taken in the moment in which it is given, before the pod is made; the account gives it back when the pod is
over. Each change of a task's state is told to subscribers once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from berth_core.errors import AdmissionError, ApiError, BerthError, InvalidError
from berth_core.tasks import offers, states
from berth_core.tasks.account import Account
from berth_core.tasks.batch import Batch
from berth_core.tasks.held import TaskOffer
from berth_core.tasks.next_step import Start
from berth_core.tasks.offers import Offer, Policy, Queue
from berth_core.tasks.pods import PodState
from berth_core.tasks.snapshot import Difference
from berth_core.tasks.task import Task

from .kubernetes_client import KubernetesClient
from .nodes import Nodes

_log = logging.getLogger(__name__)

TaskKey = tuple[str, str]


class Update(NamedTuple):
    """A task has come to another state. ``tries``: how many have ended."""

    namespace: str
    name: str
    uid: str
    state: str
    tries: int


class Refusal(NamedTuple):
    """Why a task does not start. ``final``: it never will; ``waits``: it is asked for again in the next round."""

    reason: str
    message: str
    final: bool = False
    waits: bool = False


class OfferEvents(NamedTuple):
    """Who is told of TaskOffers, and must not wait."""

    given: Callable[[TaskOffer, str], None]
    waits: Callable[[TaskOffer, str, str], None]
    ended: Callable[[TaskOffer], None]


class KubernetesTaskSchedulerBackend:
    """Made inside a running loop. ``queues()``: the TaskQueues by namespace and name."""

    def __init__(
        self,
        client: KubernetesClient,
        nodes: Nodes,
        queues: Callable[[], Mapping[TaskKey, Queue]],
        policy: Policy,
    ) -> None:
        self._client, self._nodes, self._queues, self._policy = client, nodes, queues, policy
        self.account = Account()
        self._wanting: dict[TaskKey, tuple[Task, Start]] = {}
        #: TaskOffers that wait for their turn, and those that are held, by their names in a queue.
        self._asking: dict[TaskKey, TaskOffer] = {}
        self._held: dict[TaskKey, tuple[TaskOffer, str]] = {}
        self.offer_events: OfferEvents | None = None
        #: What was given, and on which node the pod is, where it is known.
        self._placed: dict[tuple[str, int], str] = {}
        self._queue_of: dict[str, str] = {}
        self._told: dict[str, tuple[str, int]] = {}
        self._subscribers: list[Callable[[Update], None]] = []

    # -- states out ------------------------------------------------------------------------------------------------

    def subscribe(self, call: Callable[[Update], None]) -> None:
        """``call`` must not wait; what it raises is told in the log."""
        self._subscribers.append(call)

    def status_update(self, task: Task, state: str) -> bool:
        """Report a state; False where it was told before. A state after a final one is none."""
        old = self._told.get(task.uid, ("", 0))
        new = (state, task.status.tries)
        if old == new or old[0] in states.FINAL:
            return False
        self._told[task.uid] = new
        for call in self._subscribers:
            try:
                call(Update(task.namespace, task.name, task.uid, *new))
            except Exception:  # noqa: BLE001 - a subscriber's fault is its own
                _log.exception("a subscriber failed on Task %s/%s", task.namespace, task.name)
        return True

    def forget(self, uid: str) -> None:
        """The task is gone."""
        self._told.pop(uid, None)
        self._queue_of.pop(uid, None)

    def know(self, task: Task) -> None:
        """The queue of a task, for the account of pods that were made by an earlier process."""
        if task.element is None:
            self._queue_of[task.uid] = f"{task.namespace}/{task.queue}"

    def know_batch(self, batch: Batch) -> None:
        """The queue of all elements of a batch."""
        self._queue_of[batch.uid] = f"{batch.namespace}/{batch.queue}"

    def _queue(self, uid: str) -> str:
        return self._queue_of.get(uid) or self._queue_of.get(uid.rpartition(".")[0], "")

    def running_of(self, batch: Batch) -> int:
        """How many tries of a batch's elements have resources now."""
        return sum(uid.rpartition(".")[0] == batch.uid for uid, _number in self.account.entries())

    # -- the account -----------------------------------------------------------------------------------------------

    def follow(self, changes: Sequence[Difference]) -> None:
        """For the store: what became of pods is in the account at once."""
        self.account.follow(changes, self._queue)
        for old, new in changes:
            if new is not None and not new.over:
                self._placed[new.charge] = new.node or self._placed.get(new.charge, "")
            elif old is not None or new is not None:
                self._placed.pop((new or old).charge, None)  # type: ignore[union-attr]

    # -- offers in -------------------------------------------------------------------------------------------------

    def revive_offers(self) -> list[Offer]:
        """What is free on each node now, less what was given to tasks."""
        free = self._nodes.free()
        unplaced = []
        for key, entry in self.account.entries().items():
            node = self._placed.get(key)
            if node and node in free:
                offers.take(free[node], entry.requests)
            elif not node:
                unplaced.append(entry.requests)
        found = [Offer(name, left) for name, left in sorted(free.items())]
        for requests in unplaced:
            offers.subtract(found, requests)
        return found

    def want(self, task: Task, start: Start) -> bool:
        """The task waits for its turn; False where it did before."""
        old = self._wanting.get(task.key)
        self._wanting[task.key] = (task, start)
        return old is None or (old[0].uid, old[0].content, old[1]) != (task.uid, task.content, start)

    def unwant(self, key: TaskKey) -> None:
        """It does not wait any more."""
        self._wanting.pop(key, None)

    @property
    def waiting(self) -> int:
        """Tasks that wait for their turn."""
        return len(self._wanting)

    @property
    def idle(self) -> bool:
        """Whether a round would change nothing."""
        return not (self._wanting or self._asking or self._held)

    # -- offers that programs hold ---------------------------------------------------------------------------------

    def ask(self, offer: TaskOffer) -> None:
        """The offer waits for its turn."""
        self._asking[offer.key] = offer

    def hold(self, offer: TaskOffer, node: str) -> None:
        """The room on that node is the offer's, until it is dropped or a Task takes it."""
        self._asking.pop(offer.key, None)
        self._held[offer.key] = (offer, node)
        self.account.charge(offer.charge, f"{offer.namespace}/{offer.queue}", offer.requests)
        self._placed[offer.charge] = node

    def drop(self, offer: TaskOffer) -> None:
        """Nobody holds it any more: what it took is free."""
        self._asking.pop(offer.key, None)
        self._held.pop(offer.key, None)
        self._placed.pop(offer.charge, None)
        self.account.give_back(offer.charge)

    def _end(self, offer: TaskOffer) -> None:
        self.drop(offer)
        if self.offer_events is not None:
            self.offer_events.ended(offer)

    def _rescind(self) -> None:
        """Room on a node that takes no pods any more is none."""
        whole = self._nodes.whole()
        for offer, node in list(self._held.values()):
            if node not in whole:
                self._end(offer)

    def _accepted(self) -> list[tuple[Task, Start]]:
        """Tasks whose offer is held: they have its room, before anybody else is asked."""
        found = []
        for key, (task, start) in list(self._wanting.items()):
            offer, node = self._held.get((task.namespace, f"offer({task.offer})"), (None, ""))
            if offer is None or offer.queue != task.queue or not offer.room_for(task.requests):
                continue
            self._end(offer)
            del self._wanting[key]
            self._placed[(task.uid, start.number)] = node
            found.append((task, start))
        return found

    def _offers_after(self, verdict: offers.Verdict) -> None:
        """What the verdict says of offers."""
        events = self.offer_events
        for wanted, node in verdict.admitted:
            if isinstance(wanted, TaskOffer) and events is not None:
                self.hold(wanted, node)
                events.given(wanted, node)
        for key, (reason, words) in verdict.waiting.items():
            if key in self._asking and events is not None:
                events.waits(self._asking[key], reason, words)

    # -- pods ------------------------------------------------------------------------------------------------------

    async def launch(
        self, started: Callable[[PodState], None], refused: Callable[[TaskKey, Start, Refusal], None]
    ) -> None:
        """Give what there is to those whose turn it is, and make their pods."""
        begun_before = [key for key, (task, start) in self._wanting.items() if (task.uid, start.number) in self.account]
        for key in begun_before:  # its pod is made, and the watch has yet to tell
            self.unwant(key)
        self._rescind()
        begun = self._accepted()
        self._charge(begun)
        verdict = self._admit()
        self._offers_after(verdict)
        for key, (reason, words) in verdict.waiting.items():
            if key in self._wanting:
                refused(key, self._wanting[key][1], Refusal(reason, words, waits=True))
        admitted = [self._wanting.pop(one.key) for one, _node in verdict.admitted if one.key in self._wanting]
        self._charge(admitted)
        begun += admitted
        await asyncio.gather(*(self._start(task, start, started, refused) for task, start in begun))

    def _admit(self) -> offers.Verdict:
        queues = self._queues()
        wanted: list[offers.Wants] = [*(task for task, _start in self._wanting.values()), *self._asking.values()]
        lines = {*queues, *((one.namespace, one.queue) for one in wanted)}
        used = {f"{ns}/{name}": self.account.used(f"{ns}/{name}") for ns, name in lines}
        return offers.admit(wanted, queues, used, self._nodes.whole(), self.revive_offers(), self._policy)

    def _charge(self, begun: Sequence[tuple[Task, Start]]) -> None:
        for task, start in begun:
            self.account.charge((task.uid, start.number), f"{task.namespace}/{task.queue}", task.requests)

    async def _start(
        self,
        task: Task,
        start: Start,
        started: Callable[[PodState], None],
        refused: Callable[[TaskKey, Start, Refusal], None],
    ) -> None:
        refusal = None
        try:
            started(await self._client.submit(task, start.number))
        except AdmissionError as exc:  # a quota: when others are done there is room
            final = "violates PodSecurity" in exc.message  # which no wait changes
            refusal = Refusal("TemplateRejected" if final else "NotAdmitted", exc.message, final)
        except InvalidError as exc:
            refusal = Refusal("TemplateRejected", exc.message, final=True)
        except BerthError as exc:
            final = isinstance(exc, ApiError) and exc.status == 400
            refusal = Refusal("TemplateRejected" if final else "NotMade", exc.message, final)
        if refusal is not None:
            self.account.give_back((task.uid, start.number))
            self._placed.pop((task.uid, start.number), None)
            refused(task.key, start, refusal)
