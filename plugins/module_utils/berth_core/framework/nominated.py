# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that wait for room which is being made for them: a node that is nominated to one counts it as if it were there.

Asked by framework/cycle.py and framework/dry_run.py; the daemon keeps `Nominations`. The rules are those of
kube-scheduler v1.36: a pod yields to nominated pods of its own priority and above, and never to itself; a node has to
pass both with them and without them, for they may yet go elsewhere. But of two of one priority that are nominated to
one node, the second yields to the first and not the other way round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import replace
from typing import Optional

from ..cluster.columns import BoolColumn, IntColumn, bools, every_row, np
from ..cluster.occupants import Key, of_pod
from ..cluster.snapshot import Snapshot
from ..cluster.trial import Trial
from ..model.placement import PlacementRequest
from ..model.pod import PodInfo
from .contract import Filter, Status, Verdict
from .state import Cycle
from .tried import Nominated, Trials, asked_by, yields_to

Filters = Sequence[tuple[str, Filter]]
Refused = list[tuple[str, Status, IntColumn]]
"""(plugin, what it said, rows)"""


class Nominations:
    """Which pods are nominated to which node. A pod's object may still say something else than what was decided."""

    def __init__(self) -> None:
        self.by_node: dict[str, list[PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        #: what was decided of a pod and its object has not said yet, the oldest first
        self._untold: dict[str, list[str]] = {}

    def node_of(self, uid: str) -> str:
        """Return a pod's node; "" for one that has none."""
        return self._node_of.get(uid, "")

    def on(self, node: str) -> tuple[PodInfo, ...]:
        """Return the pods that are nominated to a node."""
        return tuple(self.by_node.get(node, ()))

    def of(self, pod: PodInfo) -> PodInfo:
        """Return a waiting pod as it is with what was decided, which its object may not say yet.

        Else it would be tried as one for which no room is being made, and end others for more.
        """
        node = self.node_of(pod.uid)
        if pod.preemption.nominated == node:
            return pod
        return replace(pod, preemption=replace(pod.preemption, nominated=node))

    def put(self, pod: PodInfo) -> None:
        """Nominate a pod to the node that its object says."""
        self._put(pod, pod.preemption.nominated)

    def decide(self, pod: PodInfo, node: str) -> bool:
        """Nominate a pod, `node` "": to none any more. `pod`: as its object is. True: the object is to say so."""
        self._put(pod, node)
        untold = self._untold.get(pod.uid, [])
        if not untold and node == pod.preemption.nominated:
            return False
        if untold[-1:] != [node]:
            self._untold[pod.uid] = [*untold, node]
        return True

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take a waiting pod's new facts over, and what its object says now where somebody else has decided that.

        Not where it says the same as before, for the change was not about that; nor where it says what was decided
        here some time ago: what was decided since is on its way there.
        """
        said = new.preemption.nominated
        untold = self._untold.get(new.uid, [])
        if said == old.preemption.nominated:
            said = self.node_of(new.uid)
        elif said in untold:
            left = self._untold[new.uid] = untold[untold.index(said) + 1 :]
            said = left[-1] if left else said
        self._put(new, said)

    def remove(self, uid: str) -> None:
        """No node is nominated to a pod any more: it has a place."""
        node = self._node_of.pop(uid, "")
        if node:
            left = [one for one in self.by_node[node] if one.uid != uid]
            if left:
                self.by_node[node] = left
            else:
                del self.by_node[node]

    def forget(self, uid: str) -> None:
        """Of a pod nothing more will be told: its object says its place, or it is gone."""
        self.remove(uid)
        self._untold.pop(uid, None)

    def _put(self, pod: PodInfo, where: str) -> None:
        """A pod that stays nominated to its node keeps its place among those there."""
        if where and where == self.node_of(pod.uid):
            self.by_node[where] = [pod if one.uid == pod.uid else one for one in self.by_node[where]]
            return
        self.remove(pod.uid)
        if where:
            self.by_node.setdefault(where, []).append(pod)
            self._node_of[pod.uid] = where


def contested(snapshot: Snapshot, pod: PodInfo, nominated: Nominated) -> IntColumn:
    """Return the rows on which the pod has to yield to somebody, in the order of the table."""
    row_of = snapshot.nodes.row_of
    rows = [row_of[node] for node in nominated if node in row_of and yields_to(pod, nominated, node)]
    return np.array(sorted(rows), dtype=np.int64)


def nominate(trial: Trial, pod: PodInfo, nominated: Nominated, nodes: Iterable[str]) -> list[Key]:
    """Let the pods that a pod must yield to count on these nodes; return who counts now and did not before."""
    added = []
    for node in nodes:
        for one in yields_to(pod, nominated, node):
            occupant, key = of_pod(one, node), (one.namespace, one.name)
            if occupant is not None and trial.add(key, occupant):
                added.append(key)
    return added


def crowded_out(
    snapshot: Snapshot,
    request: PlacementRequest,
    filters: Filters,
    nominated: Nominated,
    rows: IntColumn,
    trials: Trials,
) -> tuple[BoolColumn, Refused]:
    """Return which of the rows pass with those counted that are nominated to them, and who refused the others.

    Where a filter looks at other nodes, one row is asked at a time: a pod counts on its own node alone.
    """
    asked, pod, nodes = asked_by(snapshot, request, filters), request.pod, snapshot.nodes

    def find(listed: list[int]) -> dict[int, Said]:
        with snapshot.trial() as trial:
            nominate(trial, pod, nominated, [nodes.names[row] for row in listed])
            _passed, refused = judge_all(snapshot, request, filters, np.array(listed, dtype=np.int64))
        return {**dict.fromkeys(listed), **said_of(refused)}

    if asked is None:
        found = {row: said for one in rows.tolist() for row, said in find([one]).items()}
    else:
        found = trials.to(("crowded out", asked)).ask(  # type: ignore[assignment]
            rows.tolist(),
            lambda row: (nodes.generation.item(row), *yields_to(pod, nominated, nodes.names[row])),
            find,
        )
    passed: BoolColumn = np.array([said is None for said in found.values()], dtype=np.bool_)
    return passed, gathered(found)


Said = Optional[tuple[str, Status]]
"""Of one row: the plugin that refused it and what it said, None where it passed."""


def said_of(refused: Refused) -> dict[int, Said]:
    """Return what was said by row."""
    return {row: (name, status) for name, status, rows in refused for row in rows.tolist()}


def gathered(said: dict[int, Said]) -> Refused:
    """Return the rows by what was said of them."""
    by_reason: dict[tuple[str, Status], list[int]] = defaultdict(list)
    for row, one in said.items():
        if one is not None:
            by_reason[one].append(row)
    return [(name, status, np.array(rows, dtype=np.int64)) for (name, status), rows in by_reason.items()]


def judge_all(
    snapshot: Snapshot,
    request: PlacementRequest,
    filters: Filters,
    rows: IntColumn,
    asked: MutableMapping[str, int] | None = None,
) -> tuple[BoolColumn, Refused]:
    """Ask filters themselves, each for the rows that the ones before let pass, about the tables as they stand now.

    `asked`: where the rows that each filter is asked about are added.
    """
    # A new cycle: what a plugin found out in the last one was about other tables.
    cycle = Cycle(snapshot, request)
    passed, refused = bools(len(rows), True), []
    left = every_row(len(rows))
    for name, plugin in filters:
        if not len(left):
            break
        verdict = plugin.filter(cycle, rows[left])
        if asked is not None:
            asked[name] = asked.get(name, 0) + len(left)
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
