# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs: tasks of which a minimum starts together or not at all, as units of what is given at one time.

While no member has a place, those that start carry the labels of a pod group, so that the scheduler binds them all
together, too; further members wait until it has. Members that come later, to make up for some that are gone or beyond
the minimum, are pods like others: a group's label would have them wait for members that have ended meanwhile.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..model.pod import Amounts
from .offers import Wants
from .task import Task

Why = tuple[str, str]
GANG_INCOMPLETE, GANG_STARTS = "GangIncomplete", "GangStarts"


class Members(NamedTuple):
    """The members of a gang that do not wait: on nodes; with a pod that has none yet; whose task has ended."""

    placed: int = 0
    pending: int = 0
    ended: int = 0


@dataclass(frozen=True)
class Unit:
    """Tasks that are given what they ask for at one time. `together`: so many pods are bound at once; 0: each alone."""

    tasks: tuple[Wants, ...]
    together: int = 0

    @property
    def first(self) -> Wants:
        return self.tasks[0]

    @property
    def parts(self) -> list[Amounts]:
        """What each of its pods takes of a node."""
        return [task.requests for task in self.tasks]

    @cached_property
    def requests(self) -> Amounts:
        """What it takes in all: asked for again and again, and of a gang the sum of many."""
        if len(self.tasks) == 1:
            return self.first.requests
        sums: dict[str, int] = {}
        for part in self.parts:
            for name, value in part:
                sums[name] = sums.get(name, 0) + value
        return tuple(sums.items())


class Units:
    """What is to be given of one queue, the next one first. Of a task that is none of a gang a unit is made when its
    turn comes: of those that wait there may be very many."""

    def __init__(self, found: Iterable[Unit | Wants] = ()) -> None:
        self._left = deque(found)
        self._first: Unit | None = None

    def __len__(self) -> int:
        return len(self._left)

    def __iter__(self) -> Iterator[Unit]:
        return map(_unit, self._left)

    @property
    def first(self) -> Unit:
        """The one whose turn it is."""
        if self._first is None:
            self._first = _unit(self._left[0])
        return self._first

    def popleft(self) -> Unit:
        """Likewise, and the next one is the first."""
        first, self._first = self.first, None
        self._left.popleft()
        return first

    def clear(self) -> None:
        """No more of this queue."""
        self._left.clear()
        self._first = None


def _unit(one: Unit | Wants) -> Unit:
    return one if isinstance(one, Unit) else Unit((one,))


def group_name(task: Task) -> str:
    """The name of the pod group, the same for every member and every process."""
    name = task.element.batch if task.element is not None else task.gang.name if task.gang is not None else ""
    return f"{name}-{hashlib.sha256(task.gang_key.encode()).hexdigest()[:10]}"


def units(line: Sequence[Wants], members: Mapping[str, Members]) -> tuple[Units, dict[tuple[str, str], Why]]:
    """What is to be given of one queue, and members that wait for others, and why.

    A gang stands where the first of its members stands. `members`: those that do not wait, by `gang_key`.
    """
    gangs: dict[str, list[Wants]] = {}
    for task in line:
        if task.gang is not None:
            gangs.setdefault(task.gang_key, []).append(task)
    if not gangs:
        return Units(line), {}
    found: list[Unit | Wants] = []
    waiting: dict[tuple[str, str], Why] = {}
    for task in line:
        if task.gang is None:
            found.append(task)
            continue
        mine = gangs.pop(task.gang_key, None)
        if mine is not None:
            own, rest, why = _gang(mine, members.get(task.gang_key, Members()))
            found += own
            waiting.update((one.key, why) for one in rest)
    return Units(found), waiting


def _gang(mine: list[Wants], there: Members) -> tuple[list[Unit], list[Wants], Why]:
    """The units of one gang; those of its members that wait for others, and why."""
    least = max(task.gang.least for task in mine if task.gang is not None)
    need = least - there.placed - there.pending - there.ended
    starts = (GANG_STARTS, "the first members of its gang are about to start")
    if need <= 0 and not there.placed and there.ended < least:
        return [], mine, starts
    if need <= 0:
        return [Unit((task,)) for task in mine], [], starts
    if len(mine) < need:
        name = mine[0].gang.name if mine[0].gang is not None else ""
        has = least - need + len(mine)
        return [], mine, (GANG_INCOMPLETE, f"gang {name} has {has} of the {least} tasks that start together")
    together = 0 if there.placed else least - there.ended
    return [Unit(tuple(mine[:need]), together if together > 1 else 0)], mine[need:], starts
