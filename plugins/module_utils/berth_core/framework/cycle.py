# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduling cycle: filter, score, choose, and say why.

Called by stateful_app's plan and by the daemon with a profile, a snapshot and a request. Pure: the same inputs give
the same choice. All nodes are looked at (kube-scheduler looks at a sample). Ties: the highest total score, then the
smallest node name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..cluster.columns import BoolColumn, IntColumn, bools, every_row, ints, np
from ..cluster.snapshot import Snapshot
from ..errors import BerthError, UnschedulableError
from ..model.placement import Placement, PlacementRequest
from .contract import MAX_SCORE, Code, Status, Verdict
from .diagnosis import Diagnosis, Fix, Refusal
from .memo import ColumnMemo
from .profile import Profile, Scorer
from .state import Cycle

MAX_EXPLAINED = 200
"""Refused nodes for which ways out are sought: with more, the message would not name them anyway."""


@dataclass
class Counts:
    """How much was asked.

    `filter` and `score`: rows asked per plugin; `computed`: those not answered from kept columns.
    """

    filter: Counter[str] = field(default_factory=Counter)
    score: Counter[str] = field(default_factory=Counter)
    computed: Counter[str] = field(default_factory=Counter)
    nodes: tuple[str, ...] = ()
    """The nodes on which any filter was asked, when they are few (at most 8); else ()."""

    @property
    def filter_calls(self) -> int:
        """Return the number of (plugin, node) verdicts asked for."""
        return sum(self.filter.values())

    @property
    def score_calls(self) -> int:
        """Return the number of (plugin, node) scores asked for."""
        return sum(self.score.values())


@dataclass(frozen=True)
class NodeScore:
    """A node's scores: `plugins` before weighting (0 to 100), `total` after."""

    total: int
    plugins: Mapping[str, int]


@dataclass(frozen=True)
class Outcome:
    """The answer.

    `placement` None: nothing fits, and `diagnosis` says why. `scores` is filled when they were asked for.
    """

    placement: Placement | None
    diagnosis: Diagnosis
    counts: Counts
    scores: Mapping[str, NodeScore] = field(default_factory=dict)
    names: Sequence[str] = ()
    rows: Sequence[int] | IntColumn = ()
    """The nodes that passed, by their position in `names`: their list is made for who asks."""

    @property
    def feasible(self) -> tuple[str, ...]:
        """Return the nodes that passed every filter, by name."""
        return tuple(self.names[int(row)] for row in self.rows)

    def require(self, what: str) -> Placement:
        """Return the placement; raise UnschedulableError that says why `what` cannot be placed."""
        if self.placement is None:
            raise UnschedulableError(
                f"{what} does not fit: {self.diagnosis.message()}", hints=list(self.diagnosis.hints())
            )
        return self.placement


def place(
    profile: Profile, snapshot: Snapshot, request: PlacementRequest, explain: bool = False, only_node: str | None = None
) -> Outcome:
    """Choose a node, disks and devices for a request.

    `explain`: give every verdict and score on success too. `only_node`: look at that node alone, as for a replica
    that has its berth.
    """
    return _Run(profile, snapshot, request, explain, only_node).outcome()


class _Run:
    """One walk through the extension points."""

    def __init__(
        self, profile: Profile, snapshot: Snapshot, request: PlacementRequest, explain: bool, only_node: str | None
    ) -> None:
        self.profile, self.snapshot, self.explain, self.only_node = profile, snapshot, explain, only_node
        self.cycle = Cycle(snapshot, request)
        self.memo = ColumnMemo(snapshot)
        self.counts = Counts()
        self.refusals: list[Refusal] = []
        self.rejected = ""
        self.skipped: set[str] = set()
        self.filters = dict(profile.filters)

    def outcome(self) -> Outcome:
        rows = self._filter(self._pre_filter(self._start()))
        names = self.snapshot.nodes.names
        if not len(rows):
            return Outcome(None, self._diagnosis(rows), self.counts)
        scores: dict[str, IntColumn] = {}
        total = ints(len(rows))
        if len(rows) > 1 or (self.explain and self.only_node is None):
            scores, total = self._score(rows)
        chosen = int(rows[int(np.argmax(total))])
        placement = self._reserve(chosen)
        return Outcome(
            placement,
            self._diagnosis(rows) if self.explain else Diagnosis(len(names), tuple(self.refusals)),
            self.counts,
            self._scores(rows, scores, total) if self.explain else {},
            names,
            rows,
        )

    def _start(self) -> IntColumn:
        rows = every_row(len(self.snapshot.nodes))
        if self.only_node is None:
            return rows
        row = self.snapshot.nodes.row_of.get(self.only_node)
        if row is None:
            self.rejected = f'node "{self.only_node}" not found'
            return rows[:0]
        return rows[row : row + 1]

    # -- filters

    def _pre_filter(self, rows: IntColumn) -> IntColumn:
        if self.rejected:
            return rows
        narrowed: list[tuple[str, frozenset[str], str]] = []
        for name, plugin in self.profile.pre_filters:
            found = plugin.pre_filter(self.cycle)
            if found.status.code == Code.SKIP:
                self.skipped.add(name)
            elif not found.status.ok:
                self.rejected = ", ".join(found.status.reasons)
                return rows[:0]
            elif found.nodes is not None:
                narrowed.append((name, found.nodes, found.elsewhere))
        for name, nodes, elsewhere in narrowed:
            rows = self._narrow(rows, name, nodes, elsewhere or f"node(s) didn't satisfy plugin(s) [{name}]")
        return rows

    def _narrow(self, rows: IntColumn, plugin: str, nodes: frozenset[str], reason: str) -> IntColumn:
        inside = bools(len(self.snapshot.nodes))
        inside[[self.snapshot.nodes.row_of[name] for name in nodes if name in self.snapshot.nodes.row_of]] = True
        inside = inside[rows]
        self._refuse(plugin, Status(Code.UNRESOLVABLE, (reason,)), rows[~inside], narrowed=True)
        kept: IntColumn = rows[inside]
        return kept

    def _refuse(self, plugin: str, status: Status, rows: IntColumn, narrowed: bool = False) -> None:
        if len(rows):
            names = self.snapshot.nodes.names
            self.refusals.append(Refusal(plugin, status, tuple(names[int(row)] for row in rows), narrowed))

    def _filter(self, rows: IntColumn) -> IntColumn:
        if self.rejected:
            return rows[:0]
        if len(rows) <= 8:
            self.counts.nodes = tuple(self.snapshot.nodes.names[int(row)] for row in rows)
        for name, _plugin in self.profile.filters:
            if name in self.skipped or not len(rows):
                continue
            verdict, computed = self._verdict(name, rows)
            self.counts.filter[name] += len(rows)
            self.counts.computed[name] += computed
            for code, status in enumerate(verdict.table):
                if not status.ok:
                    self._refuse(name, status, rows[verdict.codes == code])
            rows = rows[_passed(verdict)]
        return rows

    def _verdict(self, name: str, rows: IntColumn) -> tuple[Verdict, int]:
        plugin = self.filters[name]
        key = (plugin, plugin.filter_key(self.cycle))
        return self.memo.verdict(key, plugin.filter_dirt, rows, lambda stale: plugin.filter(self.cycle, stale))

    # -- scores

    def _score(self, rows: IntColumn) -> tuple[dict[str, IntColumn], IntColumn]:
        skipped = {
            name for name, plugin in self.profile.pre_scores if plugin.pre_score(self.cycle, rows).code == Code.SKIP
        }
        total = ints(len(rows))
        scores: dict[str, IntColumn] = {}
        for scorer in self.profile.scorers:
            if scorer.name in skipped:
                continue
            scores[scorer.name] = self._score_one(scorer, rows)
            total += scorer.weight * scores[scorer.name]
        return scores, total

    def _score_one(self, scorer: Scorer, rows: IntColumn) -> IntColumn:
        plugin = scorer.plugin
        key = (plugin, plugin.score_key(self.cycle))
        column, computed = self.memo.scores(key, plugin.score_dirt, rows, lambda stale: plugin.score(self.cycle, stale))
        self.counts.score[scorer.name] += len(rows)
        self.counts.computed[scorer.name] += computed
        if scorer.normalize is not None:
            column = scorer.normalize.normalize(self.cycle, rows, column)
        if len(column) and (column.min() < 0 or column.max() > MAX_SCORE):
            raise BerthError(
                f"plugin {scorer.name} scored outside 0 to {MAX_SCORE} ({column.min()} to {column.max()}): "
                "this is a fault of the plugin; take it out of the profile and report it"
            )
        return column

    def _scores(self, rows: IntColumn, scores: Mapping[str, IntColumn], total: IntColumn) -> Mapping[str, NodeScore]:
        names = self.snapshot.nodes.names
        return {
            names[int(row)]: NodeScore(
                int(total[position]), {name: int(column[position]) for name, column in scores.items()}
            )
            for position, row in enumerate(rows)
        }

    # -- the choice, and why

    def _reserve(self, row: int) -> Placement:
        disks: dict[str, str] = {}
        volumes: dict[str, str] = {}
        devices: dict[str, tuple[tuple[str, int], ...]] = {}
        for plugin in self.profile.reserves:
            choice = plugin.reserve(self.cycle, row)
            disks.update(choice.disks)
            devices.update(choice.devices)
            volumes.update(choice.volumes)
        return Placement(self.snapshot.nodes.names[row], disks, devices, volumes)

    def _diagnosis(self, feasible: IntColumn) -> Diagnosis:
        objects = tuple(one for plugin in self.profile.explains for one in plugin.verdicts(self.cycle))
        fixes: tuple[Fix, ...] = ()
        if not len(feasible) and not self.rejected:
            fixes = tuple(fix for fix in (self._fix(node) for node in self._fixable()) if fix is not None)
        return Diagnosis(len(self.snapshot.nodes), tuple(self.refusals), self.rejected, objects, fixes)

    def _fixable(self) -> list[str]:
        """Return the refused nodes that were not ruled out as a whole by a PreFilter."""
        nodes = [node for one in self.refusals if not one.narrowed for node in one.nodes]
        return sorted(nodes)[:MAX_EXPLAINED]

    def _fix(self, node: str) -> Fix | None:
        """Ask every filter about a refused node, not only the first: a way out must clear them all."""
        row = self.snapshot.nodes.row_of[node]
        rows = every_row(len(self.snapshot.nodes))[row : row + 1]
        fixes = dict(self.profile.fixes)
        phrases = []
        for name, plugin in self.profile.filters:
            if name in self.skipped or bool(_passed(plugin.filter(self.cycle, rows))[0]):
                continue
            phrase = fixes[name].fix(self.cycle, row) if name in fixes else ""
            if not phrase:
                return None
            phrases.append(phrase)
        return Fix(node, tuple(phrases)) if phrases else None


def _passed(verdict: Verdict) -> BoolColumn:
    passed: BoolColumn = np.array([status.ok for status in verdict.table], dtype=np.bool_)[verdict.codes]
    return passed
