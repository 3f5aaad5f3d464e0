"""TaskPodsLifecycleManager: brings one task and its pods a step further, as berth_core.tasks.next_step says.

What has ended is recorded first, by compare-and-swap on the Task, and its pod is deleted then: whoever dies in between
is followed by one who finds the record, or the pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from berth_core.errors import InputError, NotFoundError
from berth_core.model import times
from berth_core.model.resources import TASK
from berth_core.tasks import next_step as steps
from berth_core.tasks import states
from berth_core.tasks.bounds import BACKEND_CEILING, EXCEEDED_QUOTA
from berth_core.tasks.filler import NO_METRICS
from berth_core.tasks.gangs import GANG_INCOMPLETE
from berth_core.tasks.pods import RUNNING, PodState
from berth_core.tasks.progress import Record
from berth_core.tasks.snapshot import Difference, PodsSnapshot
from berth_core.tasks.task import Status, Task
from berth_core.tasks.told import NEVER
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.informer import Informer
from berth_kube.queue import Reconciler
from berth_kube.store import key_of

from .backend import AGAIN, KubernetesTaskSchedulerBackend
from .batches import Batches
from .held_up import NODE_UNREACHABLE, Held, HeldUp
from .kept import task_of
from .kubernetes_client import KubernetesClient
from .metrics import Metrics
from .refusals import Refusal
from .store import PodSnapshotStore
from .task_registry import TaskKey
from .turns import Turns

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
#: What is written into a task that waits: reasons that a person has to act on.
TOLD = frozenset({*NEVER, GANG_INCOMPLETE, NO_METRICS, "NotAdmitted", "NotMade", "TemplateRejected"})
#: What passes as others end is written where it has kept a task so many seconds (longer than GRACE of quotas.py, so
#: that the words are of what a quota counts): shorter waits cost no write.
TOLD_LATER, PATIENCE = frozenset({EXCEEDED_QUOTA, BACKEND_CEILING}), 2.0
LONGEST_MESSAGE = 1024
#: Seconds between two tasks that are told as Running, where nothing else is written.
PACE = 0.1


class TaskPodsLifecycleManager:
    """``tasks``: the informer of Tasks; ``batches``: elements of TaskBatches, which are tasks like others.

    ``room``: set when there may be room for one that waits.
    """

    def __init__(
        self,
        api: KubeClient,
        pods: KubernetesClient,
        tasks: Informer,
        batches: Batches,
        store: PodSnapshotStore,
        backend: KubernetesTaskSchedulerBackend,
        metrics: Metrics,
        room: asyncio.Event,
        running_after: float,
        pending_after: float,
    ) -> None:
        self._api, self._pods, self._tasks, self._batches, self._store = api, pods, tasks, batches, store
        self._backend, self._metrics, self._running_after = backend, metrics, running_after
        self._loop = asyncio.get_running_loop()
        self._written: dict[TaskKey, Task] = {}
        self._refusals: dict[TaskKey, tuple[steps.Start, Refusal]] = {}
        self._not_before: dict[TaskKey, float] = {}
        #: Since when a task is kept by what its last refusal says, of those that are TOLD_LATER.
        self._kept_since: dict[TaskKey, float] = {}
        self._since: dict[str, float] = {}
        #: The uids of pods that run for a while, with their tasks, and of those whose turn it is to be told so.
        self._turns: Turns[str, TaskKey] = Turns(self._tell, PACE)
        self._told: set[str] = set()
        #: Pods that were asked to go, by uid, until a snapshot shows it: a request is not made twice meanwhile.
        self._asked: set[str] = set()
        self._room = room
        self._held_up = HeldUp(backend.nodes, store, pending_after)

    def listen(self, queue: Reconciler[TaskKey]) -> None:
        """Which event wakes which task."""
        self._queue = queue.queue

        def wake(obj: Obj) -> None:
            self._queue.add((obj["metadata"]["namespace"], obj["metadata"]["name"]))

        def gone(obj: Obj) -> None:
            self._backend.forget(obj["metadata"]["uid"])
            wake(obj)

        def changed(_old: Obj, new: Obj) -> None:
            """What is known twice, or of an older version, is forgotten at once: its turn may be thousands later."""
            wake(new)
            key = new["metadata"]["namespace"], new["metadata"]["name"]
            kept = self._tasks.kept(key[1], key[0])
            if isinstance(kept, Task) and self._newest(key, kept) is kept:
                self._backend.renew(kept)

        self._held_up.listen(self._queue.add)
        self._backend.allocations.ran = self._ran
        self._backend.tasks.wake = self._queue.add
        self._backend.reclaimed = lambda pod: self._metrics.reclaimed.labels(*self._queue_of(pod)).inc()
        self._backend.allocations.gave_way = self._gave_way
        for task in self._tasks.store.all_kept():  # of thousands that are known, those first whose pod is to be made
            if isinstance(task, Task) and not task.status.final and not self._store.of_task(task.key):
                self._queue.add(task.key)
        self._tasks.on(wake, changed, gone)
        self._batches.begin(self._queue.add, self._element_ended)

    async def on_snapshot(self, changes: Sequence[Difference], _snapshot: PodsSnapshot) -> None:
        """For the store: tasks whose pods have changed are looked at."""
        for change in changes:
            if change.new is None or change.new.going:
                self._asked.discard(change.either.uid)
            if change.new is None:
                self._forget(change.either.uid)
            self._queue.add(change.either.task_key)
        self._room.set()

    async def tell(self) -> None:
        """Tasks that run for a while are told as Running, not all at once. Until cancelled."""
        await self._turns.run()

    async def rounds(self) -> None:
        """Start what waits whenever there may be room. Until cancelled."""
        while True:
            await self._room.wait()
            self._room.clear()
            if not self._backend.idle:
                again = await self._backend.launch(self._started, self._refused)
                if again is not None:
                    self._loop.call_later(again, self._room.set)
            await asyncio.sleep(0.01)

    # -- one task --------------------------------------------------------------------------------------------------

    async def reconcile(self, key: TaskKey) -> float | None:
        """One step; what follows from it wakes the task again."""
        pods = self._store.of_task(key)
        kept = self._tasks.kept(key[1], key[0])
        try:
            task = self._newest(key, kept)
        except InputError as exc:
            await self._unreadable(key, self._tasks.get(key[1], key[0]), exc)
            return None
        if task is None:
            self._backend.unwant(key)
            self._unkept(key)
            self._not_before.pop(key, None)
            await self._delete(pod for pod in pods if not pod.going)
            return None
        await self._delete(pod for pod in pods if pod.task_uid != task.uid and not pod.going)
        self._backend.know(task)
        if self._backend.tasks.kills(task.uid):
            task = replace(task, asked=task.asked._replace(kill=True))
        return await self._do(task, pods)

    async def _do(self, task: Task, pods: list[PodState]) -> float | None:
        step, state = steps.next_step(task, pods), steps.live_state(task, pods)
        if task.element is None or not task.status.final:  # an element's end was told when it was recorded
            self._backend.status_update(task, state)
        if isinstance(step, steps.Start):
            return await self._start(task, step)
        self._backend.unwant(task.key)
        self._unkept(task.key)
        if isinstance(step, steps.Record):
            await self._record(task, step)
        elif isinstance(step, steps.Delete):
            together = [pod for pod in step.pods if steps.goes_with_others(task, pod)]
            self._pods.clean_up(together)
            await self._delete(pod for pod in step.pods if pod not in together)
        elif step.running is not None:
            return await self._rest(task, step.running, state)
        return None

    async def _start(self, task: Task, step: steps.Start) -> float | None:
        """Let it wait for its turn; what keeps it from that is written once."""
        start, refusal = self._refusals.get(task.key, (None, None))
        if refusal is not None and start == step:
            if refusal.final:
                self._batches.refuse(task, refusal.message)
                await self._write(task, steps.refused(task, step.number, refusal.message), {})
                return None
            told = refusal.reason in TOLD or self._waits_long(task.key, refusal)
            if task.element is not None and told:
                self._batches.waits(task, refusal.reason, refusal.message)
            elif task.element is None and told and task.status.reason != refusal.reason:
                status = replace(task.status, reason=refusal.reason, message=refusal.message)
                await self._write(task, status, {})
                return None
            left = self._not_before.pop(task.key, 0.0) - self._loop.time()
            if left > 0:
                self._refusals.pop(task.key)
                return left
        if self._backend.want(task, step):
            self._room.set()
        return None

    def _unkept(self, key: TaskKey) -> None:
        """Nothing keeps it any more."""
        self._refusals.pop(key, None)
        self._kept_since.pop(key, None)

    def _waits_long(self, key: TaskKey, refusal: Refusal) -> bool:
        since = self._kept_since.get(key, self._loop.time())
        return refusal.reason in TOLD_LATER and self._loop.time() >= since + PATIENCE

    async def _record(self, task: Task, step: steps.Record) -> None:
        told: Obj = {}
        if step.pod is not None:
            self._forget(step.pod.uid)
            wanted = task.element is None or step.status.state == states.FAILED
            log = await self._pods.log_tail(step.pod) if wanted else ""
            told = {
                "pod": step.pod.name,
                "node": step.pod.node or None,
                "exitCode": step.pod.details.exit_code,
                "log": log or None,
                "terminationMessage": step.pod.details.termination_message or None,
            }
            told["startedAt"] = step.pod.started or None
        if step.status.final:
            told["finishedAt"] = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._write(task, step.status, told)

    async def _rest(self, task: Task, pod: PodState, state: str) -> float | None:
        """What the task says of the pod that is there. ``state``: as `live_state` has it."""
        held, again = self._held_up.of(pod, task.template)
        if task.element is not None:
            self._batches.held_up(task, held)
            return again
        if held.reason:
            await self._tell_held_up(task, pod, held)
            return again
        if state == states.UPDATED:  # somebody asked for it, and looks whether it comes about
            status = replace(task.status, state=state, reason="", message="")
            if status != task.status:
                await self._write(task, status, {"pod": pod.name, "node": pod.node or None})
            return again
        return await self._tell_running(task, pod) if pod.phase == RUNNING else again

    async def _tell_held_up(self, task: Task, pod: PodState, held: Held) -> None:
        """At once that its node is lost; that it does not start in its turn, as all pods may not."""
        if held.reason == task.status.reason:
            return
        lost = held.reason == NODE_UNREACHABLE
        if lost or self._has_turn(task, pod):
            state = states.RUNNING if lost else task.status.state
            status = replace(task.status, state=state, reason=held.reason, message=held.message)
            await self._write(task, status, {"pod": pod.name, "node": pod.node or None})

    async def _tell_running(self, task: Task, pod: PodState) -> float | None:
        """A task that runs for a while is recorded as Running in its turn; short ones cost no write."""
        if (task.status.state, task.status.reason) == (states.RUNNING, ""):
            return None
        if pod.uid not in self._turns and pod.uid not in self._told:
            since = self._since.setdefault(pod.uid, self._loop.time())
            left = since + self._running_after - self._loop.time()
            if left > 0:
                return left
            del self._since[pod.uid]
        if self._has_turn(task, pod):
            status = replace(task.status, state=states.RUNNING, reason="", message="")
            await self._write(task, status, {"pod": pod.name, "node": pod.node, "startedAt": pod.started or None})
        return None

    def _has_turn(self, task: Task, pod: PodState) -> bool:
        """Whether it may be told of the pod now; else the task is looked at again when it may."""
        if pod.uid not in self._told:
            self._turns.ask(pod.uid, task.key)
            return False
        self._give_turn_up(pod.uid)
        return True

    def _tell(self, uid: str, key: TaskKey) -> None:
        self._told.add(uid)
        self._queue.add(key)

    def _forget(self, uid: str) -> None:
        """Nothing more is told of that pod."""
        self._give_turn_up(uid)
        self._held_up.forget(uid)

    def _give_turn_up(self, uid: str) -> None:
        self._turns.give_up(uid)
        self._told.discard(uid)
        self._since.pop(uid, None)

    async def _write(self, task: Task, status: Status, told: Obj) -> None:
        """Compare-and-swap: whoever has read an older Task does not write. Raises ConflictError.

        An element's status is written with others, and it is looked at again afterwards.
        """
        if task.element is not None:
            self._batches.record(task, status, told)
            return
        body = {
            "metadata": {"resourceVersion": str(task.version), "uid": task.uid},
            "status": {
                "state": status.state,
                "tries": status.tries,
                "failures": status.failures,
                "reason": status.reason[:128] or None,
                "message": status.message[:LONGEST_MESSAGE] or None,
                "observedGeneration": task.asked.generation,
                **told,
            },
        }
        try:
            answer = await self._api.patch(TASK, task.name, task.namespace, body, subresource="status")
        except NotFoundError:  # deleted meanwhile
            return
        newer = task_of(self._tasks.store.pack(key_of(answer), answer))
        if newer is None:
            return
        self._written[task.key] = newer
        self._backend.renew(newer)
        self._turns.other()
        if status.final and not task.status.final:
            self._count(task, status.state, status.reason)
        if status.state not in (states.SUBMITTED, task.status.state):
            self._backend.status_update(newer, status.state)
        self._queue.add(task.key)

    def _count(self, task: Task, state: str, reason: str) -> None:
        self._metrics.ended.labels(task.namespace, task.queue, state, reason).inc()

    def _queue_of(self, pod: PodState) -> tuple[str, str]:
        return pod.namespace, self._backend.tasks.queue_of(pod.task_uid).partition("/")[2]

    def _ran(self, pod: PodState) -> None:
        """How long it took from the submission of a Task, or of its batch, until its first pod ran."""
        if "[" in pod.task_key[1]:
            element = self._batches.task(pod.task_key)
            submitted = element.created if element is not None else ""
        else:
            submitted = str(
                ((self._tasks.get(pod.task_key[1], pod.namespace) or {}).get("metadata") or {}).get("creationTimestamp")
            )
        seconds = times.age(submitted, utc_now())
        if seconds is not None:
            self._metrics.start_seconds.labels(*self._queue_of(pod)).observe(max(0.0, seconds))

    def _gave_way(self, pod: PodState, why: str) -> None:
        """A filler task's pod that ran has had to go: what it did since its start is done again."""
        queue = self._queue_of(pod)
        self._metrics.filler_ended.labels(*queue, why).inc()
        self._metrics.filler_lost.labels(*queue).inc(max(0.0, times.age(pod.started, utc_now()) or 0.0))

    def _element_ended(self, task: Task, record: Record) -> None:
        self._count(task, record.state, record.reason)
        self._backend.status_update(task, record.state)
        self._backend.forget(task.uid)

    async def _unreadable(self, key: TaskKey, obj: Obj | None, exc: InputError) -> None:
        if obj is None or (obj.get("status") or {}).get("state") in states.FINAL:
            return
        _log.info("Task %s/%s cannot be carried out: %s", *key, exc.message)
        meta = obj["metadata"]
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"], "uid": meta["uid"]},
            "status": {"state": states.FAILED, "reason": "InvalidTask", "message": exc.message[:LONGEST_MESSAGE]},
        }
        await self._api.patch(TASK, key[1], key[0], body, subresource="status")

    def _newest(self, key: TaskKey, kept: Task | Obj | None) -> Task | None:
        """The Task as the watch or the answer to an own write told it last; an element as it is recorded."""
        if "[" in key[1]:
            return self._batches.task(key)
        seen = task_of(kept)
        own = self._written.get(key)
        if seen is None or own is None or own.uid != seen.uid or own.version <= seen.version:
            self._written.pop(key, None)
            return seen
        return own

    async def _delete(self, pods: Iterable[PodState]) -> None:
        await asyncio.gather(*(self._kill(pod) for pod in pods if pod.uid not in self._asked))

    async def _kill(self, pod: PodState) -> None:
        await self._pods.kill(pod)
        if self._store.snapshot.knows(pod):
            self._asked.add(pod.uid)

    # -- what the backend says -------------------------------------------------------------------------------------

    def _started(self, pod: PodState) -> None:
        self._metrics.started.labels(*self._queue_of(pod)).inc()
        self._batches.started(pod.task_key)
        self._turns.other()
        if not self._store.wrote(pod):  # the watch has told of its coming and going in one moment: nothing differed
            self._backend.account.give_back(pod.charge)
            self._queue.add(pod.task_key)

    def _refused(self, key: TaskKey, start: steps.Start, refusal: Refusal) -> None:
        """Only what is news has the task looked at: it is refused again in each round."""
        before = self._refusals.get(key)
        if before == (start, refusal):
            return
        self._refusals[key] = _refused(start, refusal)
        other = before is None or (before[0], before[1].reason) != (start, refusal.reason)
        if other:
            self._kept_since.pop(key, None)
            if refusal.reason in TOLD_LATER:
                self._kept_since[key] = self._loop.time()
        if not refusal.waits:
            self._not_before[key] = self._loop.time() + AGAIN
        if refusal.reason in TOLD_LATER and (other or not refusal.waits):  # who does not wait wants to be asked again
            self._loop.call_later(PATIENCE, self._queue.add, key)
        if refusal.reason in TOLD:
            self._queue.add(key)


@lru_cache(maxsize=1024)
def _refused(start: steps.Start, refusal: Refusal) -> tuple[steps.Start, Refusal]:
    """Very many tasks wait for the same."""
    return start, refusal
