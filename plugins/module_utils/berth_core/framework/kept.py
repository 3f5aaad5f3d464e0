# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filtering and scoring all nodes, with what is known from earlier requests: the way that a pod is placed.

Called by framework/cycle.py where no PreFilter names particular nodes; cycle.py asks the plugins themselves where
somebody wants to know every verdict, and both must agree. What is kept is found under what the plugins say that they
look at (their keys), so pods of one shape share it, and a bind costs the next pod one row.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ..cluster.columns import BoolColumn, IntColumn, bools, every_row, np
from ..cluster.snapshot import Snapshot
from ..model.placement import PlacementRequest
from .again import Again, Asked, Beside
from .contract import Dirt, Source, Status
from .diagnosis import Diagnosis
from .layers import PASSED, STEP, FilterLayer, Numbers, Placed, ScoreLayer, Tables, judge, normalized, total_type
from .profile import Profile, Scorer
from .shelf import Shelf
from .state import Cycle
from .tried import Trials

AGAIN_BYTES = 24 << 20
"""About 2,400 shapes of pods at 5,000 nodes, beside what is kept under the plugins' keys."""
_ALONE = (Dirt.ROW, Dirt.NODE)
MAX_PROFILES = 64
"""Profiles for which something is kept; a configuration that is read anew makes new ones."""


class Standing:
    """Which rows passed, for one set of filter layers. `rows` stays the same array while nothing changes."""

    def __init__(self, layers: tuple[FilterLayer, ...], size: int) -> None:
        self.layers = layers
        self._versions: tuple[int, ...] = ()
        self.passed: BoolColumn = bools(size, True)
        self.rows: IntColumn = every_row(size)
        self.nbytes = self.passed.nbytes + self.rows.nbytes

    def refresh(self) -> None:
        """Look whether another row passes."""
        versions = tuple([one.version for one in self.layers])
        if versions == self._versions:
            return
        self._versions = versions
        passed: BoolColumn = self.codes() == PASSED
        if (passed != self.passed).any():
            self.passed, self.rows = passed, passed.nonzero()[0]

    def codes(self) -> IntColumn:
        """Return per row the refusal by the filter that stands first."""
        found: IntColumn = np.full(len(self.passed), PASSED, dtype=np.int32)
        for one in self.layers:
            np.minimum(found, one.codes, out=found)
        return found


class Group(NamedTuple):
    """Plugins that become stale together."""

    dirt: Dirt
    filters: tuple[Placed, ...]


class ScoreGroup(NamedTuple):
    """The same for scores."""

    dirt: Dirt
    scorers: tuple[Scorer, ...]


class Result(NamedTuple):
    """Rows that passed, ascending, and as a mask; `codes`: the refusals, made when they are asked for."""

    rows: IntColumn
    passed: BoolColumn
    standing: Standing
    codes: IntColumn | None
    asked: tuple[str, ...]


class Kept:
    """One profile over one layout of the node table."""

    def __init__(self, profile: Profile, snapshot: Snapshot, shelf: Shelf) -> None:
        self.profile = profile
        self._shelf = shelf
        self._tables: Tables = {}
        self._again = Shelf(AGAIN_BYTES)
        self.fits = Diagnosis(len(snapshot.nodes))
        """What is to be said of a pod that has its place."""
        self.trials = Trials()
        self._size, self._type = len(snapshot.nodes), total_type(sum(one.weight for one in profile.scorers))
        self._groups: dict[tuple[str, ...], tuple[tuple[Group, ...], tuple[str, ...]]] = {}
        self._score_groups: dict[tuple[str, ...], tuple[ScoreGroup, ...]] = {}
        self._one: dict[tuple[Dirt, tuple[int, ...]], Group] = {}
        self._one_score: dict[tuple[Dirt, tuple[str, ...]], ScoreGroup] = {}

    # -- groups: one object for the same plugins, whatever else is skipped, so that their layers are shared

    def _grouped(self, skipped: tuple[str, ...]) -> tuple[tuple[Group, ...], tuple[str, ...]]:
        """Return the groups of the filters that are asked, and those filters' names."""
        found: dict[Dirt, list[Placed]] = {}
        for place, (name, plugin) in enumerate(self.profile.filters):
            if name not in skipped:
                found.setdefault(plugin.filter_dirt, []).append((place, name, plugin))
        groups = tuple(
            self._one.setdefault((dirt, tuple([one[0] for one in filters])), Group(dirt, tuple(filters)))
            for dirt, filters in found.items()
        )
        return groups, tuple(name for name, _plugin in self.profile.filters if name not in skipped)

    def _score_grouped(self, skipped: tuple[str, ...]) -> tuple[ScoreGroup, ...]:
        found: dict[Dirt, list[Scorer]] = {}
        for scorer in self.profile.scorers:
            if scorer.name not in skipped:
                found.setdefault(scorer.plugin.score_dirt, []).append(scorer)
        return tuple(
            self._one_score.setdefault((dirt, tuple([one.name for one in scorers])), ScoreGroup(dirt, tuple(scorers)))
            for dirt, scorers in found.items()
        )

    # -- filters

    def filter(self, cycle: Cycle, skipped: tuple[str, ...], computed: Numbers) -> Result:
        """Return who passes all filters but those of `skipped`."""
        found = self._groups.get(skipped)
        if found is None:
            found = self._groups[skipped] = self._grouped(skipped)
        groups, names = found
        standing = self._standing([self._layer(cycle, one, computed) for one in groups if one.dirt is not Dirt.ALL])
        for one in groups:
            if one.dirt is Dirt.ALL:
                rows, passed, codes = self._asked_always(cycle, standing, one.filters, computed)
                return Result(rows, passed, standing, codes, names)
        return Result(standing.rows, standing.passed, standing, None, names)

    def _standing(self, listed: Sequence[FilterLayer]) -> Standing:
        layers = tuple(listed)
        standing: Standing = self._shelf.get(layers, lambda: Standing(layers, self._size))
        standing.refresh()
        return standing

    def _layer(self, cycle: Cycle, group: Group, computed: Numbers) -> FilterLayer:
        key = (id(group), *[plugin.filter_key(cycle) for _place, _name, plugin in group.filters])
        layer: FilterLayer = self._shelf.get(key, lambda: FilterLayer(group.dirt, group.filters, cycle.snapshot))
        layer.refresh(cycle, self._tables, computed)
        return layer

    def _asked_always(
        self, cycle: Cycle, standing: Standing, filters: Sequence[Placed], computed: Numbers
    ) -> tuple[IntColumn, BoolColumn, IntColumn]:
        """Ask filters whose verdicts are never kept, each for the rows that no filter before it refuses."""
        codes = standing.codes()
        for one in filters:
            open_rows = (codes > one[0] * STEP).nonzero()[0]
            found = judge(cycle, (one,), open_rows, self._tables, computed)
            codes[open_rows] = np.minimum(codes[open_rows], found)
        passed: BoolColumn = codes == PASSED
        return passed.nonzero()[0], passed, codes

    def refusals(self, result: Result) -> list[tuple[str, Status, IntColumn]]:
        """Return who refused which rows, in the order of the profile: (plugin, status, rows)."""
        codes = result.standing.codes() if result.codes is None else result.codes
        found, code = [], int(codes.min(initial=PASSED))
        while code != PASSED:  # few reasons for many rows: sorting them all takes longer
            place, number = divmod(code, STEP)
            plugin, _filter = self.profile.filters[place]
            refused = codes == code
            found.append((plugin, self._tables[place][number], refused.nonzero()[0]))
            codes = np.where(refused, PASSED, codes)
            code = int(codes.min(initial=PASSED))
        return found

    # -- pods like one before

    def again(self, request: PlacementRequest, snapshot: Snapshot) -> Again | None:
        """Return what was found for a pod like this one, if it can be carried on."""
        key = request.likeness
        found: Again | None = self._again.find(key)
        if found is not None and not found.holds(snapshot):
            self._again.drop(key)
            return None
        return found

    def remember(
        self,
        cycle: Cycle,
        skipped: tuple[tuple[str, ...], tuple[str, ...]],
        result: Result,
        totals: IntColumn,
        computed: Numbers,
    ) -> None:
        """Keep what was found, where pods like this one can go on from it. `skipped`: filters and scores."""
        filters, scorers = self._groups[skipped[0]][0], self._score_groups[skipped[1]]
        followed = self._followed(cycle, filters, scorers)
        by_row = [one for group in scorers if group.dirt is Dirt.ROW for one in group.scorers]
        if followed is None or any(one.normalize is not None for one in by_row):
            return
        sources, beside = followed
        asked = Asked(
            [one for group in filters if group.dirt is Dirt.ROW for one in group.filters],
            by_row,
            self._standing([self._layer(cycle, one, computed) for one in filters if one.dirt is Dirt.NODE]).passed,
            [self._score_layer(cycle, one) for one in scorers if one.dirt is Dirt.NODE],
            (result.asked, tuple([one.name for group in scorers for one in group.scorers])),
            beside,
        )
        made = Again(cycle, sources, asked, self._tables)
        if beside:  # what was found is narrower than the totals are to be
            standing = self._standing([self._layer(cycle, one, computed) for one in filters if one.dirt in _ALONE])
            result = Result(standing.rows, standing.passed, standing, None, result.asked)
            totals = self._sum(cycle, [one for one in scorers if one.dirt in _ALONE], result, computed)
        made.fill(cycle, result.rows, result.passed, totals, computed)
        self._again.get(cycle.request.likeness, lambda: made)

    def _followed(
        self, cycle: Cycle, filters: Sequence[Group], scorers: Sequence[ScoreGroup]
    ) -> tuple[frozenset[Source], tuple[Beside, ...]] | None:
        """Return what plugins look at beside the rows, and what is followed of that; None where something is not."""
        if self.profile.readers is None:
            return None
        following = {one.name: one for one in self.profile.follows}
        reads = [(name, plugin.reads(cycle)) for name, plugin in self.profile.readers]
        sources = frozenset().union(*(found for _name, found in reads if found))
        elsewhere = [name for name, found in reads if found and Source.PODS in found]
        asked = [one[1] for group in filters if group.dirt not in _ALONE for one in group.filters]
        asked += [one.name for rating in scorers if rating.dirt not in _ALONE for one in rating.scorers]
        if Source.MORE in sources or not following.keys() >= {*elsewhere, *asked}:
            return None
        plugins = [following[name] for name in elsewhere]
        found = [(one, one.plugin.follow(cycle)) for one in plugins]
        return sources, tuple([Beside(one.name, one.filters, one.weight, says) for one, says in found if says])

    # -- scores

    def totals(self, cycle: Cycle, skipped: tuple[str, ...], result: Result, computed: Numbers) -> IntColumn:
        """Return the weighted sum of all scores but those of `skipped`, per row that passed."""
        groups = self._score_groups.get(skipped)
        if groups is None:
            groups = self._score_groups[skipped] = self._score_grouped(skipped)
        return self._sum(cycle, groups, result, computed)

    def _sum(self, cycle: Cycle, groups: Sequence[ScoreGroup], result: Result, computed: Numbers) -> IntColumn:
        total: IntColumn = np.zeros(len(result.rows), dtype=self._type)
        all_pass = len(result.rows) == self._size
        for one in groups:
            if one.dirt is Dirt.ALL:
                for scorer in one.scorers:
                    raw = scorer.plugin.score(cycle, result.rows)
                    computed[scorer.name] += len(result.rows)
                    total += scorer.weight * normalized(scorer, cycle, result.rows, raw)
            else:
                column = self._score_layer(cycle, one).total(cycle, result.rows, result.passed, computed)
                total += column if all_pass else column[result.rows]
        return total

    def _score_layer(self, cycle: Cycle, group: ScoreGroup) -> ScoreLayer:
        key: Hashable = (id(group), *[one.plugin.score_key(cycle) for one in group.scorers])
        return self._shelf.get(key, lambda: ScoreLayer(group.dirt, group.scorers, cycle.snapshot))


def kept_for(profile: Profile, snapshot: Snapshot) -> Kept:
    """Return what is kept for a profile; nothing outlives a move of the rows."""
    memo = snapshot.memo
    if memo.get("layout") != snapshot.layout_generation or len(memo) > MAX_PROFILES:
        memo.clear()
        memo["layout"], memo["shelf"] = snapshot.layout_generation, Shelf()
    found = memo.get(id(profile))
    if found is None:  # it holds the profile, so that no other gets its number
        found = memo[id(profile)] = Kept(profile, snapshot, memo["shelf"])
    kept: Kept = found
    return kept
