"""The text format, read by prometheus-client's own parser."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from berth_agent.figures import Asked, Figures


def read(figures: Figures) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(figures.text().decode())
    return {(each.name, tuple(each.labels.items())): each.value for family in families for each in family.samples}


def test_gauges_and_counters_as_prometheus_reads_them() -> None:
    figures = Figures()
    disks = figures.gauge("berth_agent_disks", "LocalDisks,\nby phase\\.", ["phase"])
    disks.set(3, "Available")
    disks.set(1, 'odd "phase"\\\n')
    disks.set(2, "Available")
    rounds = figures.counter("berth_agent_rounds_total", "Rounds.")
    rounds.add()
    rounds.add(1.5)
    figures.keep(Asked("counter", "berth_agent_requests_total", "Requests.", "verb", lambda: {"get": 7}))
    assert read(figures) == {
        ("berth_agent_disks", (("phase", "Available"),)): 2.0,
        ("berth_agent_disks", (("phase", 'odd "phase"\\\n'),)): 1.0,
        ("berth_agent_rounds_total", ()): 2.5,
        ("berth_agent_requests_total", (("verb", "get"),)): 7.0,
    }
    kinds = {each.name: each.type for each in text_string_to_metric_families(figures.text().decode())}
    assert kinds == {"berth_agent_disks": "gauge", "berth_agent_rounds": "counter", "berth_agent_requests": "counter"}


def test_what_is_there_replaces_what_was_there() -> None:
    figures = Figures()
    phases = figures.gauge("berth_agent_disk_phase", "Phases.", ["disk", "phase", "holder"])
    phases.replace([("h1-a", "InUse", "shop/db-0"), ("h1-b", "Available", "")])
    phases.replace([("h1-a", "Faulted", "shop/db-0")])
    labels = (("disk", "h1-a"), ("phase", "Faulted"), ("holder", "shop/db-0"))
    assert read(figures) == {("berth_agent_disk_phase", labels): 1.0}
    with pytest.raises(ValueError, match="has labels"):
        phases.replace([("h1-a", "Faulted")])


def test_a_wrong_number_of_labels_and_a_name_that_is_taken_are_refused() -> None:
    figures = Figures()
    gauge = figures.gauge("a", "A.", ["x"])
    with pytest.raises(ValueError, match="has labels"):
        gauge.set(1)
    with pytest.raises(ValueError, match="is there already"):
        figures.counter("a", "A.")
