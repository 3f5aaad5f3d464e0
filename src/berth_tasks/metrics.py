"""What is counted beside requests and visits, which berth_kube.metrics counts. Once for each registry.

What is there now (who waits and why, which task is in which state, what queues have) is asked for when somebody reads
the metrics, in the loop's own thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth_core.model.requests import CPU
from berth_core.tasks.queues import Queue, QueueKey

_QUEUE = ["namespace", "queue"]
_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)
#: (namespace, queue, reason or state or resource) -> how much
Figures = Mapping[tuple[str, str, str], int]


class Now(Protocol):
    """Who knows what is there now."""

    def waiting_by_reason(self) -> Figures:
        """Tasks that wait, by reason; empty: their turn has not come."""

    def by_state(self) -> Figures:
        """Tasks by their state."""

    def used(self) -> Figures:
        """What the tasks of each queue have, by resource."""

    def queues(self) -> Mapping[QueueKey, Queue]:
        """The TaskQueues."""

    def offered(self) -> Mapping[str, int]:
        """What is free on nodes for tasks, by resource."""

    def filler_room(self) -> Mapping[str, int]:
        """What nodes have reserved and do not use, and filler tasks may have, by resource."""

    def filler_running(self) -> Mapping[tuple[str, str], int]:
        """Filler tasks that have a pod, by namespace and queue."""


class Metrics:
    """The families."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        make: dict[str, Any] = {"registry": registry}
        self.started = Counter("berth_tasks_tries_started", "Pods made for tries of tasks", _QUEUE, **make)
        self.ended = Counter("berth_tasks_ended", "Tasks that have ended", [*_QUEUE, "state", "reason"], **make)
        self.reclaimed = Counter("berth_tasks_reclaimed", "Pods evicted: their queue had borrowed", _QUEUE, **make)
        self.filler_ended = Counter(
            "berth_tasks_filler_ended", "Pods of filler tasks that ran and had to go", [*_QUEUE, "reason"], **make
        )
        self.filler_lost = Counter(
            "berth_tasks_filler_lost_seconds", "Seconds that these had run: work that is done again", _QUEUE, **make
        )
        self.start_seconds = Histogram(
            "berth_tasks_start_seconds", "From submission until the first pod runs", _QUEUE, buckets=_SECONDS, **make
        )
        self.charged = Gauge("berth_tasks_charged", "Tries that have resources now", **make)
        self._state = State()
        registry.register(self._state)

    def watch(self, now: Now) -> None:
        """Show what is there now."""
        self._state.now = now


class State(Collector):
    """What is there now; nothing before this process leads."""

    def __init__(self) -> None:
        self.now: Now | None = None

    def describe(self) -> Iterator[Metric]:
        """The names, for the registry."""
        return self._families(None)

    def collect(self) -> Iterator[Metric]:
        """Everything, as the text format has it."""
        return self._families(self.now)

    def _families(self, now: Now | None) -> Iterator[Metric]:
        waiting = now.waiting_by_reason() if now is not None else {}
        yield _gauge("waiting", "Tasks that wait for their turn, by what keeps them", "reason", _rows(waiting))
        states = now.by_state() if now is not None else {}
        yield _gauge("by_state", "Tasks by their state", "state", _rows(states))
        used = now.used() if now is not None else {}
        yield _gauge("used", "What the tasks of a queue have (cores, bytes, pieces)", "resource", _units(used))
        queues = now.queues() if now is not None else {}
        ceilings = {(*key, name): own for key, queue in queues.items() for name, own in queue.ceiling.items()}
        yield _gauge("ceiling", "What is a queue's own", "resource", _units(ceilings))
        borrowed = {key: max(0, used.get(key, 0) - own) for key, own in ceilings.items()}
        yield _gauge("borrowed", "What a queue has beyond its ceiling", "resource", _units(borrowed))
        yield _of_nodes("offered", "What nodes have free for tasks", now.offered() if now is not None else {})
        room = now.filler_room() if now is not None else {}
        yield _of_nodes("filler_room", "What nodes do not use, for filler tasks", room)
        running = now.filler_running() if now is not None else {}
        family = GaugeMetricFamily("berth_tasks_filler_running", "Filler tasks that have a pod", labels=_QUEUE)
        for queue, count in sorted(running.items()):
            family.add_metric(queue, count)
        yield family


def _of_nodes(name: str, text: str, amounts: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"berth_tasks_{name}", text, labels=["resource"])
    for resource, value in sorted(amounts.items()):
        family.add_metric([resource], _unit(resource, value))
    return family


def _gauge(name: str, text: str, label: str, rows: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = GaugeMetricFamily(f"berth_tasks_{name}", text, labels=[*_QUEUE, label])
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _rows(figures: Figures) -> list[tuple[tuple[str, ...], float]]:
    return [(key, float(value)) for key, value in sorted(figures.items())]


def _units(figures: Figures) -> list[tuple[tuple[str, ...], float]]:
    return [(key, _unit(key[2], value)) for key, value in sorted(figures.items())]


def _unit(resource: str, value: int) -> float:
    """Cores of cpu, else pieces or bytes."""
    return value / 1000 if resource == CPU else float(value)
