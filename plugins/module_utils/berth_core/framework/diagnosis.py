# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a request did or did not fit: per node, per disk, per device, as data and as words.

Made by framework/cycle.py, shown by front ends. The first sentence of the message is kube-scheduler's own, to the
letter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..cluster.columns import IntColumn
from .contract import Code, ObjectVerdict, Status

MAX_NAMED = 4
"""Names given for one reason before the rest is only counted: a message must stay readable with 5,000 disks."""
MAX_HINTS = 8
"""Ways out that are told; the cheapest stand first."""


@dataclass(frozen=True)
class NodeVerdict:
    """What the first refusing plugin said of a node. `resolvable`: something could leave the node and make it fit."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool


class RowNames:
    """The names of some rows of the node table as it is now: most often they are only counted."""

    def __init__(self, rows: IntColumn, names: list[str]) -> None:
        self.rows, self._names = rows, names.copy()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        names = self._names
        return (names[row] for row in self.rows.tolist())


@dataclass(frozen=True)
class Refusal:
    """Rows that one plugin refused for the same reasons. `narrowed`: by its PreFilter, which wants other nodes."""

    plugin: str
    status: Status
    nodes: RowNames
    narrowed: bool = False


@dataclass(frozen=True)
class Fix:
    """What would make one node fit, one phrase per plugin that refuses it, with {node} in the place of its name."""

    node: str
    phrases: tuple[str, ...]


@dataclass(frozen=True)
class Diagnosis:
    """The whole answer to "why".

    `rejected`: what a PreFilter said of the request as a whole, "" if none did; `rejected_by`: its plugin's name.
    """

    total: int
    refusals: tuple[Refusal, ...] = ()
    rejected: str = ""
    objects: tuple[ObjectVerdict, ...] = ()
    fixes: tuple[Fix, ...] = ()
    rejected_by: str = ""

    @property
    def nodes(self) -> Mapping[str, NodeVerdict]:
        """Return the verdict on each refused node."""
        return {
            node: NodeVerdict(one.plugin, one.status.reasons, one.status.code == Code.UNSCHEDULABLE)
            for one in self.refusals
            for node in one.nodes
        }

    @property
    def disks(self) -> tuple[ObjectVerdict, ...]:
        """Return the verdict on each disk, per claim."""
        return tuple(one for one in self.objects if one.kind == "LocalDisk")

    @property
    def devices(self) -> tuple[ObjectVerdict, ...]:
        """Return the verdict on each device, per claim."""
        return tuple(one for one in self.objects if one.kind == "LocalDevice")

    def summary(self) -> str:
        """Return kube-scheduler's sentence: 0/N nodes are available, with the reasons counted and sorted."""
        text = f"0/{self.total} nodes are available:"
        if self.rejected:
            return f"{text} {self.rejected}."
        reasons: Counter[str] = Counter()
        for one in self.refusals:
            for reason in one.status.reasons:
                reasons[reason] += len(one.nodes)
        counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"{text} {', '.join(counted)}." if counted else text

    def message(self) -> str:
        """Return the summary, then the disks and devices grouped by reason, then what would make it fit."""
        parts = [self.summary(), *_grouped("local disks", self.disks), *_grouped("local devices", self.devices)]
        hints = self.hints()
        if hints:
            parts.append(f"It would fit with: {'; or '.join(hints)}.")
        return " ".join(parts)

    def hints(self) -> tuple[str, ...]:
        """Return what would make it fit, the fewest changes first; nodes that need the same share one hint."""
        nodes: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for fix in self.fixes:
            nodes[fix.phrases].append(fix.node)
        ordered = sorted(nodes.items(), key=lambda item: (len(item[0]), min(item[1]), item[0]))
        return tuple(_hint(phrases, _listed(sorted(where), " or ")) for phrases, where in ordered[:MAX_HINTS])


def _hint(phrases: tuple[str, ...], where: str) -> str:
    return " and ".join(phrase.replace("{node}", where) for phrase in phrases)


def _grouped(what: str, verdicts: Iterable[ObjectVerdict]) -> list[str]:
    """Return one sentence per claim: how many fit, and the others by reason."""
    claims: dict[str, dict[str, list[ObjectVerdict]]] = defaultdict(lambda: defaultdict(list))
    for one in verdicts:
        claims[one.claim]["fit" if one.fits else one.reason].append(one)
    sentences = []
    for claim, reasons in sorted(claims.items()):
        groups = [
            f"{len(listed)} {reason} ({_listed([_named(one) for one in listed])})"
            for reason, listed in sorted(reasons.items())
        ]
        sentences.append(f"{what} for claim {claim}: {', '.join(groups)}.")
    return sentences


def _named(verdict: ObjectVerdict) -> str:
    return f"{verdict.name} {verdict.detail}".strip()


def _listed(names: list[str], last: str = ", ") -> str:
    if len(names) > MAX_NAMED:
        return f"{', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more"
    return ", ".join(names[:-1]) + (last if len(names) > 1 else "") + names[-1] if names else ""
