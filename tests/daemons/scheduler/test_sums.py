"""Histograms that are added up without locks show what prometheus-client's own show."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from berth_scheduler.sums import Sums

BUCKETS = (0.001, 0.01, 1, 2)
VALUES = (0.0, 0.001, 0.5, 1, 1.5, 7)


def shown(registry):
    """What a reader of the metrics gets, without the moments at which series began."""
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if "_created" not in line or line.startswith("#")], len(lines)


def test_the_text_is_that_of_a_histogram():
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    histogram = Histogram("a_seconds", "What it is", ["profile"], buckets=BUCKETS, registry=theirs)
    Histogram("b_seconds", "Without labels", buckets=BUCKETS, registry=theirs)
    sums = Sums("a_seconds", "What it is", ["profile"], BUCKETS, ours)
    Sums("b_seconds", "Without labels", (), BUCKETS, ours)
    assert shown(ours) == shown(theirs)
    for value in VALUES:
        histogram.labels("x").observe(value)
        sums.of("x").observe(value)
    histogram.labels("y").observe(3)
    sums.of("y").observe(3)
    assert shown(ours) == shown(theirs)
