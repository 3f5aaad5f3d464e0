"""What the backend says of itself at /metrics."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def sums(port: int, sample: str, label: str = "", **chosen: str) -> dict[str, float]:
    """The values of a sample, added up by one label (all under "" without one). ``chosen``: of these labels alone."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == sample and chosen.items() <= one.labels.items():
                key = one.labels[label] if label else ""
                found[key] = found.get(key, 0.0) + one.value
    return found


def requests(port: int) -> dict[str, int]:
    """Requests to the API server so far, by verb."""
    return {verb: int(count) for verb, count in sums(port, "berth_api_requests_total", "verb").items()}


def charged(port: int) -> float:
    """How many tries have resources."""
    return sums(port, "berth_tasks_charged")[""]
