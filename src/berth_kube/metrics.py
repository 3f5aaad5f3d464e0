"""What both daemons count about their talk with the API server, for prometheus-client. Called by the composition roots.

client = KubeClient(config, observe=metrics.requests())
reconciler = Reconciler("disk", work, observe=metrics.reconciles("disk"))
"""

from __future__ import annotations

from functools import lru_cache
from typing import Callable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

Observe = Callable[[str, int, float], None]
_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0)


class Metrics:
    """The families, registered once for each registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self._requests = Counter(
            "berth_api_requests", "Requests to the API server", ["verb", "code"], registry=registry
        )
        self._request_seconds = Histogram(
            "berth_api_request_seconds",
            "Until the whole answer",
            ["verb"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._reconciles = Counter(
            "berth_reconciles", "Keys worked on, by result", ["controller", "result"], registry=registry
        )
        self._reconcile_seconds = Histogram(
            "berth_reconcile_seconds", "Work on one key", ["controller"], buckets=_SECONDS, registry=registry
        )
        self._depth = Gauge("berth_queue_depth", "Keys in line", ["controller"], registry=registry)

        self._refused = Counter(
            "berth_connections_refused", "Connections refused or cut off", ["port", "reason"], registry=registry
        )

    def refused(self, port: str) -> Callable[[str], None]:
        """For ``Port(refused=...)``. ``port``: what it is for."""
        return lambda reason: self._refused.labels(port, reason).inc()

    def requests(self) -> Observe:
        """For ``KubeClient(observe=...)``. Code 0: no answer."""
        counted = lru_cache(maxsize=256)(lambda verb, status: self._requests.labels(verb, str(status)))
        timed = lru_cache(maxsize=64)(self._request_seconds.labels)

        def observe(verb: str, status: int, seconds: float) -> None:
            counted(verb, status).inc()
            timed(verb).observe(seconds)

        return observe

    def reconciles(self, controller: str) -> Callable[[str, float], None]:
        """For ``Reconciler(observe=...)``."""

        def observe(result: str, seconds: float) -> None:
            self._reconciles.labels(controller, result).inc()
            self._reconcile_seconds.labels(controller).observe(seconds)

        return observe

    def depth(self, controller: str, length: Callable[[], int]) -> None:
        """Show the length of a queue, asked when somebody reads the metrics."""
        self._depth.labels(controller).set_function(length)

    def leading(self, leading: Callable[[], bool]) -> None:
        """Show whether this process leads, asked when the metrics are read. For who has an election."""
        gauge = Gauge("berth_leading", "1 while this process leads", registry=self._registry)
        gauge.set_function(lambda: 1.0 if leading() else 0.0)
