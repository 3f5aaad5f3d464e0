"""What is counted beside requests and visits, which berth_kube.metrics counts. Once for each registry."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge


class Metrics:
    """The families."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        make: dict[str, Any] = {"registry": registry}
        self.started = Counter("berth_tasks_tries_started", "Pods made for tries of tasks", **make)
        self.ended = Counter("berth_tasks_ended", "Tasks that have ended", ["state", "reason"], **make)
        self.waiting = Gauge("berth_tasks_waiting", "Tasks that wait for their turn", **make)
        self.charged = Gauge("berth_tasks_charged", "Tries that have resources now", **make)
