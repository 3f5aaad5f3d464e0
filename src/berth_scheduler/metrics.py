"""What is counted, under kube-scheduler's names where it has them.

Made by the composition root, called by scheduler and binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from functools import lru_cache, partial
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from berth_core.framework.cycle import Counts

from .evaluations import Evaluations
from .sums import Series, Sums

_SECONDS = tuple(0.001 * 2**power for power in range(15))
_SLI_SECONDS = tuple(0.01 * 2**power for power in range(20))
_ATTEMPTS = (1, 2, 4, 8, 16)
SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
#: What became of a changed configuration file, by whether it was good.
RELOADS = ("refused", "taken")
QUEUES = ("active", "backoff", "unschedulable", "gated")


class Metrics:
    """Once for each registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        make: dict[str, Any] = {"registry": registry}
        labels = ["result", "profile"]
        self._attempts = Counter("scheduler_schedule_attempts", "Attempts to place a pod", labels, **make)
        self._attempt_seconds = Sums(
            "scheduler_scheduling_attempt_duration_seconds",
            "Decision and binding of one attempt",
            labels,
            _SECONDS,
            registry,
        )
        self.algorithm = Sums(
            "scheduler_scheduling_algorithm_duration_seconds", "Decision alone", (), _SECONDS, registry
        ).of()
        self._sli = Sums(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the first attempt to bound, gates left out",
            ["attempts"],
            _SLI_SECONDS,
            registry,
        )
        self._needed = Sums("scheduler_pod_scheduling_attempts", "Attempts until bound", (), _ATTEMPTS, registry).of()
        self._permit = Histogram(
            "scheduler_permit_wait_duration_seconds", "Waiting at Permit", ["result"], buckets=_SECONDS, **make
        )
        self._refusals = Counter(
            "berth_scheduler_refusals", "Attempts that a plugin refused", ["plugin", "profile"], **make
        )
        self._evaluations = Evaluations(registry)
        self._pending = Gauge("scheduler_pending_pods", "Pods that wait, by queue", ["queue"], **make)
        self._inflight = Gauge("scheduler_inflight_events", "Changes kept for pods in flight", **make)
        self._cache = Gauge("scheduler_cache_size", "Objects in the snapshot", ["type"], **make)
        self._unreadable = Gauge(
            "berth_scheduler_unreadable_objects", "Objects that cannot be read, and count as taken", **make
        )
        self._reloads = Counter(
            "berth_scheduler_configuration_reloads", "Changed configuration files", ["result"], **make
        )
        for result in RELOADS:  # a series that begins with 1 shows no increase
            self._reloads.labels(result)
        self._victims = Histogram("scheduler_preemption_victims", "Victims", buckets=(1, 2, 4, 8, 16, 32, 64), **make)
        self._preemptions = Counter("scheduler_preemption_attempts", "Attempts to preempt", **make)
        # A label's child is looked up under a lock: once for each, not for each pod.
        self._of_attempt = lru_cache(maxsize=256)(self._children_of_attempt)

    def _children_of_attempt(self, result: str, profile: str) -> tuple[Counter, Series]:
        return self._attempts.labels(result, profile), self._attempt_seconds.of(result, profile)

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """One attempt has ended."""
        count, histogram = self._of_attempt(result, profile)
        count.inc()
        histogram.observe(seconds)

    def evaluated(self, profile: str, counts: Counts) -> None:
        """The engine was asked about a pod. What it tries for a preemption is not counted."""
        self._evaluations.add(profile, counts.filter, counts.score)

    def bound(self, attempts: int, seconds: float) -> None:
        """A pod was bound, so long after its first attempt."""
        self._needed.observe(attempts)
        self._sli.of(str(attempts) if attempts < 16 else "16+").observe(seconds)

    def refused(self, plugins: frozenset[str], profile: str) -> None:
        """These plugins refused a pod."""
        for plugin in plugins:
            self._refusals.labels(plugin, profile).inc()

    def permitted(self, result: str, seconds: float) -> None:
        """A pod waited at Permit."""
        self._permit.labels(result).observe(seconds)

    def preempted(self, victims: int) -> None:
        """Room was looked for by preemption."""
        self._preemptions.inc()
        if victims:
            self._victims.observe(victims)

    def reloaded(self, good: bool) -> None:
        """The configuration file has changed."""
        self._reloads.labels(RELOADS[good]).inc()

    def show(
        self,
        counts: Callable[[], Mapping[str, int]],
        kept: Callable[[], int],
        sizes: Mapping[str, Any],
        unreadable: Sized,
    ) -> None:
        """Show lengths when somebody reads the metrics. ``sizes``: kind -> function."""
        self._unreadable.set_function(lambda: len(unreadable))
        for queue in QUEUES:
            self._pending.labels(queue).set_function(partial(_count, counts, queue))
        self._inflight.set_function(kept)
        for kind, size in sizes.items():
            self._cache.labels(kind).set_function(size)


def _count(counts: Callable[[], Mapping[str, int]], queue: str) -> float:
    return float(counts()[queue])
