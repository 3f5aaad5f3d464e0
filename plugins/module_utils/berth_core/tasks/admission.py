# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the waiting tasks get what is offered, by queue: who starts now, what keeps the others, who is owed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Callable, NamedTuple

from ..errors import InputError
from ..model.pod import Amounts
from . import offers as room
from .bounds import EXCEEDED_QUOTA, Bounds
from .gangs import Members, Unit, Units, units
from .offers import Offer, Wants
from .policies import DEFAULT, Line, Policies
from .queues import LENT, Cohort, Queue, QueueKey
from .task import DEFAULT_QUEUE

Queues = Mapping[QueueKey, Queue]
Why = tuple[str, str]
#: The nodes that a task can be on.
Ways = Callable[[Wants], Collection[str]]
NEVER_FITS, NO_ROOM = "NeverFits", "NoRoom"
NO_WAY = (NO_ROOM, "its selectors and tolerations let it on no node that takes pods")
#: What is taken back at one time: for the first task or gang of a queue and so many behind it.
MOST_OWED = 100


class Verdict(NamedTuple):
    """`admitted`: tasks in the order in which they are to be started; `waiting`: task -> reason and message.

    `together`: of a task that starts with its gang, how many are bound together. `owed`: what waits for what is its
    queue's own, and might have it back (reclaim.py). `nodes`: of what is given alone, on which node there is room.
    `full`: that was as much as one round gives, so that others were not looked at. `reached`: it is the turn of whom
    `until` named.
    """

    admitted: list[Wants]
    waiting: dict[tuple[str, str], Why]
    owed: list[Unit]
    together: dict[tuple[str, str], int]
    nodes: dict[tuple[str, str], str]
    full: bool = False
    reached: bool = False

    def beside(self, other: Verdict) -> Verdict:
        """Both, of other tasks each; those of `other` come later."""
        return Verdict(
            [*self.admitted, *other.admitted],
            {**self.waiting, **other.waiting},
            [*self.owed, *other.owed],
            {**self.together, **other.together},
            {**self.nodes, **other.nodes},
            self.full or other.full,
        )


class Ledger:
    """What every queue has now, by namespace: `cohorts`. Changed as tasks are admitted.

    `bounds`: quotas and the backend's ceiling, which ledgers of one round share.
    """

    def __init__(self, queues: Queues, used: Mapping[str, Mapping[str, int]], bounds: Bounds | None = None) -> None:
        self.queues = queues
        self.bounds = bounds if bounds is not None else Bounds()
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
    tasks: Iterable[Wants],
    ledger: Ledger,
    nodes: Mapping[str, Mapping[str, int]],
    offers: Sequence[Offer],
    policies: Policies = DEFAULT,
    members: Mapping[str, Members] | None = None,
    ways: Ways | None = None,
    most: int | None = None,
    until: tuple[str, str] | None = None,
) -> Verdict:
    """Who starts now. `nodes`: what each has in all. What is given is taken from `offers` and put into the ledger.

    The first of a queue that finds no room holds up those behind it, so that a large one is not starved. Queues that
    would borrow come after all others. `members`: those of gangs that do not wait, by `gang_key`. `ways`: the nodes on
    which a task can be; None: that is the scheduler's matter. `most`: so many in one round, the last gang whole.
    `until`: whose turn ends it; nothing is given to that one, which is of no gang.
    """
    verdict = Verdict([], {}, [], {}, {})
    lines = _lines(tasks, ledger.queues, members or {}, verdict.waiting)
    whole = room.total(nodes.values())
    alike: dict[Why, Why] = {}
    while lines:
        if most is not None and len(verdict.admitted) >= most:
            return verdict._replace(full=True)
        key = _next(lines, ledger, whole, policies, verdict.waiting)
        if key is None:
            break
        if until is not None and lines[key].first.first.key == until:
            others = len(lines) > 1 or len(lines[key]) > 1
            return verdict._replace(full=others, reached=True)
        unit = lines[key].popleft()
        mine, places = nodes, offers
        if ways is not None:
            may = ways(unit.first)
            if not may:  # who has no way to any node holds up nobody
                verdict.waiting.update((task.key, NO_WAY) for task in unit.tasks)
                if not lines[key]:
                    del lines[key]
                continue
            mine = {name: has for name, has in nodes.items() if name in may}
            places = [offer for offer in offers if offer.node in may]
        why = _given(unit, ledger, mine, places, verdict.nodes)
        _note(unit, alike.setdefault(why, why), lines[key], ledger, verdict)  # very many may wait for the same
        if not lines[key]:
            del lines[key]
    return verdict


def _note(unit: Unit, why: Why, line: Units, ledger: Ledger, verdict: Verdict) -> None:
    """What became of it; `line`: those behind it, whom it holds up where it may start later."""
    if not why[0]:
        verdict.admitted.extend(unit.tasks)
        verdict.together.update((task.key, unit.together) for task in unit.tasks if unit.together)
        return
    verdict.waiting.update((task.key, why) for task in unit.tasks)
    if why[0] != NEVER_FITS:
        _owe([unit, *islice(line, MOST_OWED)], why[0], ledger, verdict)
        line.clear()


def _next(
    lines: dict[QueueKey, Units],
    ledger: Ledger,
    whole: Mapping[str, int],
    policies: Policies,
    waiting: dict[tuple[str, str], Why],
) -> QueueKey | None:
    """The queue whose turn it is. One whose policy fails is not asked again in this round, and its tasks say so."""
    turns = {}
    for key, line in list(lines.items()):
        cohort, unit = ledger.cohort(key[0]), line.first
        try:
            turn = policies.turn(Line(ledger.queue(key), cohort.used(key[1]), whole, len(line), unit.first))
        except InputError as exc:
            why = ("PolicyFailed", f"TaskQueue {key[0]}/{key[1]}: {exc.message}")
            waiting.update((task.key, why) for each in line for task in each.tasks)
            del lines[key]
        else:
            turns[key] = (bool(cohort.borrows(key[1], unit.requests)), turn, key)
    return min(turns, key=turns.__getitem__) if turns else None


def _given(
    unit: Unit,
    ledger: Ledger,
    nodes: Mapping[str, Mapping[str, int]],
    offers: Sequence[Offer],
    at: dict[tuple[str, str], str],
) -> Why:
    """Take what it asks for; why not, where that cannot be. Into `at` goes the node of what is given alone."""
    task, requests, parts = unit.first, unit.requests, unit.parts
    cohort = ledger.cohort(task.namespace)
    gang = f"gang of {len(parts)}: " if len(parts) > 1 else ""
    for part in dict.fromkeys(parts):
        never = room.never_fits(part, nodes)
        if never:
            return NEVER_FITS, gang + never
    never = cohort.never(task.queue, requests) or ledger.bounds.never(unit)
    if never:
        return NEVER_FITS, gang + never
    for reason, words in (cohort.obstacle(task.queue, requests), ledger.bounds.obstacle(unit)):
        if reason:
            return reason, gang + words
    node = "" if gang else room.subtract(offers, requests)
    placed = room.place(offers, parts) if gang else int(bool(node))
    if placed < len(parts):
        return _no_room(parts, placed, nodes)
    if node:
        at[task.key] = node
    cohort.take(task.queue, requests)
    ledger.bounds.take(unit)
    return "", ""


def _no_room(parts: Sequence[Amounts], placed: int, nodes: Mapping[str, Mapping[str, int]]) -> Why:
    if len(parts) == 1:
        return NO_ROOM, "no node has enough free now"
    empty = [Offer(name, dict(has)) for name, has in sorted(nodes.items())]
    at_most = room.place(empty, parts)
    if nodes and at_most < len(parts):
        return NEVER_FITS, f"gang of {len(parts)}: if all nodes were empty {at_most} of them had room together"
    return NO_ROOM, f"gang of {len(parts)}: {placed} of them have room now"


def _owe(line: Sequence[Unit], reason: str, ledger: Ledger, verdict: Verdict) -> None:
    """What a queue waits for of its own is lent to nobody meanwhile, and is taken back where the queue says so."""
    task, requests = line[0].first, line[0].requests
    cohort = ledger.cohort(task.namespace)
    if reason in (LENT, NO_ROOM, EXCEEDED_QUOTA) and not cohort.borrows(task.queue, requests):
        cohort.owe(task.queue, requests)
        # Nobody is ended for what a quota keeps back: who uses that is not looked at.
        if reason != EXCEEDED_QUOTA and ledger.queue((task.namespace, task.queue)).reclaim:
            verdict.owed.extend(line)


def _lines(
    tasks: Iterable[Wants], queues: Queues, members: Mapping[str, Members], waiting: dict[tuple[str, str], Why]
) -> dict[QueueKey, Units]:
    """What waits in each queue, the next one first. Into `waiting` goes what cannot be given now, whatever is free."""
    listed: dict[QueueKey, list[Wants]] = {}
    for task in sorted(tasks, key=lambda one: (-one.priority, one.created, one.namespace, one.name)):
        key = (task.namespace, task.queue)
        fault = queues[key].fault if key in queues else ("", "")
        if key not in queues and task.queue != DEFAULT_QUEUE:
            waiting[task.key] = ("UnknownQueue", f"there is no TaskQueue {task.namespace}/{task.queue}: create it")
        elif fault[0]:
            waiting[task.key] = fault
        else:
            listed.setdefault(key, []).append(task)
    lines: dict[QueueKey, Units] = {}
    for key, line in listed.items():
        found, others = units(line, members)
        waiting.update(others)
        if found:
            lines[key] = found
    return lines
