# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What extenders say of nodes, for one pod: it stands behind all Filter plugins, and is added to all scores.

Extenders are asked by the front end, over HTTP, between one call of framework/cycle.py's `place` and the next: the
first finds out about which nodes they have to be asked, the last decides with what they said, by the cluster as it is
then. So nobody else is kept waiting meanwhile, and no choice rests on what was true before the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..cluster.columns import IntColumn, np
from .contract import MAX_SCORE, Status, unschedulable

NAME = "Extender"
"""What refused, in the words of the queue. Anything that changes may convince it."""
HIGHEST = 10
"""Extenders rate from 0 to here."""
SCALE = MAX_SCORE // HIGHEST
NOT_ASKED = unschedulable("node(s) had room only after the extenders were asked")


@dataclass(frozen=True)
class Extended:
    """`asked`: the nodes that were put before them. `refused`: what was said of those that will not do.

    `scores`: what is added to the weighted sum of the plugins' scores. `closed`: nobody is asked any more, and a node
    that nobody was asked about will not do either; else it passes.
    """

    asked: frozenset[str] = frozenset()
    refused: Mapping[str, Status] = field(default_factory=dict)
    scores: Mapping[str, int] = field(default_factory=dict)
    closed: bool = False

    def and_now(self, asked: Iterable[str], refused: Mapping[str, Status], scores: Mapping[str, int]) -> Extended:
        """Return this with another answer, whose scores count alone: they may be relative to each other."""
        return Extended(self.asked.union(asked), {**self.refused, **refused}, scores, self.closed)

    def close(self) -> Extended:
        """Return this where nobody is asked any more."""
        return replace(self, closed=True)

    def verdict(self, node: str) -> Status | None:
        """Return why a node will not do; None where it will."""
        if node in self.asked or not self.closed:
            return self.refused.get(node)
        return NOT_ASKED

    def refusals(self, names: Sequence[str], rows: IntColumn) -> Iterator[tuple[Status, IntColumn]]:
        """Give the rows that will not do, by what is said of them."""
        found: dict[Status, list[int]] = {}
        for row in rows.tolist():
            verdict = self.verdict(names[row])
            if verdict is not None:
                found.setdefault(verdict, []).append(row)
        for status, refused in found.items():
            yield status, np.array(refused, dtype=np.int64)

    def totals(self, names: Sequence[str], rows: IntColumn) -> IntColumn:
        """Return what is added to the total of each row."""
        return np.array([self.scores.get(names[row], 0) for row in rows.tolist()], dtype=np.int64)
