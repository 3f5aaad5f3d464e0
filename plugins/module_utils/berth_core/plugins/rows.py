# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors, affinity, taints and normalization over rows: what several plugins ask of the node table."""

from __future__ import annotations

from collections.abc import Iterable

from ..cluster.columns import BoolColumn, IntColumn, bools, ints, np
from ..cluster.counts import Counts
from ..cluster.snapshot import Snapshot
from ..framework.contract import MAX_SCORE, SUCCESS, Status, Verdict
from ..model.labels import IN, LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from ..model.pod import PodInfo
from ..model.taint import Toleration, untolerated


def all_match(snapshot: Snapshot, requirements: Iterable[Requirement], rows: IntColumn) -> BoolColumn:
    """Return which rows' labels satisfy every requirement."""
    found = bools(len(rows), True)
    for requirement in requirements:
        found &= snapshot.labels.matches(requirement, rows)
    return found


def term_matches(snapshot: Snapshot, term: NodeSelectorTerm, rows: IntColumn) -> BoolColumn:
    """Return which rows one node selector term matches; an invalid term matches none."""
    if term.problem:
        return bools(len(rows))
    found = all_match(snapshot, term.expressions, rows)
    for field in term.fields:
        row = snapshot.nodes.row_of.get(field.values[0], -1) if field.key == "metadata.name" else -1
        equal = rows == row
        # A field that is never filled is the empty text: equal to nothing but that.
        if field.key != "metadata.name" and field.values[0] == "":
            equal = bools(len(rows), True)
        found &= equal if field.operator == IN else ~equal
    return found


def selector_matches(snapshot: Snapshot, selector: NodeSelector, rows: IntColumn) -> BoolColumn:
    """Return which rows at least one term matches."""
    found = bools(len(rows))
    for term in selector.terms:
        found |= term_matches(snapshot, term, rows)
    return found


def affinity_matches(snapshot: Snapshot, pod: PodInfo, rows: IntColumn) -> BoolColumn:
    """Return which rows satisfy the pod's nodeSelector and its required node affinity."""
    found = bools(len(rows), True)
    if pod.node_selector is not None:
        found &= all_match(snapshot, pod.node_selector.requirements, rows)
    if pod.required_affinity is not None:
        found &= selector_matches(snapshot, pod.required_affinity, rows)
    return found


def untolerated_rows(snapshot: Snapshot, tolerations: tuple[Toleration, ...], rows: IntColumn) -> BoolColumn:
    """Return which rows have a NoSchedule or NoExecute taint that is not tolerated.

    Judged once per distinct set of taints.
    """
    verdicts = [untolerated(taints, tolerations) for taints in snapshot.nodes.taint_sets]
    found: BoolColumn = np.array(verdicts, dtype=np.bool_)[snapshot.nodes.taint_set[rows]]
    return found


def pods_match(snapshot: Snapshot, namespace: str, selector: LabelSelector | None) -> Counts:
    """Return per node how many pods a spread constraint counts.

    None for no selector, and none for one that selects everything.
    """
    if selector is None or not selector.requirements:
        return Counts(ints(len(snapshot.nodes)))
    return snapshot.count_pods(namespace, selector)


def one_reason(passed: BoolColumn, refusal: Status) -> Verdict:
    """Return the verdict of a filter that knows one refusal."""
    codes: IntColumn = np.where(passed, 0, 1).astype(np.int64)
    return Verdict(codes, (SUCCESS, refusal))


def default_normalize(scores: IntColumn, reverse: bool = False) -> IntColumn:
    """Scale so that the highest score becomes 100.

    `reverse`: the highest becomes 0 (kube-scheduler's DefaultNormalizeScore).
    """
    highest = int(scores.max()) if len(scores) else 0
    if highest <= 0:
        return ints(len(scores), MAX_SCORE) if reverse else scores.copy()
    scaled: IntColumn = MAX_SCORE * scores // highest
    return MAX_SCORE - scaled if reverse else scaled
