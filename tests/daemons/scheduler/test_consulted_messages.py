"""Questions to extenders and what is read from their answers, byte by byte as kube-scheduler's own types say it."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.framework.contract import Status, unresolvable, unschedulable
from berth_core.model.preemption import Candidate, VictimFacts
from berth_scheduler.consulted import messages
from berth_scheduler.consulted.messages import LEFT_OUT, ExtenderError, Nodes

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
BY_NAME = Nodes(["a", "b", "c"], None)
WHOLE = Nodes(["a", "b"], [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}])


def victim(uid: str, priority: int = 0) -> VictimFacts:
    return VictimFacts("ns", f"pod-{uid}", uid, priority, ())


def test_questions() -> None:
    assert messages.question(POD, BY_NAME) == {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b", "c"]}
    assert messages.question(POD, WHOLE) == {
        "Pod": POD,
        "Nodes": {"metadata": {}, "items": list(WHOLE.whole or ())},
        "NodeNames": None,
    }
    assert messages.binding(POD, "a") == {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "a"}
    one = Candidate("a", (victim("x"),), 2)
    assert messages.preemption(POD, [one], None) == {
        "Pod": POD,
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "x"}], "NumPDBViolations": 2}},
    }
    assert messages.preemption(POD, [one], {"x": {"kind": "Pod"}}) == {
        "Pod": POD,
        "NodeNameToVictims": {"a": {"Pods": [{"kind": "Pod"}], "NumPDBViolations": 2}},
    }


@pytest.mark.parametrize(
    ("answer", "nodes", "passed", "refused"),
    [
        ({"NodeNames": ["c", "a"]}, BY_NAME, ["a", "c"], {"b": LEFT_OUT}),
        ({"nodenames": ["a", "b", "c"], "failednodes": None}, BY_NAME, ["a", "b", "c"], {}),
        ({"NodeNames": [], "FailedNodes": {"a": "full"}, "FailedAndUnresolvableNodes": {"a": "broken", "b": "old"}},
         BY_NAME, [], {"a": unresolvable("broken"), "b": unresolvable("old"), "c": LEFT_OUT}),
        ({"NodeNames": ["b", "c"], "FailedNodes": {"a": "full"}}, BY_NAME, ["b", "c"], {"a": unschedulable("full")}),
        ({"Nodes": {"items": [{"metadata": {"name": "b"}}]}}, WHOLE, ["b"], {"a": LEFT_OUT}),
        ({"Nodes": {"Items": [{"metadata": {"name": "a"}}]}}, BY_NAME, ["a"], {"b": LEFT_OUT, "c": LEFT_OUT}),
        ({"NodeNames": ["a"]}, WHOLE, [], {"a": LEFT_OUT, "b": LEFT_OUT}),
        ({}, BY_NAME, [], {"a": LEFT_OUT, "b": LEFT_OUT, "c": LEFT_OUT}),
    ],
)  # fmt: skip
def test_who_passes(answer: Any, nodes: Nodes, passed: list[str], refused: dict[str, Status]) -> None:
    assert messages.passing(answer, nodes) == (passed, refused)


def test_scores() -> None:
    given = [{"Host": "a", "Score": 10}, {"host": "b", "score": 3}, {"Host": "c"}, {"Host": "b", "Score": 1}]
    assert messages.scores(given, 2) == {"a": 200, "b": 80, "c": 0}
    assert messages.scores(None, 1) == {}


def test_victims() -> None:
    known = {"a": {"x": victim("x", 1), "y": victim("y", 5)}}
    answer = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "x"}, {"UID": "y"}], "NumPDBViolations": 1}}}
    assert messages.candidates(answer, known) == [Candidate("a", (victim("y", 5), victim("x", 1)), 1)]
    assert messages.candidates({"NodeNameToMetaVictims": None}, known) == []


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda: messages.decode(b"\xff"), "is not JSON"),
        (lambda: messages.decode(b"[" * 100_000), "is not JSON"),
        (lambda: messages.passing(None, BY_NAME), "expected an object, got NoneType"),
        (lambda: messages.passing({"Error": "no"}, BY_NAME), "^no$"),
        (lambda: messages.passing({"NodeNames": "a"}, BY_NAME), "NodeNames: expected a list of names"),
        (lambda: messages.passing({"NodeNames": ["x"]}, BY_NAME), "node 'x', about which it was not asked"),
        (lambda: messages.passing({"NodeNames": [], "FailedNodes": ["a"]}, BY_NAME), "expected an object, got list"),
        (lambda: messages.passing({"Nodes": {"items": ["a"]}}, WHOLE), "expected a list of objects"),
        (lambda: messages.scores({"Host": "a"}, 1), "HostPriorityList: expected a list of objects"),
        (lambda: messages.scores([{"Host": "a", "Score": 1.5}], 1), "expected a Host and a Score"),
        (lambda: messages.scores([{"Host": "a", "Score": 1 << 60}], 1), "expected a Host and a Score"),
        (lambda: messages.bound({"Error": "not known"}), "not known"),
        (lambda: messages.candidates({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "z"}]}}}, {"a": {}}), "'z'"),
        (lambda: messages.candidates({"NodeNameToMetaVictims": {"a": {"Pods": [{}]}}}, {"a": {}}), "None"),
        (lambda: messages.candidates({"NodeNameToMetaVictims": {"a": {"NumPDBViolations": "1"}}}, {}), "a number"),
    ],
)
def test_answers_that_cannot_be_meant(read: Any, words: str) -> None:
    with pytest.raises(ExtenderError, match=words):
        read()
