"""TaskRegistry: what is known of tasks by uid: their queues, the states that were told, and who is to be killed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from berth_core.errors import StateError
from berth_core.tasks import states
from berth_core.tasks.batch import Batch
from berth_core.tasks.task import Task

_log = logging.getLogger(__name__)

TaskKey = tuple[str, str]


class Update(NamedTuple):
    """A task has come to another state. ``tries``: how many have ended."""

    namespace: str
    name: str
    uid: str
    state: str
    tries: int


class TaskRegistry:
    """``wake`` is called when a task is to be looked at."""

    def __init__(self) -> None:
        #: Queues of batches, and Tasks, by uid.
        self._queue_of: dict[str, str] = {}
        self._known: dict[str, Task] = {}
        #: uids of Tasks by namespace and name; those that `kill_task` was told to end.
        self._uids: dict[TaskKey, str] = {}
        self._killed: set[str] = set()
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
        new = _told(state, task.status.tries)
        if old == new or old[0] in states.FINAL:
            return False
        self._told[task.uid] = new
        for call in self._subscribers:
            try:
                call(Update(task.namespace, task.name, task.uid, *new))
            except Exception:  # noqa: BLE001 - a subscriber's fault is its own
                _log.exception("a subscriber failed on Task %s/%s", task.namespace, task.name)
        return True

    def by_state(self) -> Counter[tuple[str, str, str]]:
        """Tasks by their state; elements of batches are not among them."""
        told = ((self.queue_of(uid), state) for uid, (state, _tries) in self._told.items() if "." not in uid)
        return Counter((*split_queue(queue), state) for queue, state in told if queue)

    # -- who is there ----------------------------------------------------------------------------------------------

    def know(self, task: Task) -> None:
        """A Task, by name and with its queue."""
        self._uids[task.key], self._known[task.uid] = task.uid, task

    def know_batch(self, batch: Batch) -> None:
        """The queue of all elements of a batch."""
        self._queue_of[batch.uid] = f"{batch.namespace}/{batch.queue}"

    def forget(self, uid: str) -> None:
        """The task is gone."""
        self._told.pop(uid, None)
        self._queue_of.pop(uid, None)
        self._killed.discard(uid)
        task = self._known.pop(uid, None)
        if task is not None and self._uids.get(task.key) == uid:
            del self._uids[task.key]

    def queue_of(self, uid: str) -> str:
        """The queue of a task, as namespace/name; empty where nobody knows it."""
        task = self._known.get(uid)
        if task is not None:
            return _queue(task.namespace, task.queue)
        return self._queue_of.get(uid) or self._queue_of.get(uid.rpartition(".")[0], "")

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


@lru_cache(maxsize=1024)
def _told(state: str, tries: int) -> tuple[str, int]:
    """Very many tasks have the same."""
    return state, tries


@lru_cache(maxsize=1024)
def _queue(namespace: str, name: str) -> str:
    """Likewise."""
    return f"{namespace}/{name}"


def split_queue(queue: str) -> TaskKey:
    """Namespace and name of a queue."""
    namespace, _slash, name = queue.partition("/")
    return namespace, name
