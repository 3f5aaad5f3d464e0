# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the request fit if some pods were gone: the filters, asked about tables that are not as they are.

`post_filter` is called by front ends after `place` has found no node; the plugins of the point (DefaultPreemption) ask
a `DryRun`. Nothing is kept and nothing is changed: when it returns, the snapshot is what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..cluster.columns import BoolColumn, IntColumn, bools, every_row, np
from ..cluster.occupants import Key, of_pod
from ..cluster.snapshot import Snapshot
from ..cluster.trial import Trial
from ..model.placement import PlacementRequest
from ..model.pod import PodInfo
from .contract import Code, Dirt, Nomination, Status, Verdict
from .diagnosis import Diagnosis
from .profile import Profile
from .state import Cycle

Nominated = Mapping[str, Sequence[PodInfo]]
"""Pods that wait for room which is being made for them, by node."""
Refused = list[tuple[str, Status, IntColumn]]
"""(plugin, what it said, rows)"""


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

    def resolvable_rows(self) -> IntColumn:
        """Return the rows that something could leave and make fit, in the order of the table."""
        row_of = self.snapshot.nodes.row_of
        rows = [
            row_of[node]
            for one in self.diagnosis.refusals
            if one.status.code == Code.UNSCHEDULABLE
            for node in one.nodes
        ]
        return np.array(sorted(rows), dtype=np.int64)

    def status_of(self, node: str) -> Code:
        """Return what was said of a node: unresolvable where nothing was."""
        said = (one.status.code for one in self.diagnosis.refusals if node in one.nodes)
        return next(said, Code.UNRESOLVABLE)

    def fits(self, trial: Trial, rows: IntColumn) -> tuple[BoolColumn, Refused]:
        """Return which rows pass all filters as the tables stand now, and who refused the others.

        Pods of at least the request's priority that are nominated to a row are counted as if they were there; where
        there are any, the row has to pass without them too, for they may yet go elsewhere.
        """
        added = [key for row in rows for key in self._nominate(trial, self.snapshot.nodes.names[int(row)])]
        passed, refused = self._judge(rows)
        if not added:
            return passed, refused
        nodes = {node for node in self.nominated if self.nominated[node]}
        for key in added:
            trial.remove(key)
        again = passed & np.array([self.snapshot.nodes.names[int(row)] in nodes for row in rows], dtype=np.bool_)
        second, more = self._judge(rows[again])
        passed[again] = second
        return passed, refused + more

    def _nominate(self, trial: Trial, node: str) -> Iterator[Key]:
        for pod in self.nominated.get(node, ()):
            occupant = of_pod(pod, node)
            key = (pod.namespace, pod.name)
            itself = (self.request.pod.namespace, self.request.pod.name) == key
            if itself or occupant is None or pod.priority < self.request.pod.priority:
                continue
            if trial.add(key, occupant):
                yield key

    def _judge(self, rows: IntColumn) -> tuple[BoolColumn, Refused]:
        # A new cycle: what a plugin found out in the last one was about other tables.
        cycle = Cycle(self.snapshot, self.request)
        passed, refused = bools(len(rows), True), []
        left = every_row(len(rows))
        for name, plugin in self._filters:
            if not len(left):
                break
            verdict = plugin.filter(cycle, rows[left])
            allowed = _allowed(verdict)
            if allowed.all():
                continue
            for code, status in enumerate(verdict.table):
                out = left[verdict.codes == code]
                if not status.ok and len(out):
                    refused.append((name, status, rows[out]))
            passed[left[~allowed]] = False
            left = left[allowed]
        return passed, refused


def _allowed(verdict: Verdict) -> BoolColumn:
    allowed: BoolColumn = np.array([status.ok for status in verdict.table], dtype=np.bool_)[verdict.codes]
    return allowed
