# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod like one before: what was found for that one, carried on by the rows that changed since.

Kept by framework/kept.py, asked by framework/cycle.py before anything else. In a backlog most pods are like the one
before, and one row has changed: the one that it went to. That row alone is judged and rated again, and the totals of
all nodes are compared, in one column of small numbers.

Only where that is exact: plugins say what they look at (`Reads`), and all that are asked look at rows alone, or at what
has a generation, which has not grown. Those that look at replicas elsewhere have counted them as they came and went
(`Follows`): what they say is laid over the totals for each pod. kube-scheduler's opportunistic batching (v1.36) goes
down the list of nodes that the first pod of a signature left; here each choice is the best of all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Callable, NamedTuple

from ..cluster.columns import BoolColumn, IntColumn, at_rows, ints, np
from ..cluster.snapshot import Snapshot
from .contract import MAX_SCORE, Followed, RowFilter, RowScore, Source
from .layers import FEW, PASSED, Numbers, Placed, ScoreLayer, Tables, in_range, judge, total_type
from .profile import Scorer
from .state import Cycle

OUT = -1
"""Stands in the place of a total where a filter refuses the row."""
SMALL = (1 << 15) - 1

RowFilters = Sequence[tuple[str, Callable[[int], bool]]]
RowScores = Sequence[tuple[str, int, Callable[[int], int]]]


class ByRow(NamedTuple):
    """What judges and rates single rows. `known`: whether every plugin has such a way."""

    filters: RowFilters
    scores: RowScores
    known: bool


class Beside(NamedTuple):
    """What a plugin follows. `filters`: whether it has a say in who passes; `weight`: of its scores."""

    name: str
    filters: bool
    weight: int
    says: Followed


class Asked(NamedTuple):
    """What is asked about a row again: the filters and scores that change with what runs on it.

    `allowed`: rows that all other filters let pass. `others`: all other scores. `names`: of the filters and the scores.
    `followed`: what is asked beside them, for each pod.
    """

    filters: Sequence[Placed]
    scorers: Sequence[Scorer]
    allowed: BoolColumn
    others: Sequence[ScoreLayer]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    followed: Sequence[Beside] = ()


class Again:
    """The totals of one kind of pod. `totals`: per row of the node table, OUT where a filter refuses it."""

    def __init__(self, cycle: Cycle, sources: frozenset[Source], asked: Asked, tables: Tables) -> None:
        snapshot, size = cycle.snapshot, len(cycle.snapshot.nodes)
        self._terms, self._workloads = Source.TERMS in sources, Source.WORKLOADS in sources
        self._stamp = self._stamp_of(snapshot)
        self._seen = snapshot.generation
        self._asked, self._tables = asked, tables
        self._by_row: ByRow | None = None
        weights = sum(one.weight for part in (asked.scorers, asked.others, asked.followed) for one in part)
        self._narrowed = any(one.filters for one in asked.followed)
        self._settled = True
        small = MAX_SCORE * weights < SMALL
        self.totals: IntColumn = np.full(size, OUT, dtype=np.int16 if small else total_type(weights))
        self._part: IntColumn | int = 0
        self.nbytes = self.totals.nbytes
        self.feasible = 0
        self.filtered = Counter(dict.fromkeys(asked.names[0], size))
        self.scored: Counter[str] = Counter()
        """Rows that each plugin is asked about, by what is kept."""

    def _stamp_of(self, snapshot: Snapshot) -> tuple[int, int, int, int]:
        """Return what stays the same while node objects, and all else that plugins look at, stay as they are."""
        terms = (snapshot.pod_terms.generation, snapshot.namespace_generation) if self._terms else (0, 0)
        return (snapshot.node_generation, *terms, snapshot.workloads.generation if self._workloads else 0)

    def holds(self, snapshot: Snapshot) -> bool:
        """Tell whether what was found can be carried on."""
        same = self._stamp == self._stamp_of(snapshot)
        return same and all(one.says.alive for one in self._asked.followed)

    def fill(self, cycle: Cycle, rows: IntColumn, passed: BoolColumn, totals: IntColumn, computed: Numbers) -> None:
        """Take what was found for the first pod of the kind: the rows that passed, also as a mask, and their totals.

        Both without what is followed.
        """
        self._part = self._of_others(cycle, rows, passed, computed)
        self._settle(rows)
        self.nbytes += 0 if isinstance(self._part, int) else self._part.nbytes
        self.totals[at_rows(rows, len(self.totals))] = totals
        self._count(len(rows))

    def _count(self, feasible: int) -> None:
        self.feasible = feasible
        self.scored = Counter(dict.fromkeys(self._asked.names[1], feasible) if feasible > 1 else {})

    def refresh(self, cycle: Cycle, computed: Numbers) -> None:
        """Ask again about the rows that changed."""
        snapshot = cycle.snapshot
        if self._seen == snapshot.generation:
            return
        lately = snapshot.journal.since(self._seen, FEW)
        if lately is None or not self._one_by_one(cycle, lately, computed):
            rows = snapshot.changed_since(self._seen)
            rows = rows[self._asked.allowed[rows]]
            if len(rows):
                self._judge(cycle, rows, computed)
        self._seen = snapshot.generation  # not where a plugin failed half-way

    def _settle(self, rows: IntColumn) -> None:
        """Find out whether the other scores stay the same where what is followed lets only some of these rows pass."""
        self._settled = not self._narrowed or all(one.settled(rows) for one in self._asked.others)

    def ranks(self, cycle: Cycle, computed: Numbers) -> tuple[IntColumn, int]:
        """Return per row the total with what is followed, OUT where a filter refuses it; and how many rows pass."""
        followed, ranks = self._asked.followed, self.totals
        if not followed:
            return ranks, self.feasible
        for one in followed:
            passes = one.says.passes() if one.filters else None
            if passes is not None:
                ranks = np.where(passes, ranks, OUT)
        rows = (ranks != OUT).nonzero()[0]
        if len(rows) > 1:
            ranks = ranks.copy() if ranks is self.totals else ranks
            if not self._settled:
                more = self._of_others(cycle, rows, ranks != OUT, computed) - self._part
                ranks[rows] += more if isinstance(more, int) else more[rows]
            for one in followed:
                scores = one.says.score(rows) if one.weight else None
                if scores is not None:
                    ranks[rows] += one.weight * in_range(one.name, scores)
        return ranks, len(rows)

    def _one_by_one(self, cycle: Cycle, rows: list[int], computed: Numbers) -> bool:
        """Ask about a few rows; False where it must be done as for many: another set of rows passes."""
        if self._by_row is None:  # not for the first of a kind, which may have no second
            self._by_row = _by_row(cycle, self._asked)
        filters, scorers, known = self._by_row
        for row in rows if known else ():
            if not self._asked.allowed[row]:
                continue
            passes = True
            for name, fits in filters:
                computed[name] += 1
                passes = fits(row)
                if not passes:
                    break
            if passes != (self.totals.item(row) != OUT):
                return False
            if passes:
                total: int = self._part if isinstance(self._part, int) else self._part.item(row)
                for name, weight, rate in scorers:
                    score = rate(row)
                    computed[name] += 1
                    if not 0 <= score <= MAX_SCORE:
                        in_range(name, ints(1, score))
                    total += weight * score
                self.totals[row] = total
        return known

    def _judge(self, cycle: Cycle, rows: IntColumn, computed: Numbers) -> None:
        passes: BoolColumn = judge(cycle, self._asked.filters, rows, self._tables, computed) == PASSED
        now = rows[passes]
        rated = self._rate(cycle, now, computed)
        passed: BoolColumn = self.totals != OUT
        part, others = self._part, bool((passed[rows] != passes).any())
        if others:  # the other scores are brought to 0 to 100 over the rows that pass: perhaps to something else
            passed[rows] = passes
            part = self._of_others(cycle, passed.nonzero()[0], passed, computed)
        self.totals[rows] = OUT
        self.totals[now] = rated + (self._part if isinstance(self._part, int) else self._part[now])
        if others:
            more = part - self._part
            if not isinstance(more, int) or more:
                self.totals[passed] += np.broadcast_to(more, passed.shape)[passed]
            self._part = part
            self._settle(passed.nonzero()[0])
            self._count(int(passed.sum()))

    def _rate(self, cycle: Cycle, rows: IntColumn, computed: Numbers) -> IntColumn:
        """Return the weighted sum of the scores that change with what runs on a row."""
        rated: IntColumn = np.zeros(len(rows), dtype=self.totals.dtype)
        for one in self._asked.scorers if len(rows) else ():
            rated += one.weight * in_range(one.name, one.plugin.score(cycle, rows))
            computed[one.name] += len(rows)
        return rated

    def _of_others(self, cycle: Cycle, rows: IntColumn, passed: BoolColumn, computed: Numbers) -> IntColumn | int:
        """Return the sum of the other scores: a number where it is the same for all rows that pass."""
        found: IntColumn = np.zeros(len(passed), dtype=self.totals.dtype)
        at = at_rows(rows, len(passed))
        for one in self._asked.others if len(rows) else ():
            found[at] += one.total(cycle, rows, passed, computed)[at]
        values = found[at]
        if not len(values) or (values == values[0]).all():
            return int(values[0]) if len(values) else 0
        return found


def _by_row(cycle: Cycle, asked: Asked) -> ByRow:
    """Return what judges and rates single rows."""
    filters: list[tuple[str, Callable[[int], bool]]] = []
    scores: list[tuple[str, int, Callable[[int], int]]] = []
    for _place, name, plugin in asked.filters:
        judge_row = plugin.row_filter(cycle) if isinstance(plugin, RowFilter) else None
        if judge_row is None:
            return ByRow((), (), False)
        filters.append((name, judge_row))
    for one in asked.scorers:
        rate_row = one.plugin.row_score(cycle) if isinstance(one.plugin, RowScore) else None
        if rate_row is None:
            return ByRow((), (), False)
        scores.append((one.name, one.weight, rate_row))
    return ByRow(filters, scores, True)
