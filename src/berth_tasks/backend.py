"""KubernetesTaskSchedulerBackend: what tasks may use now, who of those that wait gets it, and what became of them.

An amount is taken in the moment in which it is given, before the pod is made; the account gives it back when the pod is
over. Each change of a task's state is told to subscribers once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from berth_core.errors import AdmissionError, ApiError, BerthError, ConflictError, InvalidError, StateError
from berth_core.model import times
from berth_core.model.pod import PodInfo
from berth_core.model.requests import PODS
from berth_core.tasks import offers, states
from berth_core.tasks.account import Account, Charge
from berth_core.tasks.admission import Ledger, Verdict, admit
from berth_core.tasks.batch import Batch
from berth_core.tasks.bounds import EXCEEDED_QUOTA, Bounds, demand_of
from berth_core.tasks.filler import NOT_FILLER, unfit
from berth_core.tasks.filler_room import Filler, Node
from berth_core.tasks.held import TaskOffer
from berth_core.tasks.next_step import Start
from berth_core.tasks.offers import Offer
from berth_core.tasks.pods import PENDING, PodState
from berth_core.tasks.policies import Policies
from berth_core.tasks.queues import Queue
from berth_core.tasks.reclaim import Held, victims
from berth_core.tasks.snapshot import Difference
from berth_core.tasks.task import Task
from berth_kube.clocks import boot_clock, utc_now

from .gangs import Gangs
from .kubernetes_client import KubernetesClient
from .nodes import ARRIVES, Nodes
from .quotas import GRACE, Quotas
from .usage import Usage

_log = logging.getLogger(__name__)

TaskKey = tuple[str, str]
#: Tasks that begin in one round, which ends when all their pods are made: whose turn comes meanwhile is in the next.
MOST = 300
#: After a refusal by the API server it is tried again so many seconds later.
AGAIN = 5.0
#: Beyond the GRACE of pods that were just made, so that none of them is a moment too young.
SETTLED = 0.1


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
        self._client, self._nodes, self._queues, self._policies = client, nodes, queues, policies
        self._quotas, self._ceiling = quotas, ceiling
        self.usage = usage
        self.account = Account()
        self._wanting: dict[TaskKey, tuple[Task, Start]] = {}
        #: Why those that wait do, by the last round.
        self._why: dict[TaskKey, str] = {}
        #: Tasks whose first pod this process makes: True until it has run.
        self._awaited: dict[str, bool] = {}
        #: Called when there is a pod that is not over, when the first one of a task runs, and when one is evicted.
        self.has_pod: Callable[[PodState], None] = lambda _pod: None
        self.ran: Callable[[PodState], None] = lambda _pod: None
        self.reclaimed: Callable[[PodState], None] = lambda _pod: None
        #: Called when a pod that is no filler's has come, and when a filler's that ran has had to go, and why.
        self.arrived: Callable[[], None] = lambda: None
        self.gave_way: Callable[[PodState, str], None] = lambda _pod, _why: None
        #: Nodes on which nobody has placed a filler task's pod, by its uid.
        self._avoided: dict[str, set[str]] = {}
        #: TaskOffers that wait for their turn, and those that are held with their nodes, by their names in a queue.
        self._asking: dict[TaskKey, TaskOffer] = {}
        self._held: dict[TaskKey, tuple[TaskOffer, str]] = {}
        self.offer_events: OfferEvents | None = None
        #: The node of what is held, and of what has taken the place of that; a pod's own counts more.
        self._placed: dict[Charge, str] = {}
        #: The pods of what was given, where they are known.
        self._pods: dict[Charge, PodState] = {}
        #: When what their pods use is measured, on a clock that nobody can set.
        self._measured: dict[Charge, float] = {}
        #: uids of pods that were asked to go.
        self._evicted: set[str] = set()
        #: Queues of which a pod could not be evicted: that is told once, until one can.
        self._kept_from: set[str] = set()
        self._queue_of: dict[str, str] = {}
        self._gangs = Gangs()
        #: Tasks by namespace and name, and back; those that `kill_task` was told to end.
        self._uids: dict[TaskKey, str] = {}
        self._keys: dict[str, TaskKey] = {}
        self._killed: set[str] = set()
        #: Called when a task is to be looked at.
        self.wake: Callable[[TaskKey], None] = lambda _key: None
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
        self._awaited.pop(uid, None)
        self._avoided.pop(uid, None)
        self._killed.discard(uid)
        key = self._keys.pop(uid, None)
        if key is not None and self._uids.get(key) == uid:
            del self._uids[key]
        self._gangs.forget(uid)

    def know(self, task: Task) -> None:
        """The queue and gang of a task, for the account of pods that were made by an earlier process."""
        if task.element is None:
            self._uids[task.key], self._keys[task.uid] = task.uid, task.key
            self._queue_of[task.uid] = f"{task.namespace}/{task.queue}"
            self._gangs.know(task)

    def know_batch(self, batch: Batch, ended: Callable[[], int]) -> None:
        """The queue of all elements of a batch, and how many of them have ended."""
        self._queue_of[batch.uid] = f"{batch.namespace}/{batch.queue}"
        self._gangs.know_batch(batch.uid, ended)

    def queue_of(self, uid: str) -> str:
        """The queue of a task, as namespace/name; empty where nobody knows it."""
        return self._queue_of.get(uid) or self._queue_of.get(uid.rpartition(".")[0], "")

    def running_of(self, batch: Batch) -> int:
        """How many tries of a batch's elements have resources now."""
        return sum(uid.rpartition(".")[0] == batch.uid for uid, _number in self.account.entries())

    # -- the end of a task, by name --------------------------------------------------------------------------------

    def kill_task(self, namespace: str, name: str) -> bool:
        """End a Task as its ``spec.kill`` does: its pods go, and it comes to Killed. False: it has ended before.

        Until that is recorded this process alone knows of it; who is another process sets ``spec.kill``. Raises
        StateError where there is no such Task: a task of a TaskBatch ends with its TaskBatch.
        """
        uid = self._uids.get((namespace, name))
        if uid is None:
            raise StateError(f"Task {namespace}/{name} is not there: name one that was submitted and is not deleted")
        if self._told.get(uid, ("", 0))[0] in states.FINAL:
            return False
        self._killed.add(uid)
        self.wake((namespace, name))
        return True

    def kills(self, uid: str) -> bool:
        """Whether `kill_task` was told to end it."""
        return uid in self._killed

    # -- figures of what is there now (metrics.Now) ----------------------------------------------------------------

    def waiting_by_reason(self) -> dict[tuple[str, str, str], int]:
        """Tasks that wait for their turn, by what keeps them; empty: those before them."""
        waiting = (task for task, _start in self._wanting.values())
        return Counter((task.namespace, task.queue, self._why.get(task.key, "")) for task in waiting)

    def tasks_by_state(self) -> Counter[tuple[str, str, str]]:
        """Tasks by their state; elements of batches are not among them."""
        told = ((self.queue_of(uid), state) for uid, (state, _tries) in self._told.items() if "." not in uid)
        return Counter((*_split(queue), state) for queue, state in told if queue)

    def used(self) -> dict[tuple[str, str, str], int]:
        """What the tasks of each queue have, by resource."""
        every = {*self.account.queues(), *("/".join(key) for key in self._queues())}
        return {(*_split(one), name): value for one in every for name, value in self.account.used(one).items()}

    def queues(self) -> Mapping[TaskKey, Queue]:
        """The TaskQueues."""
        return self._queues()

    def offered(self) -> dict[str, int]:
        """What nodes have free for tasks, by resource."""
        return offers.total(offer.free for offer in self.revive_offers()[0])

    # -- the account -----------------------------------------------------------------------------------------------

    def follow(self, changes: Sequence[Difference]) -> None:
        """For the store: what became of pods is in the account at once."""
        self.account.follow(changes, self.queue_of)
        for old, new in changes:
            if new is not None and new.phase != PENDING and self._awaited.get(new.task_uid):
                self._awaited[new.task_uid] = False
                self.ran(new)
            if new is not None and not new.over:
                self._pods[new.charge] = new
                if new.started and new.charge not in self._measured:
                    age = max(0.0, times.age(new.started, utc_now()) or 0.0)
                    self._measured[new.charge] = boot_clock() + max(0.0, ARRIVES - age)
                self.has_pod(new)
                if not new.filler:
                    self.arrived()
            elif old is not None or new is not None:
                gone = self._pods.pop((new or old).charge, None)  # type: ignore[union-attr]
                self._placed.pop((new or old).charge, None)  # type: ignore[union-attr]
                self._measured.pop((new or old).charge, None)  # type: ignore[union-attr]
                if gone is not None:
                    self._left(gone, new)
                    self._evicted.discard(gone.uid)

    def _left(self, gone: PodState, end: PodState | None) -> None:
        """A pod has ended, or is there no more: whether it is a filler's that ran and has had to go."""
        evicted = gone.uid in self._evicted
        if gone.filler and gone.started and (evicted or (end is not None and end.disrupted)):
            self.usage.left(gone.node)
            self.gave_way(gone, "NoRoom" if evicted or end is None else end.reason or "Disrupted")

    # -- offers in -------------------------------------------------------------------------------------------------

    def revive_offers(self) -> tuple[list[Offer], list[Held]]:
        """What is free on each node now, less what was given to tasks; and that."""
        free = self._nodes.free()
        found = [Offer(name, left) for name, left in sorted(free.items())]
        held: list[Held] = []
        unplaced: list[Held] = []
        for key, entry in self.account.entries().items():
            if entry.filler:
                continue
            pod, node, going = self._where(key)
            at, started = (node or pod.nominated, pod.started) if pod is not None else (node, "")
            one = Held(key, entry.queue, entry.requests, at, started, going, bool(node))
            if at in free:
                offers.take(free[at], entry.requests)
            elif not at:
                unplaced.append(one)
                continue
            held.append(one)
        # Where a pod without a node will be nobody knows: it counts where there is room for it.
        held += [one._replace(node=offers.subtract(found, one.requests)) for one in unplaced]
        return found, held

    def _where(self, key: Charge) -> tuple[PodState | None, str, bool]:
        """The pod of what was given, its node where that is known, and whether it is on its way out."""
        pod = self._pods.get(key)
        node = (pod.node if pod is not None else "") or self._placed.get(key, "")
        return pod, node, pod is not None and (pod.going or pod.uid in self._evicted)

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
        self._quotas.ask(offer.charge, offer.namespace, demand_of(offer))

    def drop(self, offer: TaskOffer) -> None:
        """Nobody holds it any more: what it took is free."""
        self._asking.pop(offer.key, None)
        self._held.pop(offer.key, None)
        self._placed.pop(offer.charge, None)
        self._quotas.drop(offer.charge)
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

    def _offers_after(self, verdict: Verdict, taken_back: Sequence[Charge]) -> None:
        """What the verdict says of offers. Room that a queue has borrowed goes back at once: nothing runs there."""
        events = self.offer_events
        for offer, _node in list(self._held.values()):
            if offer.charge in taken_back:
                self._end(offer)
        for wanted in verdict.admitted:
            if isinstance(wanted, TaskOffer) and events is not None:
                self.hold(wanted, verdict.nodes[wanted.key])
                events.given(wanted, verdict.nodes[wanted.key])
        for key, (reason, words) in verdict.waiting.items():
            if key in self._asking and events is not None:
                events.waits(self._asking[key], reason, words)

    # -- a round ---------------------------------------------------------------------------------------------------

    async def launch(
        self, started: Callable[[PodState], None], refused: Callable[[TaskKey, Start, Refusal], None]
    ) -> float | None:
        """Give what there is to those whose turn it is, and make their pods.

        Returns after how many seconds it is to be done again, whatever happens; None: when something has changed.
        """
        begun_before = [key for key, (task, start) in self._wanting.items() if (task.uid, start.number) in self.account]
        for key in begun_before:  # its pod is made, and the watch has yet to tell
            self.unwant(key)
        self._rescind()
        begun = self._accepted()
        self._charge(begun)
        verdict, chosen, fills = self._admit()
        self._offers_after(verdict, chosen)
        self._why = {key: reason for key, (reason, _words) in verdict.waiting.items()}
        for key, (reason, words) in verdict.waiting.items():
            if key in self._wanting:
                refused(key, self._wanting[key][1], Refusal(reason, words, waits=True))
        admitted = [self._wanting.pop(one.key) for one in verdict.admitted if one.key in self._wanting]
        self._charge(admitted, fills)
        begun += admitted
        evicted = asyncio.gather(*(self._reclaim(self._pods[key]) for key in chosen if key in self._pods))
        starts = (self._start(task, start, verdict.together, fills, started, refused) for task, start in begun)
        await asyncio.gather(*starts)
        kept = not all(await evicted)
        if verdict.full:
            return 0.0
        if EXCEEDED_QUOTA in self._why.values() and self._quotas.unsettled:
            return GRACE + SETTLED
        return AGAIN if kept else None

    def _admit(self) -> tuple[Verdict, list[Charge], Mapping[TaskKey, str]]:
        """Who gets what, what queues take back for those that do not, and the nodes of those who only fill them."""
        found, held = self.revive_offers()
        queues = self._queues()
        tasks = [task for task, _start in self._wanting.values()]
        lowest = {key: queue for key, queue in queues.items() if queue.filler}
        wanted: list[offers.Wants] = [*tasks, *self._asking.values()]
        filling = [one for one in wanted if (one.namespace, one.queue) in lowest]
        wanted = [one for one in wanted if (one.namespace, one.queue) not in lowest]
        bounds = Bounds(*self._quotas.now(), self._ceiling, self._reserved(), lowest)
        ledger = self._ledger({key: queue for key, queue in queues.items() if not queue.filler}, wanted, bounds)
        members = self._gangs.members(tasks, held)
        verdict = admit(wanted, ledger, self._nodes.whole(), found, self._policies, members, most=MOST)
        chosen = victims(verdict.owed, ledger, found, held)
        if not filling:
            return verdict, chosen, {}
        last = self._fill(filling, self._ledger(lowest, filling, bounds), self.filled(held, verdict))
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
                self._placed[charge] = node

    # -- filler tasks ----------------------------------------------------------------------------------------------

    def fillers(self) -> list[Filler]:
        """What was given of the room that others do not use."""
        found = []
        for key, entry in self.account.entries().items():
            if entry.filler:
                pod, node, going = self._where(key)
                name, started = ((pod.namespace, pod.name), pod.started) if pod is not None else (("", ""), "")
                found.append(Filler(key, name, node, entry.requests, started, going))
        return found

    def filled(self, held: Iterable[Held] | None = None, verdict: Verdict | None = None) -> dict[str, Node]:
        """What filler tasks have to know of nodes. Other tasks, those that start now among them, are others there."""
        found, now = self._nodes.filled(), boot_clock()
        others = [
            (one.node, one.requests, now < self._measured.get(one.charge, now + ARRIVES))
            for one in (self.revive_offers()[1] if held is None else held)
        ]
        if verdict is not None:
            begun = (one for one in verdict.admitted if one.key in verdict.nodes)
            others += [(verdict.nodes[one.key], one.requests, True) for one in begun]
        for name, requests, new in others:
            node = found.get(name)
            if node is not None:
                sums = dict(node.arriving)
                for each, value in requests if new else ():
                    sums[each] = sums.get(each, 0) + value
                found[name] = node._replace(pods=node.pods + 1, arriving=sums)
        return found

    def _fill(self, wanted: Sequence[offers.Wants], ledger: Ledger, nodes: Mapping[str, Node]) -> Verdict:
        """Which of the filler tasks start, when all others have had their turn."""
        why = {one.key: unfit(one) for one in wanted}
        fitting = [one for one in wanted if not why[one.key]]
        room, whole = self.usage.offers(nodes, self.fillers()), self.usage.whole(nodes)
        verdict = admit(fitting, ledger, whole, room, self._policies, ways=self._ways(), most=MOST)
        verdict.waiting.update((key, (NOT_FILLER, words)) for key, words in why.items() if words)
        return verdict

    def _ways(self) -> Callable[[offers.Wants], Collection[str]]:
        """On which nodes a task's pod can be; worked out once for each template."""
        known: dict[str, frozenset[str]] = {}

        def ways(task: offers.Wants) -> Collection[str]:
            if not isinstance(task, Task):
                return ()
            if task.content not in known:
                meta = {"name": "task", "namespace": task.namespace}
                pod = PodInfo.from_manifest({"metadata": meta, "spec": task.template["spec"]})
                known[task.content] = self._nodes.ways(pod)
            found = known[task.content]
            return found - self._avoided.get(task.uid, set()) or found

        return ways

    def avoid(self, charge: Charge, node: str) -> None:
        """Nobody has placed this filler task's pod on that node: the next one is sent elsewhere, where it can be."""
        self._avoided.setdefault(charge[0], set()).add(node)

    async def end(self, charge: Charge, why: str) -> bool:
        """Have the pod of what was given go; True where there is none."""
        pod = self._pods.get(charge)
        return pod is None or await self._evict(pod, why)

    # -- pods ------------------------------------------------------------------------------------------------------

    async def _reclaim(self, pod: PodState) -> bool:
        """Take back what the pod's queue has borrowed."""
        done = await self._evict(pod, f"TaskQueue {self.queue_of(pod.task_uid)} gives back what it has borrowed")
        if done:
            self.reclaimed(pod)
        return done

    async def _evict(self, pod: PodState, why: str) -> bool:
        """Have it go as disrupted, which costs its task no try. False: it stays as yet."""
        self._evicted.add(pod.uid)
        queue = self.queue_of(pod.task_uid)
        try:
            await self._client.evict(pod)
        except BerthError as exc:
            known = isinstance(exc, ConflictError) or queue in self._kept_from
            how = logging.DEBUG if known else logging.WARNING
            _log.log(how, "%s; so it stays as yet, although %s", exc.message, why)
            if not isinstance(exc, ConflictError):
                self._kept_from.add(queue)
            self._evicted.discard(pod.uid)
            return False
        self._kept_from.discard(queue)
        _log.info("pod %s/%s is evicted: %s", pod.namespace, pod.name, why)
        return True

    async def _start(
        self,
        task: Task,
        start: Start,
        together: Mapping[TaskKey, int],
        fills: Mapping[TaskKey, str],
        started: Callable[[PodState], None],
        refused: Callable[[TaskKey, Start, Refusal], None],
    ) -> None:
        refusal = None
        if start.number == 1:
            self._awaited.setdefault(task.uid, True)
        try:
            bound = together.get(task.key, 0)
            pod = await self._client.submit(task, start.number, bound, fills.get(task.key, ""))
            self._quotas.made((task.uid, start.number), pod.version)
            started(pod)
        except AdmissionError as exc:
            refusal = _not_admitted(exc.message)
        except InvalidError as exc:
            refusal = Refusal("TemplateRejected", exc.message, final=True)
        except BerthError as exc:
            final = isinstance(exc, ApiError) and exc.status == 400
            refusal = Refusal("TemplateRejected" if final else "NotMade", exc.message, final)
        if refusal is not None:
            self.account.give_back((task.uid, start.number))
            self._quotas.drop((task.uid, start.number))
            self._placed.pop((task.uid, start.number), None)
            refused(task.key, start, refusal)


def _not_admitted(words: str) -> Refusal:
    """A quota that somebody else was faster to use leaves room again; what Pod Security forbids no wait changes."""
    if "violates PodSecurity" in words:
        return Refusal("TemplateRejected", words, final=True)
    return Refusal(EXCEEDED_QUOTA if "exceeded quota: " in words else "NotAdmitted", words)


def _split(queue: str) -> tuple[str, str]:
    namespace, _slash, name = queue.partition("/")
    return namespace, name
