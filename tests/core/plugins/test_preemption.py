"""DefaultPreemption: what tests/oracle cannot say, for kube-scheduler has no berths, and its search is parallel."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import InputError
from berth_core.framework.cycle import place
from berth_core.framework.dry_run import DryRun, post_filter
from berth_core.framework.profile import Profile
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.model.preemption import Candidate, DisruptionBudget, VictimFacts
from berth_core.plugins.default_preemption import DefaultPreemption
from berth_core.plugins.table import TABLE, make_profile
from berth_core.plugins.victims import best, split_by_budget
from tests.core.cluster.objects import GI, berth, claim_ref, container, disk, node, pod, request

PROFILE = make_profile()


def low(name, node_name, cpu="2", priority=0, started="2026-01-01T00:00:00Z", **spec):
    found = pod(name, [container(cpu)], node_name=node_name, phase="Running", priority=priority, **spec)
    found["status"]["startTime"] = started
    return found


def high(cpu="3", priority=10, **spec):
    return PlacementRequest(PodInfo.from_manifest(pod("new", [container(cpu)], priority=priority, **spec)))


def preempted(snapshot, wanted, profile=PROFILE, **more):
    outcome = place(profile, snapshot, wanted)
    assert outcome.placement is None
    return post_filter(profile, snapshot, wanted, outcome.diagnosis, **more)


def names(victims):
    return [one.name for one in victims]


def test_the_default_profile_preempts():
    snapshot = Snapshot.from_objects(nodes=[node("a")], pods=[low("p", "a")])
    found = preempted(snapshot, high())
    assert (found.node, names(found.victims), found.victims[0].uid) == ("a", ["p"], "uid-p")
    assert snapshot.nodes.requested["cpu"].tolist() == [2000]
    assert place(PROFILE, snapshot, high()).placement is None, "a decision changes nothing"


def test_the_least_that_will_do():
    pods = [low("p", "a", "1"), low("q", "a", "2", priority=5), low("r", "a", "1", priority=1)]
    found = preempted(Snapshot.from_objects(nodes=[node("a")], pods=pods), high("2"))
    assert names(found.victims) == ["r", "p"], "q is the most important, and both others make enough room"


def test_a_pod_with_a_berth_is_no_victim():
    """Its berth would keep the room: the pod would be ended for nothing, and come back to the same place."""
    pods = [low("web-0", "a"), low("p", "b", priority=5)]
    berths = [berth("web", 0, "a", {"cpu": "2"})]
    snapshot = Snapshot.from_objects(nodes=[node("a"), node("b")], pods=pods, berths=berths)
    found = preempted(snapshot, high())
    assert (found.node, names(found.victims)) == ("b", ["p"])
    snapshot.remove_berth("default", "web-0")
    assert preempted(snapshot, high()).node == "a"


def test_the_disk_of_a_victim_stays_with_its_berth():
    locked = disk("d", "a", phase="InUse", claimRef=claim_ref("web", 0))
    snapshot = Snapshot.from_objects(nodes=[node("a")], pods=[low("web-0", "a", "1")], disks=[locked])
    wanted = request(pod("db-0", [container("1")], priority=10), disks=[("data", GI)], app="db")
    found = preempted(snapshot, wanted)
    assert (found.node, found.victims) == ("", ())
    assert "didn't have a free local disk for data" in found.message
    snapshot.upsert_disk(disk("e", "a"))
    assert place(PROFILE, snapshot, wanted).placement.disks == {"data": "e"}


def test_who_may_not_preempt():
    snapshot = Snapshot.from_objects(nodes=[node("a")], pods=[low("p", "a")])
    never = preempted(snapshot, high(preemptionPolicy="Never"))
    assert (never.node, never.message) == (None, "preemption: not eligible due to preemptionPolicy=Never.")
    equal = preempted(snapshot, high(priority=0))
    assert equal.message == ("preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")


def test_a_node_that_is_being_emptied_for_the_pod_is_waited_for():
    going = low("p", "a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    going["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    snapshot = Snapshot.from_objects(nodes=[node("a"), node("b")], pods=[going, low("q", "b")])
    manifest = pod("new", [container("3")], priority=10)
    manifest["status"] = {"nominatedNodeName": "a"}
    found = preempted(snapshot, PlacementRequest(PodInfo.from_manifest(manifest)))
    assert found.message == "preemption: not eligible due to a terminating pod on the nominated node."
    assert (found.node, found.victims) == (None, ())


def test_room_that_is_promised_to_another_is_not_given_away():
    snapshot = Snapshot.from_objects(nodes=[node("a"), node("b")], pods=[low("p", "a"), low("q", "b", priority=1)])
    waiting = PodInfo.from_manifest(pod("first", [container("3")], priority=10))
    assert preempted(snapshot, high()).node == "a"
    found = preempted(snapshot, high(), nominated={"a": (waiting,)})
    assert (found.node, names(found.victims)) == ("b", ["q"])
    lower = PodInfo.from_manifest(pod("first", [container("3")], priority=9))
    assert preempted(snapshot, high(), nominated={"a": (lower,)}).node == "a"


def test_the_search_ends_when_there_are_enough_candidates():
    nodes, pods = [node(f"n{index}") for index in range(9)], [low(f"p{index}", f"n{index}") for index in range(9)]
    snapshot = Snapshot.from_objects(nodes=nodes, pods=pods)
    outcome = place(PROFILE, snapshot, high())
    run = DryRun(PROFILE, snapshot, high(), outcome.diagnosis)
    plugin = DefaultPreemption(min_percentage=0, min_absolute=3)
    assert [one.node for one in plugin.candidates(run, 0)[0]] == ["n0", "n1", "n2"]
    assert [one.node for one in plugin.candidates(run, 7)[0]] == ["n7", "n8", "n0"]
    assert plugin.wanted(2) == 2
    assert DefaultPreemption().wanted(5000) == 500
    # Candidates that violate a budget are not enough: the search goes on until one is found that does not.
    snapshot.upsert_budget(budget(allowed=0, app="x"))
    for index in range(8):
        changed = low(f"p{index}", f"n{index}")
        changed["metadata"]["labels"] = {"app": "x"}
        snapshot.upsert_pod(changed)
    assert [one.node for one in plugin.candidates(run, 0)[0]] == ["n8", *(f"n{index}" for index in range(8))]


def budget(name="b", allowed=1, disrupted=(), **labels):
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "now")},
    }


def victim(name, priority=0, started="2026-01-01T00:00:00Z", **labels):
    return VictimFacts("default", name, f"uid-{name}", priority, tuple(labels.items()), started)


def test_budgets():
    pods = [victim("a", app="x"), victim("b", app="x"), victim("c", app="x"), victim("d"), victim("e", app="y")]
    one = DisruptionBudget.from_object(budget(allowed=1, disrupted=["b"], app="x"))
    violating, harmless = split_by_budget(pods, [one])
    assert (names(violating), names(harmless)) == (["c"], ["a", "b", "d", "e"])
    for nothing in ({}, None, {"matchExpressions": [{"key": "app", "operator": "Near"}]}):
        unreadable = {**budget(allowed=0), "spec": {"selector": nothing}}
        assert split_by_budget(pods, [DisruptionBudget.from_object(unreadable)])[0] == []


def test_a_budget_is_kept_where_another_pod_will_do():
    pods = [low("p", "a", "2", priority=1), low("q", "a", "2")]
    pods[1]["metadata"]["labels"] = {"app": "x"}
    snapshot = Snapshot.from_objects(nodes=[node("a")], pods=pods, budgets=[budget(allowed=0, app="x")])
    assert names(preempted(snapshot, high("2")).victims) == ["p"]
    snapshot.remove_budget("default", "b")
    assert names(preempted(snapshot, high("2")).victims) == ["q"]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (([victim("p", 9)], 0), ([victim("q", 0)], 1)),
        (([victim("p", 1), victim("r", 1)], 0), ([victim("q", 2)], 0)),
        (([victim("p", 2), victim("r", -2)], 0), ([victim("q", 2), victim("s", -1)], 0)),
        (([victim("p", 2)], 0), ([victim("q", 2), victim("s", -9)], 0)),
        (([victim("p", 2, "2026-01-02T00:00:00Z")], 0), ([victim("q", 2, "2026-01-01T00:00:00Z")], 0)),
    ],
)
def test_the_order_of_preference(better, worse):
    listed = [Candidate("a", tuple(worse[0]), worse[1]), Candidate("b", tuple(better[0]), better[1])]
    assert [one.node for one in best(listed)] == ["b"]


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage: expected 0 to 100, got 101"),
        ({"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute: expected at least 0"),
        ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}, "minCandidateNodesAbsolute: expected"),
        ({"nodes": 1}, "nodes: unknown argument"),
    ],
)
def test_arguments(args, path):
    with pytest.raises(InputError, match=path):
        TABLE.make("DefaultPreemption", args)


def test_without_the_plugin_nothing_is_preempted():
    profile = Profile.build("none", [(TABLE.make("NodeResourcesFit"), 1)])
    found = preempted(Snapshot.from_objects(nodes=[node("a")], pods=[low("p", "a")]), high(), profile=profile)
    assert (found.node, found.victims, found.message) == (None, (), "")
