"""Histograms for what happens once or twice for each of very many pods: added up here, made into samples by who reads.

prometheus-client's own take a lock for each bucket and sum, which costs more than the adding. Here everything happens
in the loop's thread; the thread that serves metrics reads whole numbers, and at worst misses the last one.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import INF, floatToGoString


class Series:
    """One series of a histogram."""

    __slots__ = ("_bounds", "counts", "created", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.created = time.time()

    def observe(self, value: float) -> None:
        """Count a value; one that is equal to a bound is below it."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class Sums(Collector):
    """A histogram with its series, by the values of its labels: what prometheus-client's Histogram shows."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels, self._bounds = name, text, tuple(labels), tuple(map(float, buckets))
        self._series: dict[tuple[str, ...], Series] = {}
        if not labels:  # one without labels is shown before the first value
            self.of()
        registry.register(self)

    def of(self, *values: str) -> Series:
        """The series with these values."""
        found = self._series.get(values)
        if found is None:
            found = self._series[values] = Series(self._bounds)
        return found

    def describe(self) -> Iterator[Metric]:
        """The name, for the registry."""
        yield Metric(self._name, self._text, "histogram")

    def collect(self) -> Iterator[Metric]:
        """Everything, as the text format has it."""
        metric, name = Metric(self._name, self._text, "histogram"), self._name
        bounds = [str(floatToGoString(one)) for one in (*self._bounds, INF)]  # type: ignore[no-untyped-call]
        for values, series in list(self._series.items()):
            labels, total = dict(zip(self._labels, values, strict=True)), 0
            for bound, count in zip(bounds, list(series.counts), strict=True):
                total += count
                metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, total)
            metric.add_sample(f"{name}_count", labels, total)
            metric.add_sample(f"{name}_sum", labels, series.sum)
            metric.add_sample(f"{name}_created", labels, series.created)
        yield metric
