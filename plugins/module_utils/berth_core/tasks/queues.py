# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TaskQueues as values, and what the queues of one namespace lend each other.

A queue's ceiling is its own. With a borrowing limit it may have so much more of what the other queues of its namespace
leave unused, less what these keep for themselves (lending limit). What is lent comes back as tasks end, and nothing
more of it is lent while its owner waits. Where no queue of a namespace borrows, queues know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..errors import InputError
from ..model.fields import Object, boolean, integer, mapping, metadata, string
from ..model.names import shown
from ..model.pod import Amounts
from ..model.requests import amount, resource_list

QueueKey = tuple[str, str]
#: What becomes of tasks that have what a queue lent, while its own wait: nothing, or the youngest of them are killed.
NEVER, ANY = "Never", "Any"
RECLAIM = (NEVER, ANY)
#: Why none of a queue starts.
INVALID, UNKNOWN_POLICY = "InvalidQueue", "UnknownPolicy"
#: The condition of a TaskQueue.
ACTIVE = "Active"
LONGEST_MESSAGE = 1024
#: Why a task waits: its queue has all that it may have; others have what is its own; others leave too little.
CEILING, LENT, NOTHING_TO_BORROW = "Ceiling", "Lent", "NothingToBorrow"


@dataclass(frozen=True)
class Queue:
    """`ceiling`: what its tasks may have at one time; `borrowing`: so much beyond it; `lending`: the most it lends.

    `policy` empty: that of the daemon. `filler`: its tasks run in what others reserved and do not use (filler.py).
    `fault`: why nothing of it is given, as reason and message.
    """

    name: str
    share: int = 1
    priority: int = 0
    ceiling: Mapping[str, int] = field(default_factory=dict)
    borrowing: Mapping[str, int] = field(default_factory=dict)
    lending: Mapping[str, int] = field(default_factory=dict)
    reclaim: bool = False
    policy: str = ""
    filler: bool = False
    fault: tuple[str, str] = ("", "")

    def keeps(self, resource: str) -> int:
        """What it never lends."""
        own = self.ceiling.get(resource, 0)
        return max(0, own - self.lending.get(resource, own))


def read_queue(obj: Object) -> Queue:
    """A TaskQueue of the API. Raises InputError that names the object and the field."""
    namespace, name = metadata(obj, "TaskQueue")
    where = f"TaskQueue {namespace}/{name}"
    spec = mapping(obj, "spec", f"{where}: spec")
    share = integer(spec, "share", f"{where}: spec.share", 1)
    if share < 1:
        raise InputError(f"{where}: spec.share is {share}: expected 1 or more")
    ceiling = _limits(spec, "ceiling", where)
    borrowing, lending = (_limits(spec, key, where) for key in ("borrowingLimit", "lendingLimit"))
    for key, limits in (("borrowingLimit", borrowing), ("lendingLimit", lending)):
        alone = sorted(limits.keys() - ceiling.keys())
        if alone:
            raise InputError(f"{where}: spec.{key}.{alone[0]} is without spec.ceiling.{alone[0]}: say what is its own")
    reclaim = string(spec, "reclaim", f"{where}: spec.reclaim", NEVER)
    if reclaim not in RECLAIM:
        raise InputError(f"{where}: spec.reclaim is {shown(reclaim)}: expected one of {', '.join(RECLAIM)}")
    priority = integer(spec, "priority", f"{where}: spec.priority")
    policy = string(spec, "policy", f"{where}: spec.policy")
    filler = boolean(spec, "filler", f"{where}: spec.filler")
    queue = Queue(name, share, priority, ceiling, borrowing, lending, reclaim == ANY, policy, filler)
    entitled = _entitled(queue)
    if queue.filler and entitled:
        raise InputError(
            f"{where}: spec.filler is true and spec.{entitled} is there: filler work is entitled to nothing, and lends"
            f" nothing; leave spec.{entitled} out"
        )
    return queue


def _entitled(queue: Queue) -> str:
    """The field by which a queue claims more than what is left over; empty where there is none."""
    claims = (
        ("share", queue.share != 1),
        ("borrowingLimit", queue.borrowing),
        ("lendingLimit", queue.lending),
        ("reclaim", queue.reclaim),
    )
    return next((name for name, claimed in claims if claimed), "")


def examined(obj: Object, policies: Iterable[str]) -> Queue:
    """A TaskQueue as it is carried out: one that cannot be says why (`fault`). `policies`: those that are known."""
    namespace, name = metadata(obj, "TaskQueue")
    try:
        queue = read_queue(obj)
    except InputError as exc:
        return Queue(name, fault=(INVALID, exc.message))
    known = sorted(policies)
    if not queue.policy or queue.policy in known:
        return queue
    words = f"TaskQueue {namespace}/{name}: spec.policy is {shown(queue.policy)}: expected one of {', '.join(known)}"
    return replace(queue, fault=(UNKNOWN_POLICY, words))


def condition(queue: Queue) -> dict[str, str]:
    """What its status says of it: whether its tasks are started."""
    if queue.fault[0]:
        return {
            "type": ACTIVE,
            "status": "False",
            "reason": queue.fault[0],
            "message": queue.fault[1][:LONGEST_MESSAGE],
        }
    words = "its tasks run in what others do not use" if queue.filler else "its tasks are started as they fit"
    return {"type": ACTIVE, "status": "True", "reason": "Ready", "message": words}


def _limits(spec: Object, key: str, where: str) -> dict[str, int]:
    listed = resource_list(spec, key, f"{where}: spec.{key}")
    wrong = sorted(name for name, value in listed.items() if value < 0)
    if wrong:
        raise InputError(f"{where}: spec.{key}.{wrong[0]} is below 0: expected 0 or more")
    return {name: amount(name, value) for name, value in listed.items()}


class Cohort:
    """The queues of one namespace and what each has, while it is decided who gets what. `take` and `give` change it."""

    def __init__(self, queues: Iterable[Queue], used: Mapping[str, Mapping[str, int]]) -> None:
        self._queues = {queue.name: queue for queue in queues}
        self._used = {name: dict(amounts) for name, amounts in used.items()}
        self._owed: dict[str, int] = {}
        lent = {name for queue in self._queues.values() for name, most in queue.borrowing.items() if most}
        #: What is left of all that the queues lend, by resource that one of them may borrow.
        self._left = {name: self._left_of(name) for name in lent}

    def _left_of(self, resource: str) -> int:
        own = [queue for queue in self._queues.values() if resource in queue.ceiling]
        return sum(
            queue.ceiling[resource]
            - queue.keeps(resource)
            - self._needs(queue, resource, 0, self._has(queue, resource))
            for queue in own
        )

    def copy(self) -> Cohort:
        """Another one, to be changed without this one."""
        made = Cohort((), self._used)
        made._queues, made._left, made._owed = self._queues, dict(self._left), dict(self._owed)
        return made

    def used(self, queue: str) -> Mapping[str, int]:
        """What the tasks of a queue have."""
        return self._used.get(queue, {})

    def borrows(self, queue: str, requests: Amounts = ()) -> set[str]:
        """The resources of which the queue has more than its own, or would have with these requests."""
        one, wanted = self._queue(queue), dict(requests)
        return {
            name
            for name, own in one.ceiling.items()
            if self._has(one, name) + wanted.get(name, 0) > own and (wanted.get(name) or not requests)
        }

    def obstacle(self, queue: str, requests: Amounts) -> tuple[str, str]:
        """Why the queue may not have these now: reason and words; empty where it may."""
        one = self._queue(queue)
        for name, value in requests:
            if name in one.ceiling and value:
                found = self._obstacle(one, name, value)
                if found[0]:
                    return found
        return "", ""

    def _obstacle(self, queue: Queue, name: str, value: int) -> tuple[str, str]:
        own, has, more = queue.ceiling[name], self._has(queue, name), queue.borrowing.get(name, 0)
        figures = f"TaskQueue {queue.name}: ceiling of {name} is {own}, used {has}, asked for {value}"
        if has + value > own + more:
            return CEILING, figures + (f", borrowing limit {more}" if more else "")
        left, needs = self._left.get(name), self._needs(queue, name, has, value)
        if left is None:
            return "", ""
        if has + value > own:
            left = max(0, left - self._owed.get(name, 0))
            return (NOTHING_TO_BORROW, f"{figures}, and {left} is left to borrow") if needs > left else ("", "")
        if needs > left:
            borrowers = ", ".join(each for each in sorted(self._queues) if name in self.borrows(each))
            return LENT, f"{figures}, and {borrowers} has borrowed it: it comes back as tasks end"
        return "", ""

    def never(self, queue: str, requests: Amounts) -> str:
        """Why the queue could not have these even if nobody had anything; empty where it could."""
        one = self._queue(queue)
        for name, value in requests:
            if name in one.ceiling and value > self._most(one, name):
                return f"asks for {name} {value}, and TaskQueue {queue} may have {self._most(one, name)}"
        return ""

    def _most(self, queue: Queue, resource: str) -> int:
        others = (each for each in self._queues.values() if each is not queue and resource in each.ceiling)
        lent = sum(each.ceiling[resource] - each.keeps(resource) for each in others)
        return queue.ceiling[resource] + min(queue.borrowing.get(resource, 0), lent)

    def take(self, queue: str, requests: Amounts, sign: int = 1) -> None:
        """The queue has these from now on; with `sign` -1: no longer."""
        one, used = self._queue(queue), self._used.setdefault(queue, {})
        for name, value in requests:
            if name in self._left and name in one.ceiling:
                self._left[name] -= self._needs(one, name, used.get(name, 0), sign * value)
            used[name] = used.get(name, 0) + sign * value

    def owe(self, queue: str, requests: Amounts) -> None:
        """The queue waits for these of its own: until it has them they are lent to nobody."""
        one = self._queue(queue)
        for name, value in requests:
            if name in self._left and name in one.ceiling:
                self._owed[name] = self._owed.get(name, 0) + self._needs(one, name, self._has(one, name), value)

    def _queue(self, name: str) -> Queue:
        return self._queues.get(name) or Queue(name)

    def _has(self, queue: Queue, resource: str) -> int:
        return self.used(queue.name).get(resource, 0)

    @staticmethod
    def _needs(queue: Queue, resource: str, has: int, value: int) -> int:
        """How much of what queues lend each other it takes to have so much more: what it keeps is no part of that."""
        keeps = queue.keeps(resource)
        return max(0, has + value - keeps) - max(0, has - keeps)
