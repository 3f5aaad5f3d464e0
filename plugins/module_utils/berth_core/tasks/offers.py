# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tasks may use now: offers, one a node, and which waiting tasks get them, by queue.

A queue has a share and perhaps a ceiling and a priority. The policy `fair` gives to the queue that has least of what
its share entitles it to (dominant resource fairness); `priority` gives to the queue of the highest priority first, and
is fair between equals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Callable, NamedTuple, Protocol

from ..errors import InputError
from ..model.fields import Object, integer, mapping, metadata
from ..model.pod import Amounts
from ..model.requests import PODS, amount, resource_list
from .task import DEFAULT_QUEUE

Free = dict[str, int]


class Offer(NamedTuple):
    """What is free on one node."""

    node: str
    free: Free


@dataclass(frozen=True)
class Queue:
    """`ceiling`: the most of each resource that its tasks have at one time."""

    name: str
    share: int = 1
    priority: int = 0
    ceiling: Mapping[str, int] = field(default_factory=dict)


class Wants(Protocol):
    """What waits in a queue: a Task, or a TaskOffer, which is room for one."""

    @property
    def key(self) -> tuple[str, str]: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def created(self) -> str: ...

    @property
    def requests(self) -> Amounts: ...


class Verdict(NamedTuple):
    """`admitted`: in the order in which they are to be started, and on which node there is room for each.

    `waiting`: reason and message of each of the others, by their key.
    """

    admitted: list[tuple[Wants, str]]
    waiting: dict[tuple[str, str], tuple[str, str]]


def read_queue(obj: Object) -> Queue:
    """A TaskQueue of the API. Raises InputError that names the object and the field."""
    namespace, name = metadata(obj, "TaskQueue")
    where = f"TaskQueue {namespace}/{name}"
    spec = mapping(obj, "spec", f"{where}: spec")
    share = integer(spec, "share", f"{where}: spec.share", 1)
    ceiling = resource_list(spec, "ceiling", f"{where}: spec.ceiling")
    wrong = sorted(key for key, value in ceiling.items() if value < 0)
    if share < 1 or wrong:
        what = (
            f"ceiling.{wrong[0]} is below 0: expected 0 or more" if wrong else f"share is {share}: expected 1 or more"
        )
        raise InputError(f"{where}: spec.{what}")
    limits = {key: amount(key, value) for key, value in ceiling.items()}
    return Queue(name, share, integer(spec, "priority", f"{where}: spec.priority"), limits)


def subtract(offers: Sequence[Offer], requests: Amounts) -> str:
    """Take one pod's amount from the first offer that has room for it, and name its node; empty where none has."""
    for offer in offers:
        if fits(requests, offer.free):
            take(offer.free, requests)
            return offer.node
    return ""


def take(free: Free, requests: Amounts) -> None:
    """Take one pod's amount."""
    free[PODS] = free.get(PODS, 0) - 1
    for name, value in requests:
        free[name] = free.get(name, 0) - value


def fits(requests: Amounts, free: Mapping[str, int]) -> bool:
    """Whether a pod has room in what is free."""
    return free.get(PODS, 0) >= 1 and all(value <= free.get(name, 0) for name, value in requests if value)


def never_fits(requests: Amounts, nodes: Mapping[str, Mapping[str, int]]) -> str:
    """Why no node could take it even if it were empty: which resource, and the largest node; empty where one could."""
    if not nodes or any(fits(requests, whole) for whole in nodes.values()):
        return ""
    for name, value in requests:
        node, most = max(((node, whole.get(name, 0)) for node, whole in nodes.items()), key=lambda one: one[1])
        if value > most:
            return f"asks for {name} {value}, and the largest node ({node}) has {most}"
    return "no single node has all that it asks for"


def fair(queue: Queue, used: Mapping[str, int], whole: Mapping[str, int]) -> tuple[object, ...]:
    """The queue with the least of these is next: its dominant share of the cluster, by what it is entitled to."""
    shares = [Fraction(value, whole[name]) for name, value in used.items() if whole.get(name)]
    return (max(shares, default=Fraction(0)) / queue.share, queue.name)


def priority(queue: Queue, used: Mapping[str, int], whole: Mapping[str, int]) -> tuple[object, ...]:
    """The highest priority first, fair between equals."""
    return (-queue.priority, *fair(queue, used, whole))


Policy = Callable[[Queue, Mapping[str, int], Mapping[str, int]], tuple[object, ...]]
POLICIES: Mapping[str, Policy] = {"fair": fair, "priority": priority}


def admit(
    tasks: Iterable[Wants],
    queues: Mapping[tuple[str, str], Queue],
    used: Mapping[str, Mapping[str, int]],
    nodes: Mapping[str, Mapping[str, int]],
    offers: Sequence[Offer],
    policy: Policy = fair,
) -> Verdict:
    """Who starts now. `queues` and `used` by namespace and name (`used` joined by /); `nodes`: what each has in all.

    What is given is taken from `offers`. The first task of a queue that finds no room holds up those behind it, so that
    a large one is not starved.
    """
    lines, waiting = _lines(tasks, queues)
    usage = {key: dict(used.get("/".join(key), {})) for key in lines}
    whole = _sum(nodes.values())
    admitted: list[tuple[Wants, str]] = []
    while lines:
        key = min(lines, key=lambda one: (policy(_queue(queues, one), usage[one], whole), one))
        task = lines[key][0]
        reason, words = _obstacle(task, _queue(queues, key), usage[key], nodes)
        node = "" if reason else subtract(offers, task.requests)
        if not node:
            waiting[task.key] = (reason or "NoRoom", words or "no node has enough free now")
            lines[key] = lines[key][1:] if reason == "NeverFits" else []
        else:
            del lines[key][0]
            admitted.append((task, node))
            for name, value in task.requests:
                usage[key][name] = usage[key].get(name, 0) + value
        if not lines[key]:
            del lines[key]
    return Verdict(admitted, waiting)


def _lines(
    tasks: Iterable[Wants], queues: Mapping[tuple[str, str], Queue]
) -> tuple[dict[tuple[str, str], list[Wants]], dict[tuple[str, str], tuple[str, str]]]:
    """The tasks of each queue, the next one first; and those whose queue is not there."""
    lines: dict[tuple[str, str], list[Wants]] = {}
    waiting: dict[tuple[str, str], tuple[str, str]] = {}
    for task in sorted(tasks, key=lambda one: (-one.priority, one.created, one.namespace, one.name)):
        key = (task.namespace, task.queue)
        if key not in queues and task.queue != DEFAULT_QUEUE:
            waiting[task.key] = ("UnknownQueue", f"there is no TaskQueue {task.namespace}/{task.queue}: create it")
        else:
            lines.setdefault(key, []).append(task)
    return lines, waiting


def _queue(queues: Mapping[tuple[str, str], Queue], key: tuple[str, str]) -> Queue:
    return queues.get(key) or Queue(key[1])


def _obstacle(
    task: Wants, queue: Queue, used: Mapping[str, int], nodes: Mapping[str, Mapping[str, int]]
) -> tuple[str, str]:
    never = never_fits(task.requests, nodes)
    if never:
        return "NeverFits", never
    for name, value in task.requests:
        limit = queue.ceiling.get(name)
        if limit is not None and used.get(name, 0) + value > limit:
            words = f"TaskQueue {queue.name}: ceiling of {name} is {limit}, used {used.get(name, 0)}, asked for {value}"
            return "Ceiling", words
    return "", ""


def _sum(parts: Iterable[Mapping[str, int]]) -> Free:
    found: Free = {}
    for part in parts:
        for name, value in part.items():
            found[name] = found.get(name, 0) + value
    return found
