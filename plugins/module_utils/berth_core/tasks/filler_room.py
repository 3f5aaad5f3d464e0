# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room of filler tasks: what nodes have, less what is really used there, and who goes when others use more.

Room is given carefully and taken back late. A filler pod that was not measured yet is part of what its node uses, and
of which part nobody knows: for what is given it counts as others' use, for who goes it does not. For what is given
others use the larger of now and a peak that decays, and the whole margin stays free; filler tasks go when less than
half of it is left. A node on which one has just gone takes none for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..model.pod import Amounts
from ..model.requests import PODS
from .account import Charge
from .filler import FILLED
from .offers import Free, Offer

PodKey = tuple[str, str]
Used = Mapping[str, int]
#: Of a peak of what others use half is left after so many seconds.
HALF_LIFE = 300.0


class Filler(NamedTuple):
    """A try of a filler task. `node` empty: nobody knows. `started` as the API server writes it; empty: it has not."""

    charge: Charge
    pod: PodKey
    node: str
    requests: Amounts
    started: str = ""
    going: bool = False


class Sample(NamedTuple):
    """What a node, or a pod, used at that time (in seconds)."""

    at: float
    used: Used


class Node(NamedTuple):
    """What it has in all; pods of others on it; what those of them use that are too new to be measured."""

    has: Used
    pods: int = 0
    arriving: Used = MappingProxyType({})
    takes: bool = True


class Others(NamedTuple):
    """What a node is used for beside filler tasks: `least` and `most` by the last sample, and the decaying peak."""

    at: float
    least: Used
    most: Used
    peak: Used


class FillerRoom:
    """Not for threads. Times are seconds of one clock.

    `margin`: the share of a node that is left to others; `rest`: a node from which one has gone takes none for so
    long; `stale`: an older sample says nothing.
    """

    def __init__(self, margin: float, rest: float, stale: float) -> None:
        self._margin, self._rest, self._stale = margin, rest, stale
        self._others: dict[str, Others] = {}
        self._uses: dict[PodKey, Used] = {}
        #: What filler pods used at the last sample of their node, those that have gone since among them.
        self._last: dict[str, dict[PodKey, Used]] = {}
        self._until: dict[str, float] = {}

    # -- what is told ----------------------------------------------------------------------------------------------

    def look(self, nodes: Mapping[str, Sample], pods: Mapping[PodKey, Used], fillers: Iterable[Filler]) -> None:
        """What was measured now: of nodes, and of filler pods. A node's sample that was seen before says nothing."""
        on = _by_node(fillers)
        self._uses = dict(pods)
        for name, sample in nodes.items():
            before = self._others.get(name)
            if before is None or sample.at > before.at:
                self._others[name] = self._looked(name, sample, before, on.get(name, ()))
        for name in self._others.keys() - nodes.keys():
            del self._others[name]
            self._last.pop(name, None)

    def _looked(self, name: str, sample: Sample, before: Others | None, mine: Sequence[Filler]) -> Others:
        last = self._last.get(name, {})
        measured = {one.pod: self._uses[one.pod] for one in mine if one.pod in self._uses}
        # Of one that has gone meanwhile a part is in the sample.
        measured.update({pod: self._uses[pod] for pod in last if pod in self._uses})
        gone = [used for pod, used in last.items() if pod not in measured]
        begun = [dict(one.requests) for one in mine if one.pod not in measured and one.started]
        self._last[name] = measured
        most = {each: max(0, sample.used.get(each, 0) - _sum(measured.values(), each)) for each in FILLED}
        least = {each: max(0, most[each] - _sum([*gone, *begun], each)) for each in FILLED}
        if before is None:
            return Others(sample.at, least, most, least)
        left = 0.5 ** ((sample.at - before.at) / HALF_LIFE)
        peak = {each: max(least[each], int(least[each] + (before.peak[each] - least[each]) * left)) for each in FILLED}
        return Others(sample.at, least, most, peak)

    def left(self, node: str, now: float) -> None:
        """A filler task has had to go from there."""
        self._until[node] = now + self._rest

    # -- what follows ----------------------------------------------------------------------------------------------

    def measured(self, now: float) -> bool:
        """Whether it is known of any node what it uses."""
        return any(now - one.at <= self._stale for one in self._others.values())

    def whole(self, nodes: Mapping[str, Node]) -> dict[str, Free]:
        """What filler tasks could have of each node if nobody used anything."""
        return {name: self._limits(node, self._margin) for name, node in nodes.items() if node.takes}

    def offers(self, now: float, nodes: Mapping[str, Node], fillers: Iterable[Filler]) -> list[Offer]:
        """The room on each node where there is some, the one first that has most of itself free."""
        on = _by_node(fillers)
        self._until = {name: until for name, until in self._until.items() if until > now}
        found = []
        for name, node in nodes.items():
            others = self._known(name, now)
            if others is None or not node.takes or name in self._until:
                continue
            used = {each: max(others.most[each], others.peak[each]) for each in FILLED}
            free = self._free(node, used, on.get(name, ()), self._margin)
            if all(value > 0 for value in free.values()):
                found.append(Offer(name, free))
        return sorted(found, key=lambda one: (-_share(one.free, nodes[one.node].has), one.node))

    def gives_way(self, now: float, nodes: Mapping[str, Node], fillers: Iterable[Filler]) -> list[Charge]:
        """Who goes, the youngest first: what others use has come nearer than half of the margin."""
        chosen: list[Charge] = []
        for name, mine in _by_node(fillers).items():
            others, node = self._known(name, now), nodes.get(name)
            if others is None or node is None:
                continue
            staying = [one for one in mine if not one.going]
            lacking = {
                each: -value
                for each, value in self._free(node, others.least, staying, self._margin / 2).items()
                if value < 0
            }
            gone = [one.charge for one in self._fewest(staying, lacking)]
            if gone:
                self.left(name, now)
            chosen += gone
        return chosen

    def _fewest(self, staying: Sequence[Filler], lacking: Mapping[str, int]) -> list[Filler]:
        """The youngest that give back what is lacking, without those of them that it does not take."""
        lacking, gone = dict(lacking), []
        # Of tries that started in one second the one that was charged last goes first.
        for one in sorted(staying, key=lambda each: each.started or "~")[::-1]:
            if all(value <= 0 for value in lacking.values()):
                break
            has = self._has(one)
            if any(has[name] for name, value in lacking.items() if value > 0):
                gone.append(one)
                lacking = {name: value - has[name] for name, value in lacking.items()}
        for one in gone[::-1]:
            has = self._has(one)
            if all(value + has[name] <= 0 for name, value in lacking.items()):
                gone.remove(one)
                lacking = {name: value + has[name] for name, value in lacking.items()}
        return gone

    def _known(self, name: str, now: float) -> Others | None:
        others = self._others.get(name)
        return others if others is not None and now - others.at <= self._stale else None

    def _has(self, one: Filler) -> Free:
        """What it asks for, or what it uses, where that is more."""
        asked, used = dict(one.requests), self._uses.get(one.pod, {})
        return {PODS: 1, **{each: max(asked.get(each, 0), used.get(each, 0)) for each in FILLED}}

    @staticmethod
    def _limits(node: Node, margin: float) -> Free:
        return {each: int(node.has.get(each, 0) * (1 - margin)) for each in (*FILLED, PODS)}

    def _free(self, node: Node, used: Used, fillers: Iterable[Filler], margin: float) -> Free:
        free = self._limits(node, margin)
        free[PODS] -= node.pods
        for each in FILLED:
            free[each] -= used[each] + node.arriving.get(each, 0)
        for one in fillers:
            for each, value in self._has(one).items():
                free[each] -= value
        return free


def _by_node(fillers: Iterable[Filler]) -> dict[str, list[Filler]]:
    found: dict[str, list[Filler]] = {}
    for one in fillers:
        found.setdefault(one.node, []).append(one)
    return found


def _sum(parts: Iterable[Used], name: str) -> int:
    return sum(part.get(name, 0) for part in parts)


def _share(free: Used, has: Used) -> float:
    return min(free[each] / has[each] if has.get(each) else 0.0 for each in FILLED)
