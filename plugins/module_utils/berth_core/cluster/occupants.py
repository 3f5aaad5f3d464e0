# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who takes room on the nodes: pods, berths whose pod is not there yet, placements that are not written yet.

Owned by the snapshot. One replica is known under one key (namespace, pod name) from up to three sources; only the
strongest counts: a pod that has a node, else a berth, else an assumption. So a replica is never counted twice, and
never not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..model.attachable import InlineVolume
from ..model.berth import BerthRecord
from ..model.labels import LabelSelector
from ..model.pod import Amounts, ClaimVolume, HostPort, PodInfo
from ..model.pod_affinity import NO_AFFINITY, PodAffinity
from ..model.requests import CPU, DEFAULT_CPU, DEFAULT_MEMORY, EPHEMERAL, MEMORY, amount
from .counts import ANY_LABEL, asked_labels

Key = tuple[str, str]
POD, BERTH, ASSUMED = 0, 1, 2
"""The sources, strongest first."""
MORE_THAN_ANY_NODE = 1 << 52
"""4 PiB of memory, 4.5e12 cores. Two thousand of them still add up within 64 bits."""


class Occupant(NamedTuple):
    """What one replica takes off its node.

    `spreads` False: it does not count for topology spread (it is going away).
    """

    namespace: str
    node_name: str
    labels: dict[str, str]
    requests: Amounts
    nonzero: Amounts
    host_ports: tuple[HostPort, ...]
    spreads: bool = True
    affinity: PodAffinity = NO_AFFINITY
    volumes: tuple[ClaimVolume, ...] = ()
    inline: tuple[InlineVolume, ...] = ()


def of_pod(pod: PodInfo, node_name: str = "") -> Occupant | None:
    """Return what a pod takes; None for one that has no node or has ended."""
    where = node_name or pod.node_name
    if not where or pod.finished:
        return None
    return Occupant(
        pod.namespace, where, dict(pod.labels), pod.requests, pod.nonzero, pod.host_ports,
        not pod.terminating, pod.affinity, pod.volumes, pod.inline,
    )  # fmt: skip


def of_berth(berth: BerthRecord) -> Occupant | None:
    """Return what a berth takes; None for one without a node."""
    if not berth.node_name:
        return None
    requests = dict(berth.requests)
    defaults = {CPU: amount(CPU, DEFAULT_CPU), MEMORY: DEFAULT_MEMORY}
    nonzero = tuple((name, requests.get(name, default)) for name, default in defaults.items())
    return Occupant(
        berth.namespace, berth.node_name, dict(berth.pod_labels), berth.requests, nonzero, berth.host_ports,
        spreads=not berth.terminating,
    )  # fmt: skip


def of_unreadable(namespace: str, node_name: str) -> Occupant | None:
    """Return what a pod or berth takes whose object cannot be read: all that its node has; None without a node."""
    if not node_name:
        return None
    everything = tuple((name, MORE_THAN_ANY_NODE) for name in (CPU, EPHEMERAL, MEMORY))
    nonzero = tuple((name, MORE_THAN_ANY_NODE) for name in (CPU, MEMORY))
    return Occupant(namespace, node_name, {}, everything, nonzero, ())


class Occupants:
    """All replicas by key, and which of their sources counts."""

    def __init__(self) -> None:
        self._sources: dict[Key, list[Occupant | None]] = {}
        self._on_node: dict[str, dict[Key, Occupant]] = {}
        self._labelled: dict[tuple[str, str], dict[Key, Occupant]] = {}

    def put(self, key: Key, source: int, occupant: Occupant | None) -> tuple[Occupant | None, Occupant | None]:
        """Set or clear one source of a replica.

        Return what counted before and what counts now: the same object twice where that takes the same.
        """
        sources = self._sources.get(key)
        if sources is None:
            sources = self._sources[key] = [None, None, None]
        before = sources[POD] or sources[BERTH] or sources[ASSUMED]
        sources[source] = occupant
        after = sources[POD] or sources[BERTH] or sources[ASSUMED]
        if after is None:
            del self._sources[key]  # none of them is left
        if before is after or before == after:
            return before, before
        if before is not None:
            self.hide(key, before.node_name)
        if after is not None:
            self.show(key, after)
        return before, after

    def get(self, key: Key, source: int) -> Occupant | None:
        """Return what one source says of a replica."""
        return self._sources[key][source] if key in self._sources else None

    def keys_on(self, name: str) -> list[Key]:
        """Return the keys of all that count on a node."""
        return list(self._on_node.get(name, ()))

    def counts(self, key: Key) -> bool:
        """Tell whether a replica counts anywhere, by any source."""
        return key in self._sources and _strongest(self._sources[key]) is not None

    def hide(self, key: Key, node_name: str) -> Occupant:
        """Let what counts for a replica not count, for as long as a trial lasts; return it."""
        occupant = self._on_node[node_name].pop(key)
        for label in occupant.labels.items():
            listed = self._labelled[label]
            del listed[key]
            if not listed:
                del self._labelled[label]
        return occupant

    def show(self, key: Key, occupant: Occupant) -> None:
        """Let it count (again)."""
        self._on_node.setdefault(occupant.node_name, {})[key] = occupant
        for label in occupant.labels.items():
            self._labelled.setdefault(label, {})[key] = occupant

    def on_node(self, name: str) -> list[Occupant]:
        """Return all that count on a node, known to the node table or not."""
        return list(self._on_node.get(name, {}).values())

    def meant_by(self, selector: LabelSelector | None) -> Iterator[Occupant]:
        """Return who may be selected: nobody is looked at before somebody takes the first."""
        labels = asked_labels(selector)
        if ANY_LABEL in labels:
            return (occupant for listed in self._on_node.values() for occupant in listed.values())
        return (occupant for label in labels for occupant in self._labelled.get(label, {}).values())


def _strongest(sources: list[Occupant | None]) -> Occupant | None:
    return sources[POD] or sources[BERTH] or sources[ASSUMED]
