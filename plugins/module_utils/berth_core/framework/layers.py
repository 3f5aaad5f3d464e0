# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers: what the plugins of one kind of dirt say of every row, kept, and asked again only for rows that are stale.

Called by framework/kept.py. A profile's filters and scores fall into groups by their `Dirt`; all plugins of a group
become stale together, so that one column holds what they say: for filters the first refusal, for scores their weighted
sum. Pods that differ in what one group looks at still share the layers of the others.

A refusal is a number that grows with the filter's place in the profile. So the smallest of several layers is the
refusal by the filter that stands first, as if they had been asked one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..cluster.columns import BoolColumn, IntColumn, at_rows, bools, every_row, ints, np
from ..cluster.snapshot import Snapshot
from ..errors import BerthError
from .contract import MAX_SCORE, Dirt, Filter, Status, Verdict
from .profile import Scorer
from .state import Cycle

PASSED = (1 << 31) - 1
"""Larger than every refusal."""
FEW = 8
STEP = 1 << 16
"""Refusals that one filter can have: its place in the profile times this, and the reason's number."""

Numbers = defaultdict[str, int]
"""Rows per plugin."""
Placed = tuple[int, str, Filter]
"""A filter, its place in the profile and its name."""
Tables = dict[int, list[Status]]
"""Per filter's place the reasons that it gave so far: numbers are never given back."""


class Freshness:
    """Which rows are stale, by the rules of one `Dirt` (any but ALL)."""

    def __init__(self, dirt: Dirt) -> None:
        self._dirt = dirt
        self._seen = self._topology = -1

    def stale(self, snapshot: Snapshot) -> IntColumn | None:
        """Return the rows that changed since `caught_up`, None for none; all of them before it was ever called."""
        seen = self._seen
        if self._dirt is Dirt.TOPOLOGY:
            return every_row(len(snapshot.nodes)) if self._topology != snapshot.topology_generation else None
        if seen == snapshot.generation or (self._dirt is Dirt.NODE and snapshot.node_generation <= seen):
            return None
        if self._dirt is Dirt.NODE:
            rows: IntColumn = (snapshot.nodes.described > seen).nonzero()[0]
        else:
            rows = snapshot.changed_since(seen)
        return rows if len(rows) else None

    def caught_up(self, snapshot: Snapshot) -> None:
        """Take it that nothing is stale: called when all was asked, and not where a plugin failed half-way."""
        self._seen, self._topology = snapshot.generation, snapshot.topology_generation


class FilterLayer:
    """The first refusal of a group of filters, per row. `version` grows when a row's answer becomes another."""

    def __init__(self, dirt: Dirt, filters: Sequence[Placed], snapshot: Snapshot) -> None:
        self._filters = filters
        self._fresh = Freshness(dirt)
        self.codes: IntColumn = np.full(len(snapshot.nodes), PASSED, dtype=np.int32)
        self.version = 0
        self.nbytes = self.codes.nbytes

    def refresh(self, cycle: Cycle, tables: Tables, computed: Numbers) -> None:
        """Ask again for what is stale."""
        stale = self._fresh.stale(cycle.snapshot)
        if stale is not None:
            codes = judge(cycle, self._filters, stale, tables, computed)
            if codes.tobytes() != self.codes[stale].tobytes():  # for one row much cheaper than comparing columns
                self.codes[stale] = codes
                self.version += 1
        self._fresh.caught_up(cycle.snapshot)


def judge(cycle: Cycle, filters: Sequence[Placed], rows: IntColumn, tables: Tables, computed: Numbers) -> IntColumn:
    """Ask filters one after the other, each for the rows that the ones before let pass; return the refusals."""
    codes: IntColumn = np.empty(len(rows), dtype=np.int32)
    codes.fill(PASSED)
    at: IntColumn | None = None  # None: all rows are still in
    for place, name, plugin in filters:
        asked = rows if at is None else rows[at]
        if not len(asked):
            break
        verdict = plugin.filter(cycle, asked)
        computed[name] += len(asked)
        if not verdict.codes.any() and verdict.table[0].ok:
            continue
        found = _numbered(verdict, place, tables)
        codes[slice(None) if at is None else at] = found
        passed = (found == PASSED).nonzero()[0]
        at = passed if at is None else at[passed]
    return codes


def passes(verdict: Verdict) -> BoolColumn:
    """Return which rows a verdict lets pass."""
    passed: BoolColumn = np.array([status.ok for status in verdict.table], dtype=np.bool_)[verdict.codes]
    return passed


def _numbered(verdict: Verdict, place: int, tables: Tables) -> IntColumn:
    """Return a verdict's codes as refusals."""
    known = tables.setdefault(place, [])
    numbers = []
    for status in verdict.table:
        if not status.ok and status not in known:
            known.append(status)
        numbers.append(PASSED if status.ok else place * STEP + known.index(status))
    found: IntColumn = np.array(numbers, dtype=np.int64)[verdict.codes]
    return found


class ScoreLayer:
    """The weighted scores of a group of plugins, per row that passed the filters when it was asked about.

    `plain`: the weighted sum of those that need no normalizing. The others' raw scores are kept, and brought to 0 to
    100 again when a row or the set of rows is another; where they are all equal, which rows pass is of no matter.
    """

    def __init__(self, dirt: Dirt, scorers: Sequence[Scorer], snapshot: Snapshot) -> None:
        size = len(snapshot.nodes)
        self.weight = sum(one.weight for one in scorers)
        self._plain = [one for one in scorers if one.normalize is None]
        self._relative = [one for one in scorers if one.normalize is not None]
        self._fresh = Freshness(dirt)
        self._known = bools(size)
        self.plain: IntColumn = np.zeros(size, dtype=total_type(self.weight))
        self._raw = [ints(size) for _one in self._relative]
        self._sum: IntColumn = self.plain
        self._rows: IntColumn | None = None
        self._anywhere = False
        """Whether all is known, and the same whichever rows pass."""
        columns = (self._known, self.plain, *self._raw, *([self.plain] if self._relative else []))
        self.nbytes = sum(one.nbytes for one in columns)

    def total(self, cycle: Cycle, rows: IntColumn, passed: BoolColumn, computed: Numbers) -> IntColumn:
        """Return the weighted sum per row of the node table; only what stands at `rows` means something.

        `rows` are those that passed. Two calls with the same array (not only an equal one) share the normalizing.
        """
        stale = self._fresh.stale(cycle.snapshot)
        if stale is None and self._rows is not None and (rows is self._rows or self._anywhere):
            self._fresh.caught_up(cycle.snapshot)
            return self._sum
        if stale is not None:
            self._known[stale] = False
        self._fresh.caught_up(cycle.snapshot)
        if stale is not None and rows is self._rows:  # all others are known
            asked: IntColumn = stale[passed[stale]]
        else:
            asked = (passed & ~self._known).nonzero()[0]
        self._rows = None  # until all is known
        if len(asked):
            self._ask(cycle, asked, computed)
        everything = bool(self._known.all())
        level = self.settled(slice(None) if everything else rows)
        if self._relative and len(rows):
            self._normalize(cycle, rows, level)
        self._anywhere = everything and level
        self._rows = rows
        return self._sum

    def _normalize(self, cycle: Cycle, rows: IntColumn, level: bool) -> None:
        """Add up the final scores of rows that passed. `level`: one of them speaks for all, by Normalize's contract."""
        some = rows[:1] if level else rows
        parts = [one.weight * normalized(one, cycle, some, raw[some]) for one, raw in zip(self._relative, self._raw)]
        self._sum = self.plain.copy()
        self._sum[slice(None) if level else rows] += sum(parts)

    def settled(self, rows: IntColumn | slice) -> bool:
        """Tell whether these rows, which were asked about, would have the same scores if only some of them passed."""
        found = [raw[rows] for raw in self._raw]
        return all((raw == raw[0]).all() for raw in found if len(raw))

    def _ask(self, cycle: Cycle, asked: IntColumn, computed: Numbers) -> None:
        """Score rows."""
        if self._plain:
            fresh = np.zeros(len(asked), dtype=self.plain.dtype)
            for one in self._plain:
                fresh += one.weight * in_range(one.name, one.plugin.score(cycle, asked))
                computed[one.name] += len(asked)
            self.plain[at_rows(asked, len(self.plain))] = fresh
        for one, raw in zip(self._relative, self._raw):
            raw[asked] = one.plugin.score(cycle, asked)
            computed[one.name] += len(asked)
        self._known[asked] = True


def total_type(weights: int) -> type[np.int32 | np.int64]:
    """Return the smallest type in which the weighted sum cannot overflow. `weights`: their sum."""
    return np.int32 if MAX_SCORE * weights < PASSED else np.int64


def normalized(scorer: Scorer, cycle: Cycle, rows: IntColumn, raw: IntColumn) -> IntColumn:
    """Return final scores, and see that they are in range."""
    scores = raw if scorer.normalize is None else scorer.normalize.normalize(cycle, rows, raw)
    return in_range(scorer.name, scores)


def in_range(name: str, scores: IntColumn) -> IntColumn:
    """Return the scores. Raises BerthError for one outside 0 to MAX_SCORE."""
    if not len(scores):
        return scores
    # Most often a single row was asked about: a reduction by numpy costs more than all else about it.
    few = scores.tolist() if len(scores) <= FEW else (scores.min(), scores.max())
    lowest, highest = min(few), max(few)
    if lowest < 0 or highest > MAX_SCORE:
        raise BerthError(
            f"plugin {name} scored outside 0 to {MAX_SCORE} ({lowest} to {highest}): "
            "this is a fault of the plugin; take it out of the profile and report it"
        )
    return scores
