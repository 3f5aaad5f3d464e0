"""What is kept of Tasks: one template for all that have the same, bounded, and never another one's."""

from __future__ import annotations

import copy
import json
import tracemalloc
from typing import Any

import pytest

from berth_core.tasks.task import read_task
from berth_tasks import kept

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}]}}


def task(number: int, template: Any = None, **status: Any) -> dict[str, Any]:
    """As it comes from the API server: nothing of it is shared."""
    meta = {"name": f"t{number}", "namespace": "ns", "uid": f"u{number}", "resourceVersion": str(number)}
    spec = {"queue": "nightly", "retries": 0, "template": TEMPLATE if template is None else template}
    found: dict[str, Any] = json.loads(json.dumps({"metadata": meta, "spec": spec, "status": status}))
    return found


def test_equal_templates_are_one_and_the_task_reads_the_same() -> None:
    keep = kept.Kept()
    ended = {"state": "Failed", "tries": 2, "failures": 2, "reason": "Error", "message": "exit code 3"}
    whole = [task(number, **ended, log="x" * 4000, terminationMessage="y" * 4000) for number in range(2)]
    before = [read_task(copy.deepcopy(one)) for one in whole]
    one, other = map(keep, whole)
    assert one["spec"]["template"] is other["spec"]["template"]
    assert [read_task(one), read_task(other)] == before
    assert one["status"] == ended


def test_what_only_looks_alike_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = kept.Kept()
    number, truth = ({"spec": {"containers": [{"name": "a", "x": value}]}} for value in (1, True))
    assert [keep(task(0, each))["spec"]["template"]["spec"]["containers"][0]["x"] for each in (number, truth)] == [1, 1]
    assert keep(task(1, truth))["spec"]["template"]["spec"]["containers"][0]["x"] is True
    monkeypatch.setattr(kept, "content_of", lambda _template: "the same")
    keep = kept.Kept()
    for image in ("one", "two", "one"):
        template = {"spec": {"containers": [{"name": "main", "image": image}]}}
        assert keep(task(2, template))["spec"]["template"] == template


def test_templates_that_were_not_seen_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_TEMPLATES", 2)
    keep = kept.Kept()
    first = keep(task(0, {"a": 1}))["spec"]["template"]
    keep(task(1, {"a": 2}))
    assert keep(task(2, {"a": 1}))["spec"]["template"] is first
    keep(task(3, {"a": 3}))
    assert keep(task(4, {"a": 1}))["spec"]["template"] is first
    second = keep(task(5, {"a": 2}))["spec"]["template"]
    keep(task(6, {"a": 4}))
    keep(task(7, {"a": 5}))
    assert keep(task(8, {"a": 2}))["spec"]["template"] is not second


@pytest.mark.parametrize(
    "strange", [{}, {"spec": []}, {"spec": {"template": "x"}, "status": 1}, {"status": {"log": 1}}]
)
def test_what_is_no_task_is_left_to_who_reads_it(strange: dict[str, Any]) -> None:
    assert kept.Kept()(copy.deepcopy(strange)).keys() == strange.keys()


def test_a_task_costs_less_than_half_of_its_object() -> None:
    texts = [json.dumps(task(number, state="Submitted")) for number in range(2000)]

    def cost(keep: Any) -> float:
        tracemalloc.start()
        try:
            held = [keep(json.loads(text)) for text in texts]
            return tracemalloc.get_traced_memory()[0] / len(held)
        finally:
            tracemalloc.stop()

    assert cost(kept.Kept()) < 0.6 * cost(lambda one: one)
