# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was found by trying on single rows, while these stay as they are: pods that wait for room are many, and alike.

Asked by framework/nominated.py (would a pod fit beside those nominated there) and by plugins that look for victims.
Only where no filter looks at other rows; what else is looked at is in the `question` and in the stamps.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Callable, Generic, TypeVar

from ..cluster.snapshot import Snapshot
from ..model.placement import PlacementRequest
from ..model.pod import PodInfo
from .contract import Dirt, Filter
from .state import Cycle

Answer = TypeVar("Answer")
Nominated = Mapping[str, Sequence[PodInfo]]
"""Nominated pods by node, in the order in which they were."""
MOST = 32
"""Questions whose answers are kept; then all are forgotten."""


class Tried(Generic[Answer]):
    """Answers to one question, by row."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Hashable, Answer]] = {}

    def ask(
        self, rows: Iterable[int], stamp: Callable[[int], Hashable], find: Callable[[list[int]], Mapping[int, Answer]]
    ) -> dict[int, Answer]:
        """Return the answers. `stamp`: what they depend on; `find` is asked about rows where that is another now."""
        stamps = {row: stamp(row) for row in rows}
        known = self._known
        stale = [row for row, one in stamps.items() if row not in known or known[row][0] != one]
        if stale:
            for row, answer in find(stale).items():
                known[row] = (stamps[row], answer)
        return {row: known[row][1] for row in stamps}


class Trials:
    """Answers by question, for one profile over one layout of the node table."""

    def __init__(self) -> None:
        self._by_question: dict[Hashable, Tried[object]] = {}

    def to(self, question: Hashable) -> Tried[object]:
        """Return the answers to a question."""
        found = self._by_question.get(question)
        if found is None:
            if len(self._by_question) >= MOST:
                self._by_question.clear()
            found = self._by_question[question] = Tried()
        return found


def asked_by(
    snapshot: Snapshot, request: PlacementRequest, filters: Sequence[tuple[str, Filter]]
) -> tuple[Hashable, ...] | None:
    """Return what of the request filters look at; None where one looks at other rows than the one it judges."""
    if any(plugin.filter_dirt in (Dirt.TOPOLOGY, Dirt.ALL) for _name, plugin in filters):
        return None
    cycle = Cycle(snapshot, request)
    return tuple([(name, plugin.filter_key(cycle)) for name, plugin in filters])


def yields_to(pod: PodInfo, nominated: Nominated, node: str) -> list[PodInfo]:
    """Return the pods nominated to a node whose room the pod must leave alone.

    Of those of its own priority only who was nominated there before it: who came later has counted it, and ended
    somebody for more room. Else each of two would yield to the other while the second one's victim is going, and the
    first, whose room is there, would end yet another one elsewhere (kube-scheduler does).
    """
    found, later = [], False
    for one in nominated.get(node, ()):
        if one.uid == pod.uid:
            later = True
        elif one.priority > pod.priority or (one.priority == pod.priority and not later):
            found.append(one)
    return found
