# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeAffinity: nodeSelector, required and preferred node affinity, and affinity that the profile adds to every pod."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cluster.columns import IntColumn, ints, np
from ..errors import SelectorError
from ..framework.contract import (
    ALL_NODES,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    SKIPPED,
    SUCCESS,
    Dirt,
    Narrowing,
    Source,
    Status,
    Verdict,
    unresolvable,
)
from ..framework.state import Cycle
from ..model.fields import mapping
from ..model.labels import EMPTY_TERM, IN, NodeSelector, NodeSelectorTerm, PreferredTerm, parse_preferred
from .args import known_only
from .rows import affinity_matches, default_normalize, selector_matches, term_matches

NOT_THE_PODS = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_THE_PROFILES = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = unresolvable("pod affinity terms conflict")


@dataclass(frozen=True)
class NodeAffinity:
    """Filter and score on labels and names. `added_*`: the argument addedAffinity."""

    added_required: NodeSelector | None = None
    added_preferred: tuple[PreferredTerm, ...] = ()
    name: str = "NodeAffinity"
    filter_dirt: Dirt = Dirt.NODE
    score_dirt: Dirt = Dirt.NODE

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> NodeAffinity:
        """Read addedAffinity. Raises InputError with the path."""
        known_only(args, ("addedAffinity",), path)
        added = mapping(args, "addedAffinity", f"{path}.addedAffinity")
        required = added.get("requiredDuringSchedulingIgnoredDuringExecution")
        where = f"{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        selector = None if required is None else NodeSelector.parse(mapping({"it": required}, "it", where), where)
        for term in selector.terms if selector else ():
            if term.problem not in ("", EMPTY_TERM):
                raise SelectorError(term.problem, field=where)
        preferred = added.get("preferredDuringSchedulingIgnoredDuringExecution")
        where = f"{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        return cls(selector, parse_preferred(preferred, where))

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod without wishes; narrow to the nodes that its terms name."""
        pod = cycle.request.pod
        if pod.required_affinity is None and pod.node_selector is None and self.added_required is None:
            return NOTHING_TO_FILTER
        if pod.required_affinity is None or not pod.required_affinity.terms:
            return ALL_NODES
        named: set[str] = set()
        for term in pod.required_affinity.terms:
            names = _named(term)
            if names is None:
                return ALL_NODES
            named |= names
        return Narrowing(nodes=frozenset(named)) if named else Narrowing(CONFLICT)

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return the pod's selectors."""
        return (cycle.request.pod.node_selector, cycle.request.pod.required_affinity)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows that the profile's or the pod's required terms do not match.

        The profile's reason stands first.
        """
        codes = np.where(affinity_matches(cycle.snapshot, cycle.request.pod, rows), 0, 1).astype(np.int64)
        if self.added_required is not None:
            codes[~selector_matches(cycle.snapshot, self.added_required, rows)] = 2
        return Verdict(codes, (SUCCESS, NOT_THE_PODS, NOT_THE_PROFILES))

    def fix(self, cycle: Cycle, row: int) -> str:
        """Return the way out."""
        return "labels on {node} that match the pod's node selector and affinity"

    def pre_score(self, cycle: Cycle, rows: IntColumn) -> Status:
        """Skip a pod without preferences."""
        return SUCCESS if cycle.request.pod.preferred_affinity or self.added_preferred else SKIPPED

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return the pod's preferences."""
        return cycle.request.pod.preferred_affinity

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Add up the weights of the terms that match."""
        scores = ints(len(rows))
        for preferred in (*self.added_preferred, *cycle.request.pod.preferred_affinity):
            scores[term_matches(cycle.snapshot, preferred.term, rows)] += preferred.weight
        return scores

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Give the highest sum 100."""
        return default_normalize(scores)


def _named(term: NodeSelectorTerm) -> set[str] | None:
    """Return the names to which a term is bound by its fields; None where it is bound to none."""
    names: set[str] | None = None
    for field in term.fields:
        if field.key == "metadata.name" and field.operator == IN:
            names = set(field.values) if names is None else names & set(field.values)
    return names
