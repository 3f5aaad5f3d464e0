# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduling cycle: filter, score, choose, and say why.

Called by stateful_app's plan and by the daemon with a profile, a snapshot and a request. Pure: the same inputs give
the same choice. All nodes are looked at, unless a configuration wants a share of them (framework/sampling.py).
Ties: the highest total score, then the smallest node name.

Where somebody wants to know every verdict, or few nodes are looked at, the plugins themselves are asked; else
framework/kept.py answers, from what it knows of earlier requests. Both give the same answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from ..cluster.columns import BoolColumn, IntColumn, bools, every_row, ints, np
from ..cluster.snapshot import Snapshot
from ..errors import UnschedulableError
from ..model.placement import Placement, PlacementRequest
from .again import OUT
from .contract import Code, Filter, Status
from .diagnosis import Diagnosis, Fix, Refusal, RowNames
from .extended import NAME as EXTENDER
from .extended import Extended
from .kept import Kept, Result, kept_for
from .layers import Numbers, normalized, passes
from .nominated import Refused, contested, crowded_out, judge_all
from .profile import Profile
from .sampling import Sample, sampled
from .state import Cycle
from .tried import Nominated

FEW = 8
"""Nodes that are named in the counts; with more nobody wants to read them."""
MAX_EXPLAINED = 200
"""Refused nodes for which ways out are sought: with more, the message would not name them anyway."""


@dataclass
class Counts:
    """How much was asked.

    `filter` and `score`: rows asked per plugin; `computed`: those not answered from kept columns.
    """

    filter: Counter[str] = field(default_factory=Counter)
    score: Counter[str] = field(default_factory=Counter)
    computed: Numbers = field(default_factory=lambda: defaultdict(int))
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
    """A node's scores: `plugins` before weighting (0 to 100), `total` after; `raw`: before they were normalized."""

    total: int
    plugins: Mapping[str, int]
    raw: Mapping[str, int] = field(default_factory=dict)


NO_SCORES: Mapping[str, NodeScore] = MappingProxyType({})


class Outcome(NamedTuple):
    """The answer.

    `placement` None: nothing fits, and `diagnosis` says why. On success that and `scores` are filled when they were
    asked for. Totals are 0 where there was no choice.
    `looked_at`: how many nodes, where only a share was asked for.
    """

    placement: Placement | None
    diagnosis: Diagnosis
    counts: Counts
    scores: Mapping[str, NodeScore] = NO_SCORES
    names: Sequence[str] = ()
    ranks: IntColumn | None = None
    """Per entry of `names` the total, OUT where the node did not pass; lists are made for who asks."""
    looked_at: int = 0

    @property
    def rows(self) -> IntColumn:
        """Return the nodes that passed every filter, by their position in `names`."""
        rows: IntColumn = ints(0) if self.ranks is None else (self.ranks != OUT).nonzero()[0]
        return rows

    @property
    def totals(self) -> IntColumn:
        """Return the weighted sum of the scores per entry of `rows`."""
        totals: IntColumn = ints(0) if self.ranks is None else self.ranks[self.rows]
        return totals

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
    profile: Profile,
    snapshot: Snapshot,
    request: PlacementRequest,
    explain: bool = False,
    only_node: str | None = None,
    hints: bool = True,
    nominated: Nominated | None = None,
    sample: Sample | None = None,
    extended: Extended | None = None,
) -> Outcome:
    """Choose a node, disks and devices for a request.

    `explain`: ask the plugins themselves, and give every verdict and score on success too. `only_node`: look at that
    node alone, as for a replica that has its berth. `hints` False: do not look for verdicts on disks and devices, nor
    for ways out, when nothing fits: kube-scheduler's sentence is all that is wanted. `nominated`: pods for which room
    is being made on a node, where they count too (framework/nominated.py); a pod that is nominated itself is placed on
    its node if it fits there, without a look at the others. With `explain` all verdicts are wanted, and it is not.
    `sample`: how many of the nodes that fit are enough; None: all. Where nodes are named, or with `explain` or
    `extended`, all are. `extended`: what extenders have said of nodes so far; None: there are none for this pod.
    """
    if not explain and only_node is None and sample is None and extended is None:
        found = _like_before(profile, snapshot, request, nominated)
        if found is not None:
            return found
    return _Run(profile, snapshot, request, explain, only_node, hints, nominated, sample, extended).outcome()


def _like_before(
    profile: Profile, snapshot: Snapshot, request: PlacementRequest, nominated: Nominated | None
) -> Outcome | None:
    """Place a pod like one before; None where there was none, or it is not enough to know what was found for that."""
    kept = kept_for(profile, snapshot)
    again = kept.again(request, snapshot)
    if again is None or (nominated is not None and request.pod.preemption.nominated):
        return None
    if nominated and len(contested(snapshot, request.pod, nominated)):
        return None
    computed: Numbers = defaultdict(int)
    cycle = Cycle(snapshot, request)
    again.refresh(cycle, computed)
    ranks, feasible = again.ranks(cycle, computed)
    if not feasible:
        return None
    names = snapshot.nodes.names
    counts = Counts(again.filtered, again.scored, computed, tuple(names) if len(names) <= FEW else ())
    ranks = (ranks.copy() if ranks is again.totals else ranks) if feasible > 1 else np.minimum(ranks, 0)
    # Reserve is not asked: for the first pod of the kind it chose nothing.
    return Outcome(Placement.bare(names[int(ranks.argmax())]), kept.fits, counts, NO_SCORES, names, ranks)


class _Run:
    """One walk through the extension points."""

    def __init__(
        self,
        profile: Profile,
        snapshot: Snapshot,
        request: PlacementRequest,
        explain: bool,
        only_node: str | None,
        hints: bool,
        nominated: Nominated | None,
        sample: Sample | None,
        extended: Extended | None,
    ) -> None:
        self.profile, self.snapshot, self.explain, self.only_node = profile, snapshot, explain, only_node
        self.extended = extended
        self.hints, self.nominated, self.sample, self.looked_at = hints, nominated, sample, 0
        self.contested = contested(snapshot, request.pod, nominated) if nominated else ints(0)
        self.cycle = Cycle(snapshot, request)
        self.counts = Counts()
        self.refusals: list[Refusal] = []
        self.rejected = self.rejected_by = ""
        self.skipped: list[str] = []

    def outcome(self) -> Outcome:
        if self.only_node is not None and self.only_node not in self.snapshot.nodes.row_of:
            self.rejected = f'node "{self.only_node}" not found'
            return self._nowhere()
        narrowed = self._pre_filter()
        if self.rejected:
            return self._nowhere()
        itself = self._on_own_node()
        if itself is not None:
            return itself
        if self.explain or narrowed or self.only_node is not None or self.extended is not None:
            return self._asked(narrowed)
        return self._known()

    def _pre_filter(self) -> list[tuple[str, frozenset[str], str]]:
        """Ask the PreFilters; return what nodes they want: (plugin, nodes, what to say of the others)."""
        narrowed: list[tuple[str, frozenset[str], str]] = []
        for name, plugin in self.profile.pre_filters:
            found = plugin.pre_filter(self.cycle)
            if found.status.code is Code.SKIP:
                self.skipped.append(name)
            elif not found.status.ok:
                self.rejected, self.rejected_by = ", ".join(found.status.reasons), name
                return []
            elif found.nodes is not None:
                elsewhere = found.elsewhere or f"node(s) didn't satisfy plugin(s) [{name}]"
                narrowed.append((name, found.nodes, elsewhere))
        return narrowed

    @property
    def _filters(self) -> list[tuple[str, Filter]]:
        return [one for one in self.profile.filters if one[0] not in self.skipped]

    def _on_own_node(self) -> Outcome | None:
        """Place a pod on the node that is nominated to it; None where there is none, or it does not fit there."""
        node = self.cycle.pod.preemption.nominated
        if self.nominated is None or self.explain or self.only_node is not None:
            return None
        row = self.snapshot.nodes.row_of.get(node)
        if row is None or (self.extended is not None and self.extended.verdict(node) is not None):
            return None
        rows = every_row(row + 1)[row:]
        passed, _refused = judge_all(self.snapshot, self.cycle.request, self._filters, rows, self.counts.filter)
        if not passed[0] or (row in self.contested and not self._crowded_out(rows)[0][0]):
            return None
        return self._done(rows, ints(1), {})

    def _crowded_out(self, rows: IntColumn) -> tuple[BoolColumn, Refused]:
        trials = kept_for(self.profile, self.snapshot).trials
        return crowded_out(self.snapshot, self.cycle.request, self._filters, self.nominated or {}, rows, trials)

    def _skipped_scores(self, rows: IntColumn) -> tuple[str, ...]:
        asked = self.profile.pre_scores
        return tuple([name for name, plugin in asked if plugin.pre_score(self.cycle, rows).code is Code.SKIP])

    def _done(self, rows: IntColumn, total: IntColumn, scores: Mapping[str, NodeScore]) -> Outcome:
        placement = self._reserve(int(rows[int(total.argmax())]))
        names = self.snapshot.nodes.names
        diagnosis = self._diagnosis() if self.explain else Diagnosis(len(names))
        ranks = total
        if len(rows) < len(names):
            ranks = np.full(len(names), OUT, dtype=np.int64)
            ranks[rows] = total
        return Outcome(placement, diagnosis, self.counts, scores, names, ranks, self.looked_at)

    # -- from what is known

    def _known(self) -> Outcome:
        kept, counts = kept_for(self.profile, self.snapshot), self.counts
        size, skipped = len(self.snapshot.nodes), tuple(self.skipped)
        self._looked_at(every_row(size) if size <= FEW else ())
        result = kept.filter(self.cycle, skipped, counts.computed)
        counts.filter.update(dict.fromkeys(result.asked, size))
        if len(self.contested):
            result = self._yield(result)
        if self.sample is not None:
            result = self._sampled(self.sample, result)
        rows = result.rows
        if not len(rows):
            self._refuse_all(kept, result)
            return self._nowhere()
        if len(rows) == 1:
            return self._done(rows, ints(1), {})
        unscored = self._skipped_scores(rows)
        counts.score.update({one.name: len(rows) for one in self.profile.scorers if one.name not in unscored})
        totals = kept.totals(self.cycle, unscored, result, counts.computed)
        found = self._done(rows, totals, {})
        whole = not len(self.contested) and self.sample is None
        if whole and found.placement is not None and found.placement.chose_nothing:
            kept.remember(self.cycle, (skipped, unscored), result, totals, counts.computed)
        return found

    def _yield(self, result: Result) -> Result:
        """Leave out the rows on which there is no room beside nominated pods."""
        rows = self.contested[result.passed[self.contested]]
        passed = result.passed.copy()
        passed[rows] = self._crowded_out(rows)[0]
        if (passed == result.passed).all():
            return result
        return result._replace(rows=passed.nonzero()[0], passed=passed)

    def _sampled(self, sample: Sample, result: Result) -> Result:
        """Leave out the rows that a share of the nodes is enough without."""
        rows, self.looked_at = sampled(sample, result.rows, len(self.snapshot.nodes))
        if rows is result.rows:
            return result
        passed = bools(len(self.snapshot.nodes))
        passed[rows] = True
        return result._replace(rows=rows, passed=passed)

    def _refuse_all(self, kept: Kept, result: Result) -> None:
        """Say who refused each row: where there are nominated pods, first what is said with them there."""
        passed, first = self._crowded_out(self.contested) if len(self.contested) else (bools(0), [])
        out = self.contested[~passed]
        for plugin, status, refused in kept.refusals(result):
            self._refuse(plugin, status, refused[~np.isin(refused, out)] if len(out) else refused)
        for plugin, status, refused in first:
            self._refuse(plugin, status, refused)

    # -- by asking

    def _asked(self, narrowed: list[tuple[str, frozenset[str], str]]) -> Outcome:
        rows = every_row(len(self.snapshot.nodes))
        if self.only_node is not None:
            row = self.snapshot.nodes.row_of[self.only_node]
            rows = rows[row : row + 1]
        for name, nodes, reason in narrowed:
            rows = self._narrow(rows, name, nodes, reason)
        self._looked_at(rows)
        rows = self._beyond(self._filter(self._beside_nominated(rows)))
        if not len(rows):
            return self._nowhere()
        raws: dict[str, IntColumn] = {}
        scores: dict[str, IntColumn] = {}
        total = ints(len(rows))
        if len(rows) > 1 or (self.explain and self.only_node is None):
            raws, scores, total = self._score(rows)
        return self._done(rows, total, self._scores(rows, raws, scores, total) if self.explain else {})

    def _beside_nominated(self, rows: IntColumn) -> IntColumn:
        """Leave out, and say why, the rows on which there is no room beside nominated pods."""
        asked = np.intersect1d(self.contested, rows)
        if not len(asked):
            return rows
        passed, refused = self._crowded_out(asked)
        for plugin, status, out in refused:
            self._refuse(plugin, status, out)
        return np.setdiff1d(rows, asked[~passed])

    def _beyond(self, rows: IntColumn) -> IntColumn:
        """Leave out, and say why, the rows that extenders refuse."""
        if self.extended is None:
            return rows
        for status, refused in self.extended.refusals(self.snapshot.nodes.names, rows):
            self._refuse(EXTENDER, status, refused)
            rows = np.setdiff1d(rows, refused)
        return rows

    def _looked_at(self, rows: Sequence[int] | IntColumn) -> None:
        if len(rows) <= FEW:
            self.counts.nodes = tuple(self.snapshot.nodes.names[int(row)] for row in rows)

    def _narrow(self, rows: IntColumn, plugin: str, nodes: frozenset[str], reason: str) -> IntColumn:
        inside = bools(len(self.snapshot.nodes))
        inside[[self.snapshot.nodes.row_of[name] for name in nodes if name in self.snapshot.nodes.row_of]] = True
        inside = inside[rows]
        self._refuse(plugin, Status(Code.UNRESOLVABLE, (reason,)), rows[~inside], narrowed=True)
        kept: IntColumn = rows[inside]
        return kept

    def _refuse(self, plugin: str, status: Status, rows: IntColumn, narrowed: bool = False) -> None:
        if len(rows):
            self.refusals.append(Refusal(plugin, status, RowNames(rows, self.snapshot.nodes.names), narrowed))

    def _filter(self, rows: IntColumn) -> IntColumn:
        for name, plugin in self.profile.filters:
            if name in self.skipped or not len(rows):
                continue
            verdict = plugin.filter(self.cycle, rows)
            self.counts.filter[name] += len(rows)
            self.counts.computed[name] += len(rows)
            for code, status in enumerate(verdict.table):
                if not status.ok:
                    self._refuse(name, status, rows[verdict.codes == code])
            rows = rows[passes(verdict)]
        return rows

    def _score(self, rows: IntColumn) -> tuple[dict[str, IntColumn], dict[str, IntColumn], IntColumn]:
        skipped = self._skipped_scores(rows)
        total = ints(len(rows))
        raws: dict[str, IntColumn] = {}
        scores: dict[str, IntColumn] = {}
        for scorer in self.profile.scorers:
            if scorer.name in skipped:
                continue
            raw = scorer.plugin.score(self.cycle, rows)
            self.counts.score[scorer.name] += len(rows)
            self.counts.computed[scorer.name] += len(rows)
            raws[scorer.name] = raw
            scores[scorer.name] = normalized(scorer, self.cycle, rows, raw)
            total += scorer.weight * scores[scorer.name]
        if self.extended is not None:
            total += self.extended.totals(self.snapshot.nodes.names, rows)
        return raws, scores, total

    def _scores(
        self, rows: IntColumn, raws: Mapping[str, IntColumn], scores: Mapping[str, IntColumn], total: IntColumn
    ) -> Mapping[str, NodeScore]:
        names = self.snapshot.nodes.names
        return {
            names[int(row)]: NodeScore(
                int(total[position]),
                {name: int(column[position]) for name, column in scores.items()},
                {name: int(column[position]) for name, column in raws.items()},
            )
            for position, row in enumerate(rows)
        }

    # -- the choice, and why

    def _reserve(self, row: int) -> Placement:
        disks: dict[str, str] = {}
        volumes: dict[str, str] = {}
        devices: dict[str, tuple[tuple[str, int], ...]] = {}
        allocations: dict[str, Mapping[str, Any]] = {}
        for plugin in self.profile.reserves:
            choice = plugin.reserve(self.cycle, row)
            disks.update(choice.disks)
            devices.update(choice.devices)
            volumes.update(choice.volumes)
            allocations.update(choice.allocations)
        return Placement(self.snapshot.nodes.names[row], disks, devices, volumes, allocations)

    def _nowhere(self) -> Outcome:
        fixes: tuple[Fix, ...] = ()
        if self.hints and not self.rejected:
            fixes = tuple(fix for fix in (self._fix(node) for node in self._fixable()) if fix is not None)
        return Outcome(None, self._diagnosis(fixes), self.counts)

    def _diagnosis(self, fixes: tuple[Fix, ...] = ()) -> Diagnosis:
        asked = self.profile.explains if self.hints else ()
        objects = tuple(one for plugin in asked for one in plugin.verdicts(self.cycle))
        size = len(self.snapshot.nodes)
        return Diagnosis(size, tuple(self.refusals), self.rejected, objects, fixes, self.rejected_by)

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
            if name in self.skipped or bool(passes(plugin.filter(self.cycle, rows))[0]):
                continue
            phrase = fixes[name].fix(self.cycle, row) if name in fixes else ""
            if not phrase:
                return None
            phrases.append(phrase)
        return Fix(node, tuple(phrases)) if phrases else None
