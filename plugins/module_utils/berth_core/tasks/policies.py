# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies: whose turn it is. The contract for those of other packages, and the two that are always there.

A policy is a function of one queue to its turn. Before each task that is given, every queue with tasks that wait is
asked by its own policy; the one of the lowest rank is served, of equal ranks the one of the lowest share. So queues of
different policies can be told apart: `fair` has rank 0, and `priority` comes before it above priority 0 and after it
below. A policy reads what it is given and nothing else: the same line gives the same turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isnan
from numbers import Real
from typing import Any, Callable, NamedTuple

from ..errors import InputError
from .offers import Wants
from .queues import Queue


class Line(NamedTuple):
    """A queue with tasks that wait: `first` of so many tasks and gangs (`waiting`).

    `used`: what its tasks have; `whole`: what the cluster has in all. Both in thousandths of a core of cpu, else units
    or bytes.
    """

    queue: Queue
    used: Mapping[str, int]
    whole: Mapping[str, int]
    waiting: int
    first: Wants


class Turn(NamedTuple):
    """The lower the sooner: `rank` first, then `share`."""

    rank: int
    share: Fraction | float


Policy = Callable[[Line], Turn]


def fair(line: Line) -> Turn:
    """Dominant resource fairness: who has least of what its share entitles it to."""
    shares = [Fraction(value, line.whole[name]) for name, value in line.used.items() if line.whole.get(name)]
    return Turn(0, max(shares, default=Fraction(0)) / line.queue.share)


def priority(line: Line) -> Turn:
    """The queue of the highest priority, fair between equals."""
    return Turn(-line.queue.priority, fair(line).share)


BUILT_IN: Mapping[str, Policy] = {"fair": fair, "priority": priority}


class Policies(NamedTuple):
    """Those that are known by name, and that of queues which name none."""

    known: Mapping[str, Policy] = BUILT_IN
    default: str = "fair"

    def turn(self, line: Line) -> Turn:
        """Whose turn it is, by the queue's own policy. Raises InputError where that answers something else."""
        name = line.queue.policy or self.default
        try:
            turn: Any = self.known[name](line)
            rank, share = turn
            wrong = isinstance(rank, bool) or not isinstance(rank, int) or not isinstance(share, Real) or isnan(share)
        except Exception as exc:  # a policy of another package costs its queue the turn, and nobody else anything
            raise InputError(f"policy {name} failed: {type(exc).__name__}: {exc}") from exc
        if wrong:
            raise InputError(f"policy {name} answers {turn!r}: expected Turn(rank, share), a whole number and a number")
        return Turn(rank, share)


#: Without packages of others.
DEFAULT = Policies()
