"""Nominated pods: who is counted where, what is remembered, and that a nominated pod goes to its node unasked."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.cycle import place
from berth_core.framework.nominated import Nominations
from berth_core.framework.tried import yields_to
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import make_profile
from tests.core.cluster.objects import container, node, pod

PROFILE = make_profile()


def waiting(name, cpu="1", priority=0, nominated="", **spec):
    found = pod(name, [container(cpu)], priority=priority, **spec)
    found["status"] = {"nominatedNodeName": nominated} if nominated else {}
    return PodInfo.from_manifest(found)


def placed(snapshot, info, nominated):
    outcome = place(PROFILE, snapshot, PlacementRequest(info), hints=False, nominated=nominated)
    return outcome.placement.node if outcome.placement else outcome.diagnosis.summary()


@pytest.fixture
def snapshot():
    return Snapshot.from_objects(nodes=[node("a", cpu="2"), node("b", cpu="2")])


def test_a_pod_leaves_room_for_those_of_its_priority_and_above(snapshot):
    there = {"a": [waiting("first", "2", 10)]}
    assert placed(snapshot, waiting("second", "1", 10), there) == "b"
    assert placed(snapshot, waiting("above", "1", 11), there) == "a"
    assert placed(snapshot, waiting("first", "2", 10), there) == "a", "nobody stands in its own way"
    both = {**there, "b": [waiting("third", "1500m", 20)]}
    assert placed(snapshot, waiting("second", "1", 10), both) == "0/2 nodes are available: 2 Insufficient cpu."
    assert snapshot.nodes.requested["cpu"].tolist() == [0, 0]


def test_what_was_learned_beside_nominated_pods_is_not_kept(snapshot):
    asked = waiting("asked", "1")
    assert placed(snapshot, asked, {"a": [waiting("first", "2")]}) == "b"
    assert placed(snapshot, asked, {}) == "a"


def test_a_node_must_pass_without_them_too(snapshot):
    """It wants to be beside a nominated pod that may yet go elsewhere."""
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    friend = pod("friend", [container("1")])
    friend["metadata"]["labels"] = {"app": "db"}
    found = placed(snapshot, waiting("asked", affinity=affinity), {"a": [PodInfo.from_manifest(friend)]})
    assert found == "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."


def test_a_nominated_pod_is_placed_on_its_node_and_nothing_else_is_asked(snapshot):
    asked = waiting("asked", nominated="b")
    outcome = place(PROFILE, snapshot, PlacementRequest(asked), hints=False, nominated={"b": [asked]})
    assert outcome.placement.node == "b"
    assert outcome.counts.score_calls == 0
    full = waiting("asked", "2", nominated="b")
    above = {"b": [full, waiting("other", "1", 5)]}
    assert placed(snapshot, full, above) == "a", "there is no room on its node beside the other"
    assert placed(snapshot, waiting("asked", nominated="gone"), {}) == "a"


def test_what_was_decided_stays_until_the_object_says_otherwise():
    kept, decided = Nominations(), waiting("p")
    assert kept.decide(decided, "a")
    kept.update(decided, waiting("p", "2"))
    assert [one.requests for one in kept.on("a")] == [waiting("p", "2").requests], "the facts are the new ones"
    kept.update(decided, waiting("p", nominated="b"))
    assert (kept.on("a"), kept.node_of(decided.uid)) == ((), "b")
    kept.update(waiting("p", nominated="b"), decided)
    assert kept.by_node == {}


def test_late_news_of_what_was_decided_before_does_not_undo_what_was_decided_since():
    kept, none, at_a, at_b = Nominations(), waiting("p"), waiting("p", nominated="a"), waiting("p", nominated="b")
    assert kept.decide(none, "a")
    assert kept.decide(none, "b")
    assert kept.decide(none, ""), "its object says nothing yet, and will"
    assert kept.decide(none, "b")
    for old, new in ((none, at_a), (at_a, at_a), (at_a, at_b), (at_b, none), (none, none), (none, at_b)):
        kept.update(old, new)
        assert kept.node_of(none.uid) == "b"
    assert not kept.decide(at_b, "b"), "it says so"
    kept.update(at_b, at_a)
    assert kept.node_of(none.uid) == "a", "every own decision was told: somebody else has decided"


def test_what_was_written_in_one_go_is_told_once():
    kept, none, at_b = Nominations(), waiting("p"), waiting("p", nominated="b")
    assert kept.decide(none, "a")
    assert kept.decide(none, "b")
    kept.update(none, at_b)
    kept.update(at_b, none)
    assert kept.node_of(none.uid) == ""


def test_what_was_decided_of_a_pod_on_its_way_is_told_though_it_comes_back():
    """It had its room when its object did not say the nomination yet; it was not bound, and the room is gone."""
    kept, none, at_a = Nominations(), waiting("p"), waiting("p", nominated="a")
    assert kept.decide(none, "a")
    kept.remove(none.uid)
    assert kept.decide(none, ""), "else its object would say the old one for ever"
    kept.update(none, at_a)
    assert kept.by_node == {}
    kept.forget(none.uid)
    assert not kept.decide(none, "")


def test_a_nomination_is_put_and_forgotten():
    kept, one, other = Nominations(), waiting("one", nominated="a"), waiting("other", nominated="a")
    kept.put(one)
    kept.put(other)
    kept.put(one)
    assert [pod.name for pod in kept.on("a")] == ["one", "other"], "who was the first stays the first"
    assert kept.decide(other, "")
    kept.remove(one.uid)
    kept.forget("never heard of")
    assert kept.by_node == {}
    assert yields_to(one, {"a": [one]}, "a") == []


def test_of_two_nominated_to_one_node_the_second_yields_to_the_first():
    """The first one's victim is gone, the second one's is still there: the first takes its room, and ends nobody."""
    full = Snapshot.from_objects(
        nodes=[node("a", cpu="2"), node("b", cpu="2")],
        pods=[pod(f"low-{number}", [container("1")], node_name=where) for number, where in enumerate("abb")],
    )
    first, second = (waiting(name, "1", 10, "a") for name in ("first", "second"))
    kept = Nominations()
    kept.put(first)
    kept.put(second)
    kept.update(first, first)
    assert placed(full, first, kept.by_node) == "a"
    assert placed(full, second, kept.by_node) == "0/2 nodes are available: 2 Insufficient cpu."
    above = waiting("above", "1", 11, "a")
    kept.put(above)
    assert placed(full, first, kept.by_node) == "0/2 nodes are available: 2 Insufficient cpu.", "priority goes first"
    assert [one.name for one in yields_to(waiting("third", "1", 10), kept.by_node, "a")] == ["first", "second", "above"]


def test_a_pod_is_tried_with_what_was_decided_though_its_object_does_not_say_it_yet():
    kept, decided = Nominations(), waiting("p")
    assert kept.decide(decided, "a")
    assert kept.of(decided).preemption.nominated == "a"
    written = waiting("p", nominated="a")
    assert kept.of(written) is written
    assert kept.decide(written, "")
    assert kept.of(written).preemption.nominated == "", "what was taken back is, too"
