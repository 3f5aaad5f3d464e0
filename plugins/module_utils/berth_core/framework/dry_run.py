# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the request fit if some pods were gone: the filters, asked about tables that are not as they are.

`post_filter` is called by front ends after `place` has found no node; the plugins of the point (DefaultPreemption) ask
a `DryRun`. Nothing is kept and nothing is changed: when it returns, the snapshot is what it was.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from ..cluster.columns import BoolColumn, IntColumn, ints, np
from ..cluster.snapshot import Snapshot
from ..cluster.trial import Trial
from ..model.placement import PlacementRequest
from .contract import Code, Dirt, Nomination
from .diagnosis import Diagnosis
from .kept import kept_for
from .nominated import Refused, judge_all, nominate
from .profile import Profile
from .state import Cycle
from .tried import Nominated, Tried, asked_by


def post_filter(
    profile: Profile,
    snapshot: Snapshot,
    request: PlacementRequest,
    diagnosis: Diagnosis,
    offset: int = 0,
    nominated: Nominated | None = None,
) -> Nomination:
    """Ask the PostFilter plugins what could be done about a request that fits nowhere.

    The first that makes room decides; else the messages of all are told. `offset`: where the search starts among the
    nodes, a random number for who wants that not always the first nodes are disturbed.
    """
    run = DryRun(profile, snapshot, request, diagnosis, nominated or {})
    answers = []
    for plugin in profile.post_filters:
        answer = plugin.post_filter(run, offset)
        if answer.node:
            return answer
        answers.append(answer)
    clears = any(one.node is not None for one in answers)
    return Nomination("" if clears else None, message=", ".join(one.message for one in answers if one.message))


@dataclass
class DryRun:
    """One request that fitted nowhere, and the filters that said so."""

    profile: Profile
    snapshot: Snapshot
    request: PlacementRequest
    diagnosis: Diagnosis
    nominated: Nominated = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the filters that have a say, as the cycle did."""
        cycle = Cycle(self.snapshot, self.request)
        found = {name: plugin.pre_filter(cycle).status.code for name, plugin in self.profile.pre_filters}
        self._filters = [
            (name, plugin) for name, plugin in self.profile.filters if found.get(name, Code.SUCCESS) != Code.SKIP
        ]
        self.alone = any(plugin.filter_dirt in (Dirt.TOPOLOGY, Dirt.ALL) for _name, plugin in self._filters)
        """What leaves one node may matter on another: nodes have to be tried one at a time, not all at once."""

    def tried(self, question: Hashable) -> Tried[object] | None:
        """Return what was found by trying for pods like this one; None where that holds for this one alone."""
        asked = asked_by(self.snapshot, self.request, self._filters)
        return None if asked is None else kept_for(self.profile, self.snapshot).trials.to((question, asked))

    def resolvable_rows(self) -> IntColumn:
        """Return the rows that something could leave and make fit, in the order of the table."""
        rows = [one.nodes.rows for one in self.diagnosis.refusals if one.status.code == Code.UNSCHEDULABLE]
        return np.sort(np.concatenate(rows)) if rows else ints(0)

    def status_of(self, node: str) -> Code:
        """Return what was said of a node: unresolvable where nothing was."""
        row = self.snapshot.nodes.row_of.get(node)
        said = (one.status.code for one in self.diagnosis.refusals if row in one.nodes.rows)
        return next(said, Code.UNRESOLVABLE)

    def fits(self, trial: Trial, rows: IntColumn) -> tuple[BoolColumn, Refused]:
        """Return which rows pass all filters as the tables stand now, and who refused the others.

        Pods that are nominated to a row are counted as if they were there (framework/nominated.py); where there are
        any, the row has to pass without them too.
        """
        names = self.snapshot.nodes.names
        added = nominate(trial, self.request.pod, self.nominated, [names[int(row)] for row in rows])
        passed, refused = judge_all(self.snapshot, self.request, self._filters, rows)
        if not added:
            return passed, refused
        for key in added:
            trial.remove(key)
        again = passed & np.array([bool(self.nominated.get(names[int(row)])) for row in rows], dtype=np.bool_)
        second, more = judge_all(self.snapshot, self.request, self._filters, rows[again])
        passed[again] = second
        return passed, refused + more
