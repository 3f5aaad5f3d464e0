# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the waiting tasks get what is offered, by queue: who starts now, what keeps the others, who is owed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import InputError
from . import offers as room
from .offers import Offer
from .policies import DEFAULT, Line, Policies
from .queues import LENT, Cohort, Queue, QueueKey
from .task import DEFAULT_QUEUE, Task

Queues = Mapping[QueueKey, Queue]
Why = tuple[str, str]
NEVER_FITS, NO_ROOM = "NeverFits", "NoRoom"
#: What is taken back at one time: for the first task of a queue and so many behind it.
MOST_OWED = 100


class Verdict(NamedTuple):
    """`admitted`: tasks in the order in which they are to be started; `waiting`: task -> reason and message.

    `owed`: tasks that wait for what is their queue's own, and might have it back (reclaim.py).
    """

    admitted: list[Task]
    waiting: dict[tuple[str, str], Why]
    owed: list[Task]


class Ledger:
    """What every queue has now, by namespace: `cohorts`. Changed as tasks are admitted."""

    def __init__(self, queues: Queues, used: Mapping[str, Mapping[str, int]]) -> None:
        self.queues = queues
        self._used: dict[str, dict[str, Mapping[str, int]]] = {}
        for key, amounts in used.items():
            namespace, _slash, name = key.partition("/")
            self._used.setdefault(namespace, {})[name] = amounts
        self._cohorts: dict[str, Cohort] = {}

    def cohort(self, namespace: str) -> Cohort:
        """The queues of a namespace."""
        found = self._cohorts.get(namespace)
        if found is None:
            own = [queue for (where, _name), queue in self.queues.items() if where == namespace]
            found = self._cohorts[namespace] = Cohort(own, self._used.get(namespace, {}))
        return found

    def queue(self, key: QueueKey) -> Queue:
        """One queue; the default one needs no object."""
        return self.queues.get(key) or Queue(key[1])


def admit(
    tasks: Iterable[Task],
    ledger: Ledger,
    nodes: Mapping[str, Mapping[str, int]],
    offers: Sequence[Offer],
    policies: Policies = DEFAULT,
) -> Verdict:
    """Who starts now. `nodes`: what each has in all. What is given is taken from `offers` and put into the ledger.

    The first task of a queue that finds no room holds up those behind it, so that a large one is not starved. Queues
    that would borrow come after all others.
    """
    lines, waiting = _lines(tasks, ledger.queues)
    whole = room.total(nodes.values())
    verdict = Verdict([], waiting, [])
    while lines:
        key = _next(lines, ledger, whole, policies, waiting)
        if not key:
            continue
        task = lines[key].pop(0)
        reason, words = _given(task, ledger, nodes, offers)
        if not reason:
            verdict.admitted.append(task)
        else:
            waiting[task.key] = (reason, words)
            if reason != NEVER_FITS:
                _owe([task, *lines[key][:MOST_OWED]], reason, ledger, verdict)
                lines[key].clear()
        if not lines[key]:
            del lines[key]
    return verdict


def _next(
    lines: dict[QueueKey, list[Task]],
    ledger: Ledger,
    whole: Mapping[str, int],
    policies: Policies,
    waiting: dict[tuple[str, str], Why],
) -> QueueKey | None:
    """The queue whose turn it is. One whose policy fails is not asked again in this round, and its tasks say so."""
    turns = {}
    for key, line in list(lines.items()):
        cohort = ledger.cohort(key[0])
        try:
            turn = policies.turn(Line(ledger.queue(key), cohort.used(key[1]), whole, len(line), line[0]))
        except InputError as exc:
            waiting.update((task.key, ("PolicyFailed", f"TaskQueue {key[0]}/{key[1]}: {exc.message}")) for task in line)
            del lines[key]
        else:
            turns[key] = (bool(cohort.borrows(key[1], line[0].requests)), turn, key)
    return min(turns, key=turns.__getitem__) if turns else None


def _given(task: Task, ledger: Ledger, nodes: Mapping[str, Mapping[str, int]], offers: Sequence[Offer]) -> Why:
    """Take what the task asks for; why not, where that cannot be."""
    never = room.never_fits(task.requests, nodes)
    if never:
        return NEVER_FITS, never
    cohort = ledger.cohort(task.namespace)
    reason, words = cohort.obstacle(task.queue, task.requests)
    if reason:
        return reason, words
    if not room.subtract(offers, task.requests):
        return NO_ROOM, "no node has enough free now"
    cohort.take(task.queue, task.requests)
    return "", ""


def _owe(line: Sequence[Task], reason: str, ledger: Ledger, verdict: Verdict) -> None:
    """What a queue waits for of its own is lent to nobody meanwhile, and is taken back where the queue says so."""
    task = line[0]
    cohort = ledger.cohort(task.namespace)
    if reason in (LENT, NO_ROOM) and not cohort.borrows(task.queue, task.requests):
        cohort.owe(task.queue, task.requests)
        if ledger.queue((task.namespace, task.queue)).reclaim:
            verdict.owed.extend(line)


def _lines(tasks: Iterable[Task], queues: Queues) -> tuple[dict[QueueKey, list[Task]], dict[tuple[str, str], Why]]:
    """The tasks of each queue, the next one first; and those whose queue is not there."""
    lines: dict[QueueKey, list[Task]] = {}
    waiting: dict[tuple[str, str], Why] = {}
    for task in sorted(tasks, key=lambda one: (-one.priority, one.created, one.namespace, one.name)):
        key = (task.namespace, task.queue)
        fault = queues[key].fault if key in queues else ("", "")
        if key not in queues and task.queue != DEFAULT_QUEUE:
            waiting[task.key] = ("UnknownQueue", f"there is no TaskQueue {task.namespace}/{task.queue}: create it")
        elif fault[0]:
            waiting[task.key] = fault
        else:
            lines.setdefault(key, []).append(task)
    return lines, waiting
