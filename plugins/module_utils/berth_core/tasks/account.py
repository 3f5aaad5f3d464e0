# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tasks have been given: each try's cpu, memory and devices, charged once and given back once.

A charge is known by the task's uid and the number of the try. To give back what is not charged changes nothing, so that
events may come twice, late, and from two sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import lru_cache
from typing import Callable, NamedTuple, TypeVar

from ..model.pod import Amounts
from .snapshot import Difference

Charge = tuple[str, int]
V = TypeVar("V")


class Entry(NamedTuple):
    """One try's resources, and the queue from which they were given. `filler`: no node reserves them."""

    queue: str
    requests: Amounts
    filler: bool = False


class ByCharge(MutableMapping[Charge, V]):
    """There are very many charges and few numbers of tries: it has a table of uids for each number, and keeps no pair.

    First tries come first, those of one number in the order in which they came.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, dict[str, V]] = {}

    def __getitem__(self, charge: Charge) -> V:
        uid, number = charge
        return self._numbers[number][uid]

    def __setitem__(self, charge: Charge, value: V) -> None:
        uid, number = charge
        self._numbers.setdefault(number, {})[uid] = value

    def __delitem__(self, charge: Charge) -> None:
        uid, number = charge
        table = self._numbers[number]
        del table[uid]
        if not table:
            del self._numbers[number]

    def __iter__(self) -> Iterator[Charge]:
        for number, table in sorted(self._numbers.items()):
            for uid in table:
                yield uid, number

    def __len__(self) -> int:
        return sum(map(len, self._numbers.values()))


class Account:
    """The sums by queue. Not for threads."""

    def __init__(self) -> None:
        self._entries: ByCharge[Entry] = ByCharge()
        self._sums: dict[str, dict[str, int]] = {}
        #: Called with what is taken, or given back.
        self.changed: Callable[[Charge], None] = lambda _key: None

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def entries(self) -> Mapping[Charge, Entry]:
        """Everything that is taken."""
        return dict(self._entries)

    def charge(self, key: Charge, queue: str, requests: Amounts, filler: bool = False) -> bool:
        """Take the resources; False where they are taken already."""
        if key in self._entries:
            return False
        self._entries[key] = _entry(queue, requests, filler)
        self._count(queue, requests, 1)
        self.changed(key)
        return True

    def give_back(self, key: Charge) -> bool:
        """Give the resources back; False where they are not taken."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._count(entry.queue, entry.requests, -1)
        self.changed(key)
        return True

    def entry(self, key: Charge) -> Entry | None:
        """What is taken under that key; None where nothing is."""
        return self._entries.get(key)

    def follow(self, changes: Iterable[Difference], queue_of: Callable[[str], str]) -> list[Charge]:
        """What became of pods: those that ended or went give back, others are charged.

        `queue_of`: the queue of a task, by its uid. Returns the charges that were given back.
        """
        back = []
        for old, new in changes:
            pod = new if new is not None else old
            if pod is None:
                continue
            if new is None or new.over:
                if self.give_back(pod.charge):
                    back.append(pod.charge)
            else:
                self.charge(pod.charge, queue_of(pod.task_uid), pod.requests, pod.filler)
        return back

    def queues(self) -> list[str]:
        """Those from which something is taken."""
        return sorted(self._sums)

    def used(self, queue: str) -> Mapping[str, int]:
        """The sums of one queue, by resource; without what is 0."""
        return dict(self._sums.get(queue, {}))

    def total(self) -> dict[str, int]:
        """The sums of all queues."""
        found: dict[str, int] = {}
        for sums in self._sums.values():
            for name, value in sums.items():
                found[name] = found.get(name, 0) + value
        return found

    def _count(self, queue: str, requests: Amounts, sign: int) -> None:
        sums = self._sums.setdefault(queue, {})
        for name, value in requests:
            sums[name] = sums.get(name, 0) + sign * value
            if not sums[name]:
                del sums[name]
        if not sums:
            del self._sums[queue]


@lru_cache(maxsize=1024)
def _entry(queue: str, requests: Amounts, filler: bool) -> Entry:
    """Very many tries have the same."""
    return Entry(queue, requests, filler)
