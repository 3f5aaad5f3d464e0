# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of tasks' pods, never changed, and what differs between two of them.

An event that is late or comes twice changes nothing: of one pod the newest version counts, what was deleted does not
come back, and a pod that is not there had gone by the snapshot's version. A whole list that is older than what is known
is not taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .pods import PodState

PodKey = tuple[str, str]
#: uids of pods that are gone, so that a late event does not bring them back: at least the last so many.
TOMBS = 4096


class PodEvent(NamedTuple):
    """One pod as it was told. `there` False: it is gone."""

    pod: PodState
    there: bool = True


class Difference(NamedTuple):
    """One pod that came (`old` None), changed, or went (`new` None). `old` of one that went: its last state."""

    old: PodState | None
    new: PodState | None

    @property
    def either(self) -> PodState:
        """The newest that is known of the pod."""
        found = self.new if self.new is not None else self.old
        if found is None:
            raise ValueError("a difference without a pod")
        return found


@dataclass(frozen=True)
class PodsSnapshot:
    """`pods`: by namespace and name.

    `version`: what list and watch have come to; answers to own writes do not move it.
    """

    pods: Mapping[str, Mapping[str, PodState]] = field(default_factory=dict)
    version: int = 0
    tombs: Mapping[str, None] = field(default_factory=dict)

    def find(self, key: PodKey) -> PodState | None:
        """The pod of that namespace and name."""
        return self.pods.get(key[0], {}).get(key[1])

    def all(self) -> Iterator[PodState]:
        """Every pod."""
        for pods in self.pods.values():
            yield from pods.values()

    def knows(self, pod: PodState) -> bool:
        """Whether this very pod is there."""
        found = self.find(pod.key)
        return found is not None and found.uid == pod.uid

    def applied(self, events: Sequence[PodEvent], version: int = 0) -> PodsSnapshot:
        """The snapshot after these events, of which the watch has come to `version`."""
        changed = {namespace: dict(self.pods.get(namespace, {})) for namespace in {one.pod.namespace for one in events}}
        tombs = dict(self.tombs)
        for pod, there in events:
            pods, name = changed[pod.namespace], pod.name
            old = pods.get(name)
            if not there:
                tombs[pod.uid] = None
                if old is not None and old.uid == pod.uid:
                    del pods[name]
            elif pod.uid not in tombs and pod.version > (self.version if old is None else old.version):
                if old is not None and old.uid != pod.uid:
                    tombs[old.uid] = None
                pods[name] = pod
            elif old is not None and old.uid != pod.uid:  # had gone before the one that has its name
                tombs[pod.uid] = None
        found = {namespace: pods for namespace, pods in {**self.pods, **changed}.items() if pods}
        return PodsSnapshot(found, max(self.version, version), _bounded(tombs))

    def replaced(self, listed: Iterable[PodState], version: int) -> PodsSnapshot:
        """A whole list, as of `version`. What is known from later stays; an older list changes nothing."""
        if version < self.version:
            return self
        pods: dict[str, dict[str, PodState]] = {}
        for pod in listed:
            if pod.uid not in self.tombs:
                pods.setdefault(pod.namespace, {})[pod.name] = pod
        tombs = dict(self.tombs)
        for old in self.all():
            now = pods.get(old.namespace, {}).get(old.name)
            if old.version > version or (now is not None and now.uid == old.uid and old.version > now.version):
                pods.setdefault(old.namespace, {})[old.name] = old
            elif now is None or now.uid != old.uid:
                tombs[old.uid] = None
        return PodsSnapshot(pods, version, _bounded(tombs))

    def rewound(self) -> PodsSnapshot:
        """The API server's history has gone back: any list is taken, and no version known so far is newer."""
        return PodsSnapshot().replaced([replace(pod, version=0) for pod in self.all()], 0)


def differences(old: PodsSnapshot, new: PodsSnapshot, keys: Iterable[PodKey] | None = None) -> list[Difference]:
    """What came, changed and went, by key. A pod that was replaced by another of its name went and came.

    `keys`: what may differ; None: anything.
    """
    found = []
    for before, now in _pairs(old, new) if keys is None else ((old.find(key), new.find(key)) for key in sorted(keys)):
        if before is not None and now is not None and before.uid != now.uid:
            found += [Difference(before, None), Difference(None, now)]
        elif before is not now and before != now:  # a list has very many as they were
            found.append(Difference(before, now))
    return found


def _pairs(old: PodsSnapshot, new: PodsSnapshot) -> Iterator[tuple[PodState | None, PodState | None]]:
    """Each pod of one of them as both have it, by key."""
    for namespace in sorted({*old.pods, *new.pods}):
        before, now = old.pods.get(namespace, {}), new.pods.get(namespace, {})
        for name in sorted({*before, *now}):
            yield before.get(name), now.get(name)


def _bounded(tombs: dict[str, None]) -> dict[str, None]:
    """Cut now and then, not at each event: to copy them takes longer than the event itself."""
    return dict.fromkeys(list(tombs)[-TOMBS:]) if len(tombs) > 2 * TOMBS else tombs
