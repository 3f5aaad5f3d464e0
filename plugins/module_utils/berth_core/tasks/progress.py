# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the elements of a TaskBatch are: which may start, what is recorded of them, and what that makes of the batch.

Records lie in TaskBatchShards, each of which tells of so many elements, as ranges of indexes: most elements of a batch
end alike, so a shard is short. Nothing here waits or writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..model.fields import Object, integer, mapping, objects, string
from . import indexes, states
from .batch import IN_SHARD, Batch
from .task import LARGEST_GANG, Status

#: Elements of one batch that wait for their turn beside those that have a pod: each costs memory and time.
WINDOW = LARGEST_GANG
#: What a shard tells of failures with their words: the last so many.
MOST_TOLD = 20
#: Reasons that the batch itself tells.
MOST_REASONS = 32
NOTHING = Status()


class Record(NamedTuple):
    """What is known of an element whose tries have begun to end. `exit_code` None: no container told of one."""

    state: str
    reason: str = ""
    tries: int = 0
    failures: int = 0
    exit_code: int | None = None

    @property
    def final(self) -> bool:
        return self.state in states.FINAL

    def status(self) -> Status:
        """The same as a task's status."""
        return Status(self.state, self.tries, self.failures, self.reason)


class Told(NamedTuple):
    """The words of a failure, for people."""

    element: int
    pod: str
    node: str
    message: str
    log: str


class Progress:
    """The records of one batch. Made from its shards by `read`, then changed by `put`."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.records: dict[int, Record] = {}
        self.told: dict[int, deque[Told]] = {}
        self.counts = dict.fromkeys(states.FINAL, 0)
        self._open: dict[int, None] = {}
        self._begun: set[int] = set()
        self._next = 0
        self._needed_by: dict[int, list[int]] = {}
        self._missing: dict[int, int] = {}
        self._free: deque[int] = deque()
        for index, item in enumerate(batch.items):
            self._missing[index] = len(item.needs)
            for need in item.needs:
                self._needed_by.setdefault(need, []).append(index)
            if not item.needs:
                self._free.append(index)

    # -- what may start --------------------------------------------------------------------------------------------

    def status(self, index: int) -> Status:
        """The status of an element."""
        found = self.records.get(index)
        return found.status() if found is not None else NOTHING

    @property
    def opened(self) -> Collection[int]:
        """Elements that are not final and may start or have started."""
        return self._open.keys()

    def begin(self, index: int) -> None:
        """The element has a pod: another one may wait in its place."""
        if not self._ended(index):
            self._open[index] = None
            self._begun.add(index)

    def open(self) -> list[int]:
        """Let more elements start, as many as `parallelism` and the window allow; none in a batch that stops.

        Returns these.
        """
        most = 0 if self.stops() else min(self.batch.parallelism or self.batch.size, WINDOW + len(self._begun))
        found: list[int] = []
        while len(self._open) < most:
            index = self._following()
            if index is None:
                break
            self._open[index] = None
            found.append(index)
        return found

    def _following(self) -> int | None:
        while self._free:
            index = self._free.popleft()
            if self._may_open(index):
                return index
        while not self.batch.items and self._next < self.batch.size:
            self._next += 1
            if self._may_open(self._next - 1):
                return self._next - 1
        return None

    def _may_open(self, index: int) -> bool:
        return index not in self._open and not self._ended(index)

    def _ended(self, index: int) -> bool:
        found = self.records.get(index)
        return found is not None and found.final

    # -- what is recorded ------------------------------------------------------------------------------------------

    def put(self, index: int, record: Record, told: Told | None = None) -> dict[int, Record]:
        """Record it. Returns what is to be recorded of others, too: of those that needed one that failed."""
        old = self.records.get(index)
        if old is not None and old.final:
            return {}
        self.records[index] = record
        self._begun.discard(index)
        if told is not None:
            self.told.setdefault(index // IN_SHARD, deque(maxlen=MOST_TOLD)).append(told)
        if not record.final:
            return {}
        self._open.pop(index, None)
        self.counts[record.state] += 1
        return self._after(index, record.state == states.SUCCEEDED)

    def _after(self, index: int, succeeded: bool) -> dict[int, Record]:
        found: dict[int, Record] = {}
        for waiting in self._needed_by.get(index, ()):
            if succeeded:
                self._missing[waiting] -= 1
                if not self._missing[waiting]:
                    self._free.append(waiting)
            elif not self._ended(waiting):
                found[waiting] = Record(states.FAILED, "NeedFailed")
        return found

    # -- what it makes of the batch --------------------------------------------------------------------------------

    @property
    def ended(self) -> int:
        return sum(self.counts.values())

    def stops(self) -> str:
        """Why nothing more is started, and what runs is killed; empty where it goes on."""
        if self.batch.kill:
            return "Killed"
        most = self.batch.max_failures
        return "TooManyFailures" if most is not None and self.counts[states.FAILED] > most else ""

    def state(self, running: bool) -> str:
        """The state of the batch. `running`: a pod of it is there."""
        if self.ended < self.batch.size:
            return states.RUNNING if running or self.records else states.SUBMITTED
        if self.counts[states.FAILED]:
            return states.FAILED
        return states.KILLED if self.counts[states.KILLED] else states.SUCCEEDED

    def reasons(self) -> list[dict[str, Any]]:
        """Failures by reason and exit code, the most frequent first, with an example."""
        found: dict[tuple[str, int | None], list[int]] = {}
        for index, record in self.records.items():
            if record.state == states.FAILED:
                found.setdefault((record.reason, record.exit_code), []).append(index)
        rows = sorted(found.items(), key=lambda row: (-len(row[1]), str(row[0])))[:MOST_REASONS]
        return [
            {
                "reason": reason,
                **({} if code is None else {"exitCode": code}),
                "count": len(which),
                "example": self.name_of(min(which)),
            }
            for (reason, code), which in rows
        ]

    def name_of(self, index: int) -> str:
        """What people call an element."""
        return self.batch.items[index].name if self.batch.items else str(index)

    # -- shards ----------------------------------------------------------------------------------------------------

    def shard(self, number: int, more: Mapping[int, Record] | None = None, told: Iterable[Told] = ()) -> dict[str, Any]:
        """What the shard of that number tells, with what is about to be recorded."""
        first = number * IN_SHARD
        groups: dict[Record, list[int]] = {}
        for index in range(first, min(first + IN_SHARD, self.batch.size)):
            record = (more or {}).get(index) or self.records.get(index)
            if record is not None:
                groups.setdefault(record, []).append(index)
        words = [*self.told.get(number, ()), *told][-MOST_TOLD:]
        return {
            "batch": self.batch.name,
            "number": number,
            "records": [_row(record, which) for record, which in sorted(groups.items(), key=lambda row: row[1][0])],
            "told": [{key: value for key, value in each._asdict().items() if value != ""} for each in words],
        }

    def read(self, shard: Object) -> None:
        """Take over what a shard tells. Raises InputError for what no backend has written."""
        where = f"TaskBatchShard {mapping(shard, 'metadata').get('name')}"
        number = integer(shard, "number", f"{where}: number")
        for index, record in _rows(shard, where, self.batch.size):
            self.put(index, record)
        for one in objects(shard, "told", f"{where}: told"):
            words = [string(one, field, f"{where}: told.{field}") for field in ("pod", "node", "message", "log")]
            told = Told(integer(one, "element", f"{where}: told.element"), *words)
            self.told.setdefault(number, deque(maxlen=MOST_TOLD)).append(told)


def _row(record: Record, which: Iterable[int]) -> dict[str, Any]:
    row = {
        "state": record.state,
        "reason": record.reason,
        "tries": record.tries,
        "failures": record.failures,
        "exitCode": record.exit_code,
    }
    return {**{key: value for key, value in row.items() if value not in ("", None)}, "indexes": indexes.to_text(which)}


def _rows(shard: Object, where: str, size: int) -> Iterator[tuple[int, Record]]:
    for row in objects(shard, "records", f"{where}: records"):
        record = Record(
            string(row, "state", f"{where}: records.state"),
            string(row, "reason", f"{where}: records.reason"),
            integer(row, "tries", f"{where}: records.tries"),
            integer(row, "failures", f"{where}: records.failures"),
            integer(row, "exitCode", f"{where}: records.exitCode") if row.get("exitCode") is not None else None,
        )
        text = string(row, "indexes", f"{where}: records.indexes")
        for index in indexes.from_text(text, f"{where}: records.indexes", size):
            yield index, record
