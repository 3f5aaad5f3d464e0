# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods that wait: which one is next, which are held back, which wait for the cluster to change.

Kept by the daemon, which says what happens and what time it is (seconds of any clock that never goes back). The
rules are those of kube-scheduler v1.36: a pod is in exactly one of

    active          may be tried now, in the order of QueueSort
    backoff         was refused or failed, and is held back for a while
    unschedulable   waits until a change makes it worth a try, by the word of who refused it; also gated pods
    in flight       is being placed. What changes meanwhile is kept, and asked about when the pod comes back

Never waits, never reads a clock, knows no API server.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any

from ..model.pod import PodInfo
from .contract import PreEnqueue
from .events import ACTIVATED, ANY, WAITED_LONG, Change, Wishes, pod_changes

LEFTOVER_AFTER = 300.0
"""Seconds after which a pod is tried again though nothing seemed to help it."""
WINDOW = 1.0
"""Ends of backoff are rounded down to it: pods that become free in one second are sorted by priority, not by chance."""


class Strategy(Enum):
    """What is done with a pod when something changed."""

    SKIP = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


@dataclass
class QueuedPod:
    """A pod and its history in the queue. Times are the owner's clock. `pending`: plugins that wait for somebody."""

    pod: PodInfo
    profile: str
    queued_at: float
    attempts: int = 0
    first_attempt: float | None = None
    refusals: int = 0
    errors: int = 0
    refused_by: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    gated_by: str = ""
    backoff_until: float | None = None
    woken_at: float = 0.0

    @property
    def rejectors(self) -> frozenset[str]:
        """Return the plugins that must be convinced."""
        return self.refused_by | self.pending


@dataclass(frozen=True)
class Rules:
    """What the profiles say of the queue. `gates` and `wishes` by profile; backoff in seconds."""

    sort_key: Callable[[PodInfo, float], Any]
    gates: Mapping[str, Sequence[tuple[str, PreEnqueue]]]
    wishes: Mapping[str, Wishes]
    initial_backoff: float = 1.0
    max_backoff: float = 10.0


class _Heap:
    """Pods by a key, with removal. An entry that was removed or put anew is passed over when it comes up."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, str]] = []
        self._current: dict[str, tuple[int, QueuedPod]] = {}
        self._number = count()

    def put(self, key: Any, queued: QueuedPod) -> None:
        number = next(self._number)
        self._current[queued.pod.uid] = (number, queued)
        heapq.heappush(self._heap, (key, number, queued.pod.uid))

    def first(self) -> tuple[Any, QueuedPod] | None:
        while self._heap:
            key, number, uid = self._heap[0]
            found = self._current.get(uid)
            if found is not None and found[0] == number:
                return key, found[1]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> QueuedPod | None:
        found = self.first()
        if found is None:
            return None
        heapq.heappop(self._heap)
        return self._current.pop(found[1].pod.uid)[1]

    def remove(self, uid: str) -> QueuedPod | None:
        found = self._current.pop(uid, None)
        return None if found is None else found[1]

    def get(self, uid: str) -> QueuedPod | None:
        found = self._current.get(uid)
        return None if found is None else found[1]

    def __len__(self) -> int:
        return len(self._current)


@dataclass
class _Flights:
    """Pods in flight, and what changed since the first of them left."""

    since: dict[str, int] = field(default_factory=dict)
    pods: dict[str, QueuedPod] = field(default_factory=dict)
    changes: deque[tuple[int, Change]] = field(default_factory=deque)
    number: int = 0

    def start(self, queued: QueuedPod) -> None:
        self.since[queued.pod.uid] = self.number
        self.pods[queued.pod.uid] = queued

    def tell(self, change: Change) -> None:
        if self.since:
            self.changes.append((self.number, change))
            self.number += 1

    def of(self, uid: str) -> list[Change]:
        begun = self.since.get(uid, self.number)
        return [change for number, change in self.changes if number >= begun]

    def end(self, uid: str) -> None:
        self.pods.pop(uid, None)
        if self.since.pop(uid, None) is None:
            return
        oldest = next(iter(self.since.values()), self.number)  # numbers only grow: who left first stands first
        while self.changes and self.changes[0][0] < oldest:
            self.changes.popleft()


class SchedulingQueue:
    """All pods that have no node yet, by uid."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._active, self._backoff, self._errors = _Heap(), _Heap(), _Heap()
        self._waiting: dict[str, QueuedPod] = {}
        self._flights = _Flights()

    # -- pods come and go ------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, profile: str, now: float) -> None:
        """Take a new pod in. One that is here already is left where it is."""
        if not self.knows(pod.uid):
            self._activate(QueuedPod(pod, profile, now))

    def update(self, pod: PodInfo, profile: str, now: float) -> None:
        """Write a pod's new facts; a pod that was waiting is tried again where they may help it."""
        uid = pod.uid
        flying = self._flights.pods.get(uid)
        if flying is not None:
            old, flying.pod = flying.pod, pod
            for change in pod_changes(old, pod):
                self._flights.tell(change)
            return
        for heap in (self._active, self._backoff, self._errors):
            queued = heap.remove(uid)
            if queued is not None:
                queued.pod = pod
                self._put(heap, queued)
                return
        queued = self._waiting.get(uid)
        if queued is None:
            self.add(pod, profile, now)
            return
        old, queued.pod = queued.pod, pod
        for change in pod_changes(old, pod):
            if self._moved(queued, self._worth(queued, change), now):
                return

    def remove(self, uid: str) -> None:
        """Forget a pod that is gone or has a node. In flight it stays until `done`."""
        for heap in (self._active, self._backoff, self._errors):
            heap.remove(uid)
        self._waiting.pop(uid, None)

    def knows(self, uid: str) -> bool:
        """Tell whether the pod is anywhere here."""
        heaps = (self._active, self._backoff, self._errors)
        return uid in self._waiting or uid in self._flights.since or any(heap.get(uid) for heap in heaps)

    # -- a pod is tried --------------------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPod | None:
        """Take the next pod into flight; None where none may be tried.

        With nothing active, a pod that is held back after a refusal is tried early rather than nothing at all; one that
        failed by an error is not.
        """
        queued = self._active.pop() or self._backoff.pop()
        if queued is None:
            return None
        queued.attempts += 1
        queued.first_attempt = now if queued.first_attempt is None else queued.first_attempt
        self._flights.start(queued)
        return queued

    def done(self, uid: str) -> None:
        """The pod has left for good (or will be put back by `retry`): changes need not be kept for it any more."""
        self._flights.end(uid)

    def refused(self, queued: QueuedPod, now: float) -> None:
        """Put a pod back that could not be placed. Its `refused_by` and `pending` are of this attempt.

        Neither of them: an error, not a refusal; the pod is held back and tried again whatever happens.
        """
        uid = queued.pod.uid
        if queued.rejectors:
            queued.refusals += 1
            queued.errors = 0
        else:
            queued.errors += 1
        queued.queued_at, queued.backoff_until = now, None
        changes = self._flights.of(uid)
        self._flights.end(uid)
        if self._elsewhere(uid):
            return
        strategy = Strategy.SKIP if queued.rejectors else Strategy.AFTER_BACKOFF
        for change in changes if queued.rejectors else ():
            strategy = max(strategy, self._worth(queued, change), key=lambda one: one.value)
        if not self._moved(queued, strategy, now):
            self._waiting[uid] = queued

    def _elsewhere(self, uid: str) -> bool:
        return uid in self._waiting or any(heap.get(uid) for heap in (self._active, self._backoff, self._errors))

    # -- the cluster changes ---------------------------------------------------------------------------------------

    def changed(self, change: Change, now: float, up_to: int | None = None) -> None:
        """Something happened: pods that it may help become active, or are held back to the end of their backoff.

        `up_to`: it can help nobody of a higher priority.
        """
        for queued in list(self._waiting.values()):
            if up_to is not None and queued.pod.priority > up_to:
                continue
            if queued.gated_by and not self._gate_listens(queued, change):
                continue
            self._moved(queued, self._worth(queued, change), now)
        self._flights.tell(change)

    def activate(self, uids: Sequence[str]) -> None:
        """Try these pods as soon as possible, whatever refused them."""
        for uid in uids:
            queued = self._waiting.get(uid) or self._backoff.remove(uid) or self._errors.remove(uid)
            if queued is not None:
                self._activate(queued)
            elif uid in self._flights.since:
                self._flights.tell(Change(ACTIVATED.event, None, self._flights.pods[uid].pod))

    def flush(self, now: float) -> None:
        """End the backoff of those whose time has come, and wake those that have waited very long."""
        for heap in (self._backoff, self._errors):
            while True:
                found = heap.first()
                if found is None or self._held_back(found[1], now):
                    break
                heap.remove(found[1].pod.uid)
                self._activate(found[1], asked=True)
        for queued in list(self._waiting.values()):
            if now - max(queued.queued_at, queued.woken_at) > LEFTOVER_AFTER:
                queued.woken_at = now
                self._moved(queued, self._worth(queued, WAITED_LONG), now)

    def counts(self) -> dict[str, int]:
        """Return how many pods are where, in the words of kube-scheduler's metric pending_pods."""
        gated = sum(1 for one in self._waiting.values() if one.gated_by)
        return {
            "active": len(self._active),
            "backoff": len(self._backoff) + len(self._errors),
            "unschedulable": len(self._waiting) - gated,
            "gated": gated,
            "inflight": len(self._flights.since),
        }

    def kept_changes(self) -> int:
        """Return how many changes are kept for pods in flight."""
        return len(self._flights.changes)

    def pods(self) -> list[QueuedPod]:
        """Return every pod that is not in flight."""
        heaps = (self._active, self._backoff, self._errors)
        return [*self._waiting.values(), *(queued for heap in heaps for _number, queued in heap._current.values())]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _worth(self, queued: QueuedPod, change: Change) -> Strategy:
        """Ask the plugins that refused the pod whether the change may help it."""
        if not queued.rejectors:
            return Strategy.AFTER_BACKOFF
        if change.event.resource == ANY:
            about_another = isinstance(change.new, PodInfo) and change.new.uid != queued.pod.uid
            return Strategy.SKIP if about_another else Strategy.AFTER_BACKOFF
        found = Strategy.SKIP
        wishes = self.rules.wishes.get(queued.profile, {})
        for plugin in queued.rejectors:
            for wish in wishes.get(plugin, ()):
                if not wish.event.covers(change.event) or (wish.hint and not _hinted(wish.hint, queued.pod, change)):
                    continue
                if plugin in queued.pending:
                    return Strategy.AT_ONCE
                found = Strategy.AFTER_BACKOFF
        return found

    def _gate_listens(self, queued: QueuedPod, change: Change) -> bool:
        wishes = self.rules.wishes.get(queued.profile, {}).get(queued.gated_by, ())
        return change.event.resource == ANY or any(wish.event.covers(change.event) for wish in wishes)

    def _moved(self, queued: QueuedPod, strategy: Strategy, now: float) -> bool:
        """Carry a strategy out. False: the pod is where it was."""
        if strategy is Strategy.SKIP:
            return False
        if strategy is Strategy.AFTER_BACKOFF and self._held_back(queued, now):
            if self._gated(queued):
                return False
            self._waiting.pop(queued.pod.uid, None)
            self._put(self._backoff if queued.rejectors else self._errors, queued)
            return True
        return self._activate(queued)

    def _activate(self, queued: QueuedPod, asked: bool = False) -> bool:
        """Make a pod active; where a gate is shut it waits. `asked`: its gates were asked when its backoff began."""
        if not asked and self._gated(queued):
            self._waiting[queued.pod.uid] = queued
            return False
        self._waiting.pop(queued.pod.uid, None)
        self._put(self._active, queued)
        return True

    def _gated(self, queued: QueuedPod) -> bool:
        for name, gate in self.rules.gates.get(queued.profile, ()):
            if not gate.pre_enqueue(queued.pod).ok:
                queued.gated_by = name
                queued.refused_by |= {name}
                return True
        queued.gated_by = ""
        return False

    def _put(self, heap: _Heap, queued: QueuedPod) -> None:
        order = self.rules.sort_key(queued.pod, queued.queued_at)
        heap.put(order if heap is self._active else (self._until(queued), order), queued)

    def _until(self, queued: QueuedPod) -> float:
        """Return the end of the pod's backoff."""
        attempts = queued.errors or queued.refusals
        if not attempts or not self.rules.max_backoff:
            return 0.0
        if queued.backoff_until is None:
            held = backoff(attempts, self.rules.initial_backoff, self.rules.max_backoff)
            queued.backoff_until = _window(queued.queued_at + held)
        return queued.backoff_until

    def _held_back(self, queued: QueuedPod, now: float) -> bool:
        until = self._until(queued)
        return until > 0.0 and until >= _window(now)


def backoff(attempts: int, initial: float = 1.0, maximum: float = 10.0) -> float:
    """Return the seconds for which a pod is held back after so many attempts: doubled each time, up to the maximum."""
    if attempts < 1:
        return 0.0
    # Beyond 32 doublings the maximum has long been reached, and a float would overflow.
    doublings = min(attempts - 1, 32)
    return min(initial * float(1 << doublings), maximum)


def _window(moment: float) -> float:
    return moment - moment % WINDOW


def _hinted(hint: Callable[[PodInfo, Change], bool], pod: PodInfo, change: Change) -> bool:
    """Ask a plugin's hint; one that fails is taken for a yes, so that its fault costs an attempt and not the pod."""
    try:
        return hint(pod, change)
    except Exception:  # noqa: BLE001 - plugins from outside
        return True
