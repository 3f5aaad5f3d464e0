"""TaskRegistry: what is known of tasks by uid: their queues, the states that were told, and who is to be killed."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import NamedTuple

from berth_core.errors import StateError
from berth_core.tasks import states
from berth_core.tasks.batch import Batch
from berth_core.tasks.task import Task

from .subscriptions import Subscription

TaskKey = tuple[str, str]


class Update(NamedTuple):
    """A task has come to another state. ``tries``: how many have ended."""

    namespace: str
    name: str
    uid: str
    state: str
    tries: int


class Standing(NamedTuple):
    """Of which queue a task is, as namespace/name, and what was told of it: empty where nothing was."""

    queue: str
    state: str
    tries: int


Subscriber = Callable[[Update], Awaitable[None]]
NOBODY = Standing("", "", 0)


class TaskRegistry:
    """``wake`` is called when a task is to be looked at."""

    def __init__(self) -> None:
        #: Of Tasks, batches and elements, by uid.
        self._known: dict[str, Standing] = {}
        #: Those that `kill_task` was told to end.
        self._killed: set[str] = set()
        #: The Task of that namespace and name, where there is one.
        self.at: Callable[[TaskKey], Task | None] = lambda _key: None
        self.wake: Callable[[TaskKey], None] = lambda _key: None
        self._subscribers: list[_Updates] = []
        self._begins: asyncio.Queue[_Updates] = asyncio.Queue()

    # -- states out ------------------------------------------------------------------------------------------------

    def subscribe(self, name: str, call: Subscriber) -> None:
        """Tell ``call`` of each state from now on, in order, the next one when it has returned.

        Where it raises it is told the same again, after a pause, and then what came meanwhile. What it has not taken is
        kept. It delays nobody else, as long as it does not block the loop.
        """
        one = _Updates(name, call)
        self._subscribers.append(one)
        self._begins.put_nowait(one)

    async def run(self) -> None:
        """Tell subscribers, those that come later, too. Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task((await self._begins.get()).run())

    def status_update(self, task: Task, state: str) -> bool:
        """Report a state; False where it was told before. A state after a final one is none."""
        old = self._known.get(task.uid, NOBODY)
        new = _standing(_queue(task.namespace, task.queue), state, task.status.tries)
        if (old.state, old.tries) == (new.state, new.tries) or old.state in states.FINAL:
            return False
        self._known[task.uid] = new
        for one in self._subscribers:
            one.add(Update(task.namespace, task.name, task.uid, new.state, new.tries))
        return True

    def by_state(self) -> Counter[tuple[str, str, str]]:
        """Tasks by their state; elements of batches are not among them."""
        told = (one for uid, one in self._known.items() if one.state and "." not in uid)
        return Counter((*split_queue(one.queue), one.state) for one in told)

    # -- who is there ----------------------------------------------------------------------------------------------

    def know(self, task: Task) -> None:
        """A Task, with its queue."""
        self._is_of(task.uid, _queue(task.namespace, task.queue))

    def know_batch(self, batch: Batch) -> None:
        """The queue of all elements of a batch."""
        self._is_of(batch.uid, _queue(batch.namespace, batch.queue))

    def _is_of(self, uid: str, queue: str) -> None:
        old = self._known.get(uid, NOBODY)
        if old.queue != queue:
            self._known[uid] = _standing(queue, old.state, old.tries)

    def forget(self, uid: str) -> None:
        """The task is gone."""
        self._known.pop(uid, None)
        self._killed.discard(uid)

    def queue_of(self, uid: str) -> str:
        """The queue of a task, as namespace/name; empty where nobody knows it."""
        return (self._known.get(uid) or self._known.get(uid.rpartition(".")[0], NOBODY)).queue

    # -- the end of a task, by name --------------------------------------------------------------------------------

    def kill_task(self, namespace: str, name: str) -> bool:
        """End a Task as its ``spec.kill`` does: its pods go, and it comes to Killed. False: it has ended before.

        Until that is recorded this process alone knows of it; who is another process sets ``spec.kill``. Raises
        StateError where there is no such Task: a task of a TaskBatch ends with its TaskBatch.
        """
        task = self.at((namespace, name))
        if task is None or task.uid not in self._known:
            raise StateError(f"Task {namespace}/{name} is not there: name one that was submitted and is not deleted")
        if self._known.get(task.uid, NOBODY).state in states.FINAL:
            return False
        self._killed.add(task.uid)
        self.wake((namespace, name))
        return True

    def kills(self, uid: str) -> bool:
        """Whether `kill_task` was told to end it."""
        return uid in self._killed


class _Updates(Subscription):
    """One subscriber, and what it was not told yet."""

    def __init__(self, name: str, call: Subscriber) -> None:
        super().__init__(name)
        self._call = call
        self._missed: deque[Update] = deque()

    def add(self, update: Update) -> None:
        self._missed.append(update)
        self._due.set()

    async def _told(self) -> Exception | None:
        """One at a time: who takes it has its next failure count as a first one, with a short pause."""
        if self._missed:
            try:
                await self._call(self._missed[0])
            except Exception as exc:  # noqa: BLE001 - a subscriber's fault is its own
                return exc
            self._missed.popleft()
        if self._missed:
            self._due.set()
        return None


@lru_cache(maxsize=1024)
def _standing(queue: str, state: str, tries: int) -> Standing:
    """Very many tasks have the same."""
    return Standing(queue, state, tries)


@lru_cache(maxsize=1024)
def _queue(namespace: str, name: str) -> str:
    """Likewise."""
    return f"{namespace}/{name}"


def split_queue(queue: str) -> TaskKey:
    """Namespace and name of a queue."""
    namespace, _slash, name = queue.partition("/")
    return namespace, name
