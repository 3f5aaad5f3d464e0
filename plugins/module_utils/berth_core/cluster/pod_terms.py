# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pods on the nodes say of other pods: per distinct term, how many pods of each node have it.

Owned by the tally. The replicas of an app share their terms, so the terms are few where pods are many; and a pod that
is to be placed meets only those that ask for one of its labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.pod_affinity import PodAffinity, PodTerm
from .columns import ints
from .counts import ByLabel, Counts
from .nodes import NodeTable

REQUIRED, REQUIRED_ANTI, PREFERRED, PREFERRED_ANTI = 0, 1, 2, 3
Key = tuple[int, int, PodTerm]
MAX_COLUMNS = 128
"""Terms whose counts are kept as a column: 40 kB each at 5,000 nodes. Others are counted by node name alone."""


@dataclass(eq=False)
class CountedTerm:
    """A term, its weight (0 for a required one), and how many pods of each node have it."""

    term: PodTerm
    weight: int
    nodes: dict[str, int] = field(default_factory=dict)


class PodTerms:
    """All terms of all pods on known nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.generation = 1
        """Grows when a term comes that no pod had, and when the last pod with one goes."""
        self._counted: dict[Key, CountedTerm] = {}
        self._columns: dict[CountedTerm, Counts] = {}
        self._by_label: tuple[ByLabel[CountedTerm], ...] = (ByLabel(), ByLabel(), ByLabel(), ByLabel())

    def forget_layout(self) -> None:
        """Drop what is kept by row number; called when rows have moved."""
        for counted in list(self._columns):
            self._forget(counted)

    def forget_domains(self) -> None:
        """Drop what is kept by domain; called when labels or taints of a node have changed."""
        for one in self._columns.values():
            one.forget_domains()

    def _forget(self, counted: CountedTerm) -> None:
        gone = self._columns.pop(counted, None)
        if gone is not None:
            gone.alive = False

    def add(self, affinity: PodAffinity, node_name: str, sign: int) -> None:
        """Add (sign 1) or take off (sign -1) all terms of one pod on a known node."""
        for kind, terms in ((REQUIRED, affinity.required), (REQUIRED_ANTI, affinity.required_anti)):
            for term in terms:
                self._add((kind, 0, term), node_name, sign)
        for kind, weighted in ((PREFERRED, affinity.preferred), (PREFERRED_ANTI, affinity.preferred_anti)):
            for one in weighted:
                self._add((kind, one.weight, one.term), node_name, sign)

    def _add(self, key: Key, node_name: str, sign: int) -> None:
        counted = self._counted.get(key)
        if counted is None:
            self.generation += 1
            counted = self._counted[key] = CountedTerm(key[2], key[1])
            self._by_label[key[0]].put(key[2].selector, key, counted)
        count = counted.nodes.get(node_name, 0) + sign
        if count:
            counted.nodes[node_name] = count
        else:
            del counted.nodes[node_name]
        if counted in self._columns:
            self._columns[counted].add(self._nodes.row_of[node_name], sign)
        if not counted.nodes:
            self._drop(key, counted)

    def _drop(self, key: Key, counted: CountedTerm) -> None:
        self.generation += 1
        del self._counted[key]
        self._forget(counted)
        self._by_label[key[0]].drop(key[2].selector, key)

    def __bool__(self) -> bool:
        return bool(self._counted)

    def any(self, kind: int) -> bool:
        """Tell whether a pod has a term of a kind at all."""
        return bool(self._by_label[kind])

    def about(
        self, kind: int, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[CountedTerm]:
        """Return the terms of a kind that speak of a pod with these labels in that namespace."""
        index = self._by_label[kind]
        if not index:
            return []
        return [counted for counted in index.about(labels) if counted.term.accepts(namespace, labels, namespace_labels)]

    def column(self, counted: CountedTerm) -> Counts:
        """Return per node how many of its pods have the term."""
        found = self._columns.get(counted)
        if found is None:
            column = ints(len(self._nodes))
            for name, count in counted.nodes.items():
                column[self._nodes.row_of[name]] = count
            if len(self._columns) >= MAX_COLUMNS:
                self._forget(next(iter(self._columns)))
            found = self._columns[counted] = Counts(column)
        return found
