"""Policies of queues: whose turn it is, by which, and what becomes of one that fails or that nobody knows."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from berth_core.errors import InputError
from berth_core.tasks.admission import Ledger, Verdict, admit
from berth_core.tasks.offers import Offer
from berth_core.tasks.policies import BUILT_IN, Line, Policies, Policy, Turn
from berth_core.tasks.queues import Queue, condition, examined
from berth_tasks.queues import GROUP, known_policies
from tests.core.tasks.samples import sized

ROOT = Path(__file__).resolve().parents[3]


def longest(line: Line) -> Turn:
    return Turn(0, -line.waiting)


def admitted(queues: list[Queue], waiting: dict[str, int], **others: Policy) -> Verdict:
    """Who gets one of five places."""
    whole = {"n": {"cpu": 500, "pods": 99}}
    tasks = [sized(f"{queue}{number}", 100, queue) for queue, count in waiting.items() for number in range(count)]
    ledger = Ledger({("ns", queue.name): queue for queue in queues}, {})
    return admit(tasks, ledger, whole, [Offer("n", dict(whole["n"]))], Policies({**BUILT_IN, **others}))


def names(verdict: Verdict) -> list[str]:
    return [one.name for one in verdict.admitted]


def test_each_queue_has_its_own_policy_and_ranks_tell_them_apart() -> None:
    queues = [Queue("a"), Queue("b", priority=1, policy="priority"), Queue("c", priority=-1, policy="priority")]
    assert names(admitted(queues, {"a": 2, "b": 2, "c": 2})) == ["b0", "b1", "a0", "a1", "c0"]
    assert sorted(names(admitted([Queue("a"), Queue("b", priority=9)], {"a": 2, "b": 2})))[:2] == ["a0", "a1"]


def test_a_policy_of_another_package() -> None:
    queues = [Queue("a", policy="longest"), Queue("b", policy="longest")]
    assert names(admitted(queues, {"a": 2, "b": 4}, longest=longest)) == ["b0", "b1", "a0", "b2", "a1"]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (lambda _line: 1 / 0, "policy odd failed: ZeroDivisionError: division by zero"),
        (lambda _line: None, "policy odd failed: TypeError"),
        (lambda _line: Turn(0, float("nan")), "policy odd answers Turn(rank=0, share=nan): expected Turn(rank, share)"),
        (lambda _line: ("first", 1), "policy odd answers ('first', 1): expected"),
        (lambda _line: (0, "x"), "policy odd answers (0, 'x'): expected"),
    ],
)
def test_one_that_fails_costs_its_queue_the_turn_and_no_other(policy: Any, words: str) -> None:
    verdict = admitted([Queue("a", policy="odd"), Queue("b")], {"a": 2, "b": 2}, odd=policy)
    assert names(verdict) == ["b0", "b1"]
    for name in ("a0", "a1"):
        reason, said = verdict.waiting[("ns", name)]
        assert (reason, said[: len(words) + 16]) == ("PolicyFailed", f"TaskQueue ns/a: {words}")


def test_one_that_nobody_knows_is_told_with_those_that_are_known() -> None:
    meta = {"name": "q", "namespace": "ns"}
    queue = examined({"metadata": meta, "spec": {"policy": "lottery"}}, BUILT_IN)
    words = "TaskQueue ns/q: spec.policy is 'lottery': expected one of fair, priority"
    assert condition(queue) == {"type": "Active", "status": "False", "reason": "UnknownPolicy", "message": words}
    assert admitted([queue], {"q": 2}).waiting == {("ns", f"q{number}"): ("UnknownPolicy", words) for number in (0, 1)}
    wrong = examined({"metadata": meta, "spec": {"share": 0}}, BUILT_IN)
    assert condition(wrong)["message"] == "TaskQueue ns/q: spec.share is 0: expected 1 or more"
    assert admitted([wrong], {"q": 1}).waiting[("ns", "q0")][0] == "InvalidQueue"
    good = examined({"metadata": meta, "spec": {"policy": "priority"}}, BUILT_IN)
    assert (good.policy, condition(good)["status"]) == ("priority", "True")


def test_berths_own_are_entry_points_as_others_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    points = [EntryPoint(name, value, GROUP) for name, value in project["entry-points"][GROUP].items()]
    assert {point.name: point.load() for point in points} == BUILT_IN
    assert known_policies(points) == known_policies([]) == BUILT_IN


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("fair", "tests.core.tasks.test_policies:longest", "policy fair of .* has the name of another policy"),
        ("gone", "tests.core.tasks.test_policies:gone", "policy gone: .* cannot be loaded: AttributeError"),
        ("text", "tests.core.tasks.test_policies:GROUP", "policy text: .* is no function"),
    ],
)
def test_a_package_that_is_wrong_stops_the_start(name: str, value: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        known_policies([EntryPoint(name, value, GROUP)])
