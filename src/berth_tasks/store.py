"""PodSnapshotStore: the newest snapshot of tasks' pods, and who is told how it changed.

Sources put in events and whole lists; events of one moment make one snapshot. Each subscriber is called at its own
pace, one call at a time: one that is slow is told of more at once the next time, one that raises is told again, with
what came meanwhile. Neither delays anybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any

from berth_core.tasks.pods import PodState
from berth_core.tasks.snapshot import Difference, PodEvent, PodKey, PodsSnapshot, differences
from berth_core.tasks.task import Task

from .alike import Alike
from .subscriptions import Subscription

Subscriber = Callable[[Sequence[Difference], PodsSnapshot], Awaitable[None]]
#: Events of so many seconds make one snapshot.
BATCH = 0.02


class PodSnapshotStore:
    """Made inside a running loop. ``follow`` sees every change at once and in order, and must not wait or raise.

    ``task_at``: the Task of that namespace and name, where one is known.
    """

    def __init__(
        self,
        follow: Callable[[Sequence[Difference]], None],
        task_at: Callable[[tuple[str, str]], Task | None] = lambda _key: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._follow, self._task_at = follow, task_at
        self.snapshot = PodsSnapshot()
        self._events: list[PodEvent] = []
        self._version = 0
        self._timer: asyncio.TimerHandle | None = None
        self._subscribers: list[_Subscription] = []
        #: The pod of a task; of one that has several, all of them.
        self._by_task: dict[tuple[str, str], PodState | tuple[PodState, ...]] = {}
        self._alike = Alike()

    def begin(self, snapshot: PodsSnapshot | None) -> None:
        """Take over what an earlier process has kept."""
        if snapshot is not None:
            self._version = snapshot.version
            for pod in snapshot.all():
                self.shared(pod)
            self._put(snapshot)

    def of_task(self, key: tuple[str, str]) -> list[PodState]:
        """The pods of a task, by its namespace and name."""
        found = self._by_task.get(key, ())
        return [found] if isinstance(found, PodState) else list(found)

    def subscribe(self, name: str, call: Subscriber) -> None:
        """Tell ``call`` from now on; the first time of all that is there. Before `run`."""
        self._subscribers.append(_Subscription(name, call, self))

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(*(one.run() for one in self._subscribers))

    def tell(self, pod: PodState | None, version: int = 0, *, there: bool = True) -> None:
        """An event of the watch, which has come to ``version``; without a pod: a bookmark."""
        if pod is not None:
            self._events.append(PodEvent(self.shared(pod), there))
        self._version = max(self._version, version)
        if self._timer is None:
            self._timer = self._loop.call_later(BATCH, self.flush)

    def wrote(self, pod: PodState) -> bool:
        """The answer to an own write counts at once; False where the pod has gone before its answer came."""
        self._events.append(PodEvent(self.shared(pod)))
        self.flush()
        return self.snapshot.knows(pod)

    def flush(self) -> None:
        """Make the snapshot of what was told."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        self._put(self.snapshot.applied(events, self._version), {event.pod.key for event in events})

    def replace(self, pods: Iterable[PodState], version: int) -> None:
        """A whole list, of pods as `shared` gives them; one that is older than what is known changes nothing."""
        self.flush()
        self._put(self.snapshot.replaced(pods, version))

    def rewound(self) -> None:
        """etcd was restored from a backup: the next list is taken, whatever its version."""
        self.flush()
        self._version = 0
        self._put(self.snapshot.rewound())

    def _put(self, snapshot: PodsSnapshot, keys: Collection[PodKey] | None = None) -> None:
        """``keys``: of what may differ: to compare ten thousand pods at each event takes longer than all else."""
        changes = differences(self.snapshot, snapshot, keys)
        self.snapshot = snapshot
        for old, new in changes:
            self._index(old, new)
        self._follow(changes)
        for one in self._subscribers:
            one.look(keys)

    def _index(self, old: PodState | None, new: PodState | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            key = pod.task_key
            found = [one for one in self.of_task(key) if one.uid != pod.uid]
            if pod is new:
                found.append(pod)
            if not found:
                self._by_task.pop(key, None)
                continue
            task = self._task_at(key) if key not in self._by_task else None
            self._by_task[key if task is None else task.key] = found[0] if len(found) == 1 else tuple(found)

    def shared(self, pod: PodState) -> PodState:
        """The pod as it is known, or with the texts that are: of itself, of its task, and those that very many have.

        What it is made of is put in the place of what is equal, whoever has it.
        """
        old = self.snapshot.find(pod.key)
        if old == pod:
            return old
        one = self._alike.one
        same: dict[str, Any] = {"node": one(pod.node), "phase": one(pod.phase), "started": one(pod.started)}
        same |= {"requests": one(pod.requests)}
        if not pod.over and not pod.details.termination_message:  # very many may wait for the same
            same["details"] = one(pod.details)
        task = self._task_at(pod.task_key)
        if old is not None and old.uid == pod.uid:
            same |= {"name": old.name, "uid": old.uid, "task_key": old.task_key, "task_uid": old.task_uid}
        if task is not None and task.uid == pod.task_uid:
            same |= {"task_key": task.key, "task_uid": task.uid}
        if task is not None and task.content == pod.content:  # each Task may have another one
            same["content"] = task.content
        for name, value in same.items():  # dataclasses.replace takes as long as all else here
            object.__setattr__(pod, name, value)
        return pod


class _Subscription(Subscription):
    """One subscriber, and the snapshot of which it was told last."""

    def __init__(self, name: str, call: Subscriber, store: PodSnapshotStore) -> None:
        super().__init__(name)
        self._call, self._store = call, store
        self._seen = PodsSnapshot()
        #: Of what may differ since then; None: of anything.
        self._keys: set[PodKey] | None = None
        self._due.set()

    def look(self, keys: Collection[PodKey] | None) -> None:
        """Something may have changed."""
        if keys is None:
            self._keys = None
        elif self._keys is not None:
            self._keys.update(keys)
        self._due.set()

    async def _told(self) -> Exception | None:
        """Tell what has changed. Returns what the subscriber raised; it is told of the same again then."""
        snapshot, keys = self._store.snapshot, self._keys
        self._keys = set()
        changes = differences(self._seen, snapshot, keys)
        if changes or snapshot.version != self._seen.version:
            try:
                await self._call(changes, snapshot)
            except Exception as exc:  # noqa: BLE001 - a subscriber's fault is its own
                self.look(keys)
                return exc
            self._seen = snapshot
        return None
