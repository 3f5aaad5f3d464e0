"""KubernetesTaskSchedulerBackend: what tasks may use now, who of those that wait gets it, and what became of them.

A round gives what is free to those whose turn it is and makes their pods. What was given is kept by allocations.py,
what is known of tasks by task_registry.py, and the room of TaskOffers by offer_reservations.py.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from berth_core.errors import BerthError
from berth_core.model.requests import PODS
from berth_core.tasks import offers
from berth_core.tasks.account import Charge
from berth_core.tasks.admission import Ledger, Verdict, admit
from berth_core.tasks.batch import Batch
from berth_core.tasks.bounds import EXCEEDED_QUOTA, Bounds, demand_of
from berth_core.tasks.next_step import Start
from berth_core.tasks.offers import Offer
from berth_core.tasks.pods import PodState
from berth_core.tasks.policies import Policies
from berth_core.tasks.queues import Queue
from berth_core.tasks.reclaim import Held, victims
from berth_core.tasks.revived import Probe, revived
from berth_core.tasks.task import DEFAULT_QUEUE, Task

from .allocations import Allocations
from .evictions import Evictions
from .filler_admission import FillerAdmission
from .gangs import Gangs
from .kubernetes_client import KubernetesClient
from .nodes import Nodes
from .offer_reservations import OfferReservations
from .quotas import GRACE, Quotas
from .refusals import Refusal, refusal_of, waits
from .task_registry import Subscriber, TaskKey, TaskRegistry, split_queue
from .usage import Usage

#: Tasks that begin in one round, which ends when all their pods are made: whose turn comes meanwhile is in the next.
MOST = 300
#: After a refusal by the API server it is tried again so many seconds later.
AGAIN = 5.0
FIRST = Start(1)
#: Beyond the GRACE of pods that were just made, so that none of them is a moment too young.
SETTLED = 0.1


class _Asks(NamedTuple):
    """What a round decides on: ``filling`` are those of filler queues (``lowest``), ``wanted`` all others.

    ``free``: of each node. ``held``: what was given, where it has to be known.
    """

    tasks: list[Task]
    wanted: list[offers.Wants]
    filling: list[offers.Wants]
    lowest: Mapping[TaskKey, Queue]
    ledger: Ledger
    free: list[Offer]
    held: list[Held]


class KubernetesTaskSchedulerBackend:
    """Made inside a running loop. ``queues()``: the TaskQueues by namespace and name.

    ``ceiling``: what all tasks together may have, by resource.
    """

    def __init__(
        self,
        client: KubernetesClient,
        nodes: Nodes,
        queues: Callable[[], Mapping[TaskKey, Queue]],
        quotas: Quotas,
        policies: Policies,
        usage: Usage,
        ceiling: Mapping[str, int],
    ) -> None:
        self._client, self.nodes, self._queues, self._policies = client, nodes, queues, policies
        self._quotas, self._ceiling = quotas, ceiling
        self.usage = usage
        self.tasks = TaskRegistry()
        self._evictions = Evictions(client, self.tasks.queue_of)
        self.allocations = Allocations(nodes, usage, self._evictions, self.tasks.queue_of)
        self.account = self.allocations.account
        self.offers = OfferReservations(nodes, quotas, self.allocations)
        self.fillers = FillerAdmission(nodes, usage, policies)
        self._gangs = Gangs()
        self._wanting: dict[TaskKey, Task] = {}
        #: What those are to start that do not wait for their FIRST try: of all others there may be very many.
        self._starts: dict[TaskKey, Start] = {}
        #: Why those that wait do, by the last round.
        self._why: dict[TaskKey, str] = {}
        #: Called when a pod is evicted because its queue had borrowed.
        self.reclaimed: Callable[[PodState], None] = lambda _pod: None

    # -- what is known of tasks ------------------------------------------------------------------------------------

    def subscribe(self, name: str, call: Subscriber) -> None:
        """``call`` is told each state of a task once, in order and at its own pace: `TaskRegistry.subscribe`."""
        self.tasks.subscribe(name, call)

    def status_update(self, task: Task, state: str) -> bool:
        """Report a state; False where it was told before. A state after a final one is none."""
        return self.tasks.status_update(task, state)

    def kill_task(self, namespace: str, name: str) -> bool:
        """End a Task as its ``spec.kill`` does; False: it has ended before. Raises StateError where it is not there."""
        return self.tasks.kill_task(namespace, name)

    def know(self, task: Task) -> None:
        """The queue and gang of a task, for the account of pods that were made by an earlier process."""
        if task.element is None:
            self.tasks.know(task)
            self._gangs.know(task)

    def know_batch(self, batch: Batch, ended: Callable[[], int]) -> None:
        """The queue of all elements of a batch, and how many of them have ended."""
        self.tasks.know_batch(batch)
        self._gangs.know_batch(batch.uid, ended)

    def forget(self, uid: str) -> None:
        """The task is gone."""
        for each in (self.tasks, self.allocations, self.fillers, self._gangs):
            each.forget(uid)

    def running_of(self, batch: Batch) -> int:
        """How many tries of a batch's elements have resources now."""
        return sum(uid.rpartition(".")[0] == batch.uid for uid, _number in self.account.entries())

    # -- figures of what is there now (metrics.Now) ----------------------------------------------------------------

    def waiting_by_reason(self) -> dict[tuple[str, str, str], int]:
        """Tasks that wait for their turn, by what keeps them; empty: those before them."""
        waiting = self._wanting.values()
        return Counter((task.namespace, task.queue, self._why.get(task.key, "")) for task in waiting)

    def used(self) -> dict[tuple[str, str, str], int]:
        """What the tasks of each queue have, by resource."""
        every = {*self.account.queues(), *("/".join(key) for key in self._queues())}
        return {(*split_queue(one), name): value for one in every for name, value in self.account.used(one).items()}

    def queues(self) -> Mapping[TaskKey, Queue]:
        """The TaskQueues."""
        return self._queues()

    def offered(self) -> dict[str, int]:
        """What nodes have free for tasks, by resource."""
        return offers.total(offer.free for offer in self.allocations.offers())

    # -- who waits -------------------------------------------------------------------------------------------------

    def want(self, task: Task, start: Start) -> bool:
        """The task waits for its turn; False where it did before."""
        old, before = self._wanting.get(task.key), self._start_of(task.key)
        self._wanting[task.key] = task
        if start != FIRST:
            self._starts[task.key] = start
        elif before != FIRST:
            del self._starts[task.key]
        return old is None or (old.uid, old.content, before) != (task.uid, task.content, start)

    def renew(self, task: Task) -> None:
        """The Task is known as of a newer version: where it wants just the same the older one is kept nowhere."""
        old = self._wanting.get(task.key)
        if old is not None and (old.uid, old.content) == (task.uid, task.content):
            self._wanting[task.key] = task

    def unwant(self, key: TaskKey) -> None:
        """It does not wait any more."""
        self._take(key)
        if not self._wanting:
            self._wanting = {}  # one that was large stays so

    def _take(self, key: TaskKey) -> Task | None:
        self._starts.pop(key, None)
        return self._wanting.pop(key, None)

    def _start_of(self, key: TaskKey) -> Start:
        return self._starts.get(key, FIRST)

    @property
    def waiting(self) -> int:
        """Tasks that wait for their turn."""
        return len(self._wanting)

    @property
    def idle(self) -> bool:
        """Whether a round would change nothing."""
        return not (self._wanting or self.offers)

    # -- a round ---------------------------------------------------------------------------------------------------

    async def launch(
        self, started: Callable[[PodState], None], refused: Callable[[TaskKey, Start, Refusal], None]
    ) -> float | None:
        """Give what there is to those whose turn it is, and make their pods.

        Returns after how many seconds it is to be done again, whatever happens; None: when something has changed.
        """
        begun_before = [
            key for key, task in self._wanting.items() if (task.uid, self._start_of(key).number) in self.account
        ]
        for key in begun_before:  # its pod is made, and the watch has yet to tell
            self.unwant(key)
        self.offers.rescind()
        begun = self.offers.accepted((task, self._start_of(key)) for key, task in self._wanting.items())
        for task, _start in begun:
            self.unwant(task.key)
        self._charge(begun)
        verdict, chosen, fills = self._admit()
        self.offers.apply(verdict, chosen)
        self._why = {key: reason for key, (reason, _words) in verdict.waiting.items()}
        for key, (reason, words) in verdict.waiting.items():
            if key in self._wanting:
                refused(key, self._start_of(key), waits(reason, words))
        starts = [(self._start_of(one.key), self._take(one.key)) for one in verdict.admitted]
        admitted = [(task, start) for start, task in starts if task is not None]
        self._charge(admitted, fills)
        begun += admitted
        pods = [pod for pod in map(self.allocations.pod, chosen) if pod is not None]
        evicted = asyncio.gather(*(self._reclaim(pod) for pod in pods))
        await asyncio.gather(
            *(self._start(task, start, verdict.together, fills, started, refused) for task, start in begun)
        )
        refused_evictions = not all(await evicted)
        if verdict.full:
            return 0.0
        if EXCEEDED_QUOTA in self._why.values() and self._quotas.unsettled:
            return GRACE + SETTLED
        return AGAIN if refused_evictions else None

    def revive_offers(self, namespace: str, queue: str = DEFAULT_QUEUE) -> list[Offer]:
        """What that queue could have now on each node, once those whose turn is sooner have theirs.

        Nothing is taken by that: a TaskOffer or a Task of such a size takes it in its turn. None of a filler queue,
        whose room is others'. Raises StateError where nothing of the queue is given at all.
        """
        if (namespace, queue) in self._lowest():
            return []
        probe = Probe(namespace, queue)
        ask = self._asks([probe])
        whole, members = self.nodes.whole(), self._gangs.members(ask.tasks, ask.held)
        return revived(probe, ask.wanted, ask.ledger, whole, ask.free, self._policies, members, MOST)

    def _lowest(self) -> dict[TaskKey, Queue]:
        return {key: queue for key, queue in self._queues().items() if queue.filler}

    def _asks(self, more: Sequence[offers.Wants] = ()) -> _Asks:
        """Who waits, and what there is for them. ``more``: besides those that are known, for their queues."""
        lowest, tasks = self._lowest(), list(self._wanting.values())
        every: list[offers.Wants] = [*tasks, *self.offers.asking()]
        filling = [one for one in every if (one.namespace, one.queue) in lowest]
        wanted = [one for one in every if (one.namespace, one.queue) not in lowest]
        bounds = Bounds(*self._quotas.now(), self._ceiling, self._reserved(), lowest)
        others = {key: queue for key, queue in self._queues().items() if not queue.filler}
        held = self.allocations.revive_offers()[1] if filling or any(task.gang for task in tasks) else []
        ledger = self._ledger(others, [*wanted, *more], bounds)
        return _Asks(tasks, wanted, filling, lowest, ledger, self.allocations.offers(), held)

    def _admit(self) -> tuple[Verdict, list[Charge], Mapping[TaskKey, str]]:
        """Who gets what, what queues take back for those that do not, and the nodes of those who only fill them."""
        ask = self._asks()
        found, held = ask.free, ask.held
        members = self._gangs.members(ask.tasks, held)
        verdict = admit(ask.wanted, ask.ledger, self.nodes.whole(), found, self._policies, members, most=MOST)
        if verdict.owed and not held:
            held = self.allocations.revive_offers()[1]
        chosen = victims(verdict.owed, ask.ledger, found, held)
        if not ask.filling:
            return verdict, chosen, {}
        filled, fillers = self.allocations.filled(held, verdict), self.allocations.fillers()
        lowest = self._ledger(ask.lowest, ask.filling, ask.ledger.bounds)
        last = self.fillers.admit(ask.filling, lowest, filled, fillers, MOST)
        return verdict.beside(last), chosen, last.nodes

    def _ledger(self, queues: Mapping[TaskKey, Queue], wanted: Iterable[offers.Wants], bounds: Bounds) -> Ledger:
        lines = {*queues, *((one.namespace, one.queue) for one in wanted)}
        return Ledger(queues, {f"{ns}/{name}": self.account.used(f"{ns}/{name}") for ns, name in lines}, bounds)

    def _reserved(self) -> dict[str, int]:
        """What the pods of all tasks reserve, and how many they are."""
        entries = self.account.entries().values() if self._ceiling else ()
        sums = {PODS: len(entries)}
        for entry in entries:
            for name, value in () if entry.filler else entry.requests:
                sums[name] = sums.get(name, 0) + value
        return sums

    def _charge(self, begun: Sequence[tuple[Task, Start]], fills: Mapping[TaskKey, str] | None = None) -> None:
        for task, start in begun:
            charge, node = (task.uid, start.number), (fills or {}).get(task.key, "")
            self.account.charge(charge, f"{task.namespace}/{task.queue}", task.requests, bool(node))
            if self._quotas.bound(task.namespace):
                self._quotas.ask(charge, task.namespace, demand_of(task, bool(node)))
            if node:
                self.allocations.place(charge, node)

    # -- pods ------------------------------------------------------------------------------------------------------

    async def end(self, charge: Charge, why: str) -> bool:
        """Have the pod of what was given go; True where there is none."""
        pod = self.allocations.pod(charge)
        return pod is None or await self._evictions.evict(pod, why)

    async def _reclaim(self, pod: PodState) -> bool:
        """Take back what the pod's queue has borrowed."""
        queue = self.tasks.queue_of(pod.task_uid)
        done = await self._evictions.evict(pod, f"TaskQueue {queue} gives back what it has borrowed")
        if done:
            self.reclaimed(pod)
        return done

    async def _start(
        self,
        task: Task,
        start: Start,
        together: Mapping[TaskKey, int],
        fills: Mapping[TaskKey, str],
        started: Callable[[PodState], None],
        refused: Callable[[TaskKey, Start, Refusal], None],
    ) -> None:
        charge = (task.uid, start.number)
        if start.number == 1:
            self.allocations.expect(task.uid)
        try:
            bound = together.get(task.key, 0)
            pod = await self._client.submit(task, start.number, bound, fills.get(task.key, ""))
            self._quotas.made(charge, pod.version)
            started(pod)
        except BerthError as exc:
            self.account.give_back(charge)
            self._quotas.drop(charge)
            self.allocations.displace(charge)
            refused(task.key, start, refusal_of(exc))
