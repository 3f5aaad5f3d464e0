"""How often plugins were asked: kube-scheduler's ``scheduler_plugin_evaluation_total``, exact and added up in batches.

The engine counts for each pod how many nodes each plugin was asked about. Pods like the one before share one such
count, which is then added once, times their number. Made for the scheduler by metrics.py, and for the extender; the
thread that serves metrics reads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

FILTER, SCORE = "Filter", "Score"
_NAME, _TEXT = "scheduler_plugin_evaluation", "Nodes that a plugin was asked about"
_LABELS = ("plugin", "extension_point", "profile")


class Run:
    """One extension point of one profile. ``counts`` is never changed by its maker once it was given."""

    __slots__ = ("_counts", "_lock", "_times", "_totals")

    def __init__(self) -> None:
        self._counts: Mapping[str, int] = {}
        self._times = 0
        self._totals: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, counts: Mapping[str, int]) -> None:
        """Count one pod: plugin -> nodes."""
        if counts is not self._counts:
            with self._lock:  # else a reader could see less than before, which a counter never shows
                self._totals = self._sum()
                self._counts, self._times = counts, 0
        self._times += 1

    def totals(self) -> Counter[str]:
        """All so far, by plugin."""
        with self._lock:
            return self._sum()

    def _sum(self) -> Counter[str]:
        times, total = self._times, self._totals.copy()
        for plugin, nodes in self._counts.items():
            total[plugin] += nodes * times
        return total


class Evaluations(Collector):
    """Once for each registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._runs: dict[tuple[str, str], Run] = {}
        registry.register(self)

    def add(self, profile: str, filters: Mapping[str, int], scores: Mapping[str, int]) -> None:
        """Count one pod's cycle: plugin -> nodes that it was asked about."""
        self._of(profile, FILTER).add(filters)
        self._of(profile, SCORE).add(scores)

    def _of(self, profile: str, point: str) -> Run:
        found = self._runs.get((profile, point))
        if found is None:
            found = self._runs[profile, point] = Run()
        return found

    def describe(self) -> Iterator[Metric]:
        """The name, for the registry."""
        yield CounterMetricFamily(_NAME, _TEXT, labels=_LABELS)

    def collect(self) -> Iterator[Metric]:
        """Everything, as the text format has it."""
        metric = CounterMetricFamily(_NAME, _TEXT, labels=_LABELS)
        for (profile, point), run in list(self._runs.items()):
            for plugin, nodes in run.totals().items():
                metric.add_metric((plugin, point, profile), nodes)
        yield metric
