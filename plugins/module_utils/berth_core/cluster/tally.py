# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the occupants of each node add up to: requests, host ports, pods per selector, terms about other pods,
volumes in use.

Owned by the snapshot. Adds and takes off one occupant at a time; never looks at all pods again, except once for a
selector that is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Callable, NamedTuple

from ..model.labels import LabelSelector
from ..model.pod import HostPort
from ..model.pod_affinity import PodMatch
from ..model.requests import PODS, is_scalar
from .columns import ints
from .counts import ByLabel, Counts
from .nodes import NodeTable
from .occupants import Occupant
from .pod_terms import PodTerms
from .volume_uses import VolumeUses

MAX_SELECTORS = 256
"""Selectors whose counts are kept up to date.

Beyond it the one that was first is dropped and counted again when it is needed.
"""


class _Question(NamedTuple):
    """Which pods are counted. `selector`: a label that it asks for is one that all of them have."""

    key: Hashable
    selector: LabelSelector | None
    accepts: Callable[[Occupant], bool]
    counts: Counts


class Tally:
    """Sums per node row, written into the node table, and the sparse ones beside it."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._ports: dict[tuple[str, int], dict[str, Counter[str]]] = {}
        self._questions: dict[Hashable, _Question] = {}
        self._by_label: ByLabel[_Question] = ByLabel()
        self.terms = PodTerms(nodes)
        self.volume_uses = VolumeUses()

    def forget_layout(self) -> None:
        """Drop what is kept by row number; called when rows have moved."""
        for key in list(self._questions):
            self._drop(key)
        self.terms.forget_layout()

    def forget_domains(self) -> None:
        """Drop what is kept by domain; called when labels or taints of a node have changed."""
        for one in self._questions.values():
            one.counts.forget_domains()
        self.terms.forget_domains()

    def add(self, occupant: Occupant, sign: int) -> None:
        """Add (sign 1) or take off (sign -1) one occupant of a known node."""
        row = self._nodes.row_of[occupant.node_name]
        requested, nonzero = self._nodes.requested, self._nodes.nonzero
        requested[PODS][row] += sign
        for name, value in occupant.requests:
            if name in requested or is_scalar(name):
                self._nodes.column(requested, name)[row] += sign * value
        for name, value in occupant.nonzero:
            nonzero[name][row] += sign * value
        if occupant.host_ports:
            self._add_ports(occupant, sign)
        if self._questions:
            self._add_counts(occupant, row, sign)
        if occupant.affinity:
            self.terms.add(occupant.affinity, occupant.node_name, sign)
        if occupant.volumes or occupant.inline:
            self.volume_uses.add(occupant, sign)

    def _add_counts(self, occupant: Occupant, row: int, sign: int) -> None:
        for one in self._by_label.about(occupant.labels):
            if one.accepts(occupant):
                one.counts.add(row, sign)

    def _add_ports(self, occupant: Occupant, sign: int) -> None:
        for port in occupant.host_ports:
            nodes = self._ports.setdefault((port.protocol, port.port), {})
            taken = nodes.setdefault(occupant.node_name, Counter())
            taken[port.ip] += sign
            if taken[port.ip] <= 0:
                del taken[port.ip]
            if not taken:
                del nodes[occupant.node_name]

    def nodes_with_port(self, wanted: HostPort) -> list[str]:
        """Return the nodes on which the port cannot be had."""
        taken = self._ports.get((wanted.protocol, wanted.port), {})
        return [
            node
            for node, ips in taken.items()
            if any(wanted.conflicts(HostPort(wanted.protocol, ip, wanted.port)) for ip in ips)
        ]

    def count(self, namespace: str, selector: LabelSelector, occupants: Iterable[Occupant]) -> Counts:
        """Return per node how many of a namespace's pods match.

        `occupants`: all that may match, used for a new selector.
        """
        key = (namespace, selector)
        found = self._questions.get(key)
        if found is not None:
            return found.counts

        def accepts(one: Occupant) -> bool:
            return one.spreads and one.namespace == namespace and selector.matches(one.labels)

        return self._ask(key, selector, accepts, occupants)

    def count_matching(self, wanted: tuple[PodMatch, ...], occupants: Iterable[Occupant]) -> Counts:
        """Return per node how many pods all of `wanted` accept, those that are going away too.

        `occupants`: all that may be accepted, used for a new question.
        """
        found = self._questions.get(wanted)
        if found is not None:
            return found.counts

        def accepts(one: Occupant) -> bool:
            return all(match.accepts(one.namespace, one.labels) for match in wanted)

        return self._ask(wanted, wanted[0].selector, accepts, occupants)

    def _ask(
        self,
        key: Hashable,
        selector: LabelSelector | None,
        accepts: Callable[[Occupant], bool],
        occupants: Iterable[Occupant],
    ) -> Counts:
        column = ints(len(self._nodes))
        for one in occupants:
            row = self._nodes.row_of.get(one.node_name)
            if row is not None and accepts(one):
                column[row] += 1
        if len(self._questions) >= MAX_SELECTORS:
            self._drop(next(iter(self._questions)))
        made = self._questions[key] = _Question(key, selector, accepts, Counts(column))
        self._by_label.put(selector, key, made)
        return made.counts

    def _drop(self, key: Hashable) -> None:
        gone = self._questions.pop(key)
        gone.counts.alive = False
        self._by_label.drop(gone.selector, key)
