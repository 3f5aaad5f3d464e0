# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many pods of each node are meant by something, and what that adds up to per domain: kept up to date pod by pod.

Owned by the tally and by the terms of pods; plugins hold on to what they were given for as long as it is `alive`, and
no node object changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Callable, Generic, TypeVar

from ..model.labels import IN, LabelSelector
from .columns import IntColumn, np

Thing = TypeVar("Thing")
ANY_LABEL = ("", "")


class DomainSums:
    """Sums per domain. `ids`: of each row its domain, `size` where it counts for none; that last sum stays 0."""

    def __init__(self, ids: IntColumn, size: int, column: IntColumn) -> None:
        self._ids, self._size = ids, size
        self.sums: IntColumn = np.bincount(ids, column, size + 1).astype(np.int64)
        self.sums[-1] = 0
        self.version = 0
        """Grows when a sum becomes another."""

    def add(self, row: int, sign: int) -> None:
        """Count one pod more (sign 1) or less (sign -1) on a row."""
        domain = self._ids.item(row)
        if domain != self._size:
            self.sums[domain] += sign
            self.version += 1


class Counts:
    """A column of numbers of pods. `alive` False: it is not kept up to date any more."""

    def __init__(self, column: IntColumn) -> None:
        self.column = column
        self.alive = True
        self.version = 0
        self._domains: dict[Hashable, DomainSums] = {}

    def add(self, row: int, sign: int) -> None:
        """Count one pod more (sign 1) or less (sign -1) on a row."""
        self.column[row] += sign
        self.version += 1
        for one in self._domains.values():
            one.add(row, sign)

    def by(self, key: Hashable, domains: Callable[[], tuple[IntColumn, int]]) -> DomainSums:
        """Return the sums per domain. `domains`: the domain of each row and their number, asked once for a key."""
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = DomainSums(*domains(), self.column)
        return found

    def forget_domains(self) -> None:
        """Add up anew when somebody asks: labels or taints of nodes have changed."""
        self._domains.clear()


class ByLabel(Generic[Thing]):
    """Things that speak of pods through a selector: a pod meets only those that ask for one of its labels."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], dict[Hashable, Thing]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def put(self, selector: LabelSelector | None, key: Hashable, thing: Thing) -> None:
        """Add a thing."""
        for label in asked_labels(selector):
            self._of.setdefault(label, {})[key] = thing

    def drop(self, selector: LabelSelector | None, key: Hashable) -> None:
        """Take a thing out."""
        for label in asked_labels(selector):
            listed = self._of[label]
            del listed[key]
            if not listed:
                del self._of[label]

    def about(self, labels: Mapping[str, str]) -> Iterator[Thing]:
        """Return what may speak of a pod with these labels, each once."""
        for label in (ANY_LABEL, *labels.items()):
            yield from self._of.get(label, {}).values()


def asked_labels(selector: LabelSelector | None) -> list[tuple[str, str]]:
    """Return the labels of which a selected pod must have one; any, where the selector asks for none in particular."""
    for one in selector.requirements if selector else ():
        if one.operator == IN:
            return [(one.key, value) for value in one.values]
    return [ANY_LABEL]
