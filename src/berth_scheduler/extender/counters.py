"""What the extender counts. Made by command.py."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = tuple(0.001 * 2**power for power in range(15))


class Counters:
    """Once for each registry."""

    def __init__(self, holds: Sized, unreadable: Sized, registry: CollectorRegistry = REGISTRY) -> None:
        make: dict[str, Any] = {"registry": registry}
        self._asked = Counter("berth_extender_requests", "Questions of kube-scheduler", ["verb", "result"], **make)
        self._seconds = Histogram(
            "berth_extender_request_duration_seconds", "Answering them", ["verb"], buckets=_SECONDS, **make
        )
        Gauge("berth_extender_holds", "Disks that are kept for a pod and not locked yet", **make).set_function(
            lambda: len(holds)
        )
        Gauge(
            "berth_extender_unreadable_objects", "Objects that cannot be read, and count as taken", **make
        ).set_function(lambda: len(unreadable))

    def asked(self, verb: str, result: str, seconds: float) -> None:
        """One question."""
        self._asked.labels(verb, result).inc()
        self._seconds.labels(verb).observe(seconds)
