"""What extenders said of nodes: behind every filter, added to every score, and asked about what came to fit since."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.cluster.snapshot import Snapshot
from berth_core.config.configuration import SchedulerConfiguration
from berth_core.framework.contract import Code, unresolvable, unschedulable
from berth_core.framework.cycle import place
from berth_core.framework.dry_run import post_filter
from berth_core.framework.extended import NAME, NOT_ASKED, Extended
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.default_preemption import choose
from berth_core.plugins.table import DEFAULT_PROFILE
from tests.core.cluster.objects import container, node, pod

FILE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FULL, BROKEN = unschedulable("full"), unresolvable("broken")


def request(name="p", cpu="1", **status):
    found = pod(name, [container(cpu)])
    found["status"] = status
    return PlacementRequest(PodInfo.from_manifest(found))


@pytest.fixture
def snapshot():
    return Snapshot.from_objects(nodes=[node(name, cpu=cpu) for name, cpu in (("a", "8"), ("b", "4"), ("c", "2"))])


def asked_all(**refused):
    return Extended().and_now("abc", refused, {})


@given(st.integers(0, 1 << 32))
def test_who_says_nothing_changes_nothing(seed):
    rng = Random(seed)
    nodes = [node(f"n{number}", cpu=str(rng.randint(0, 4))) for number in range(rng.randint(1, 12))]
    snapshot = Snapshot.from_objects(nodes=nodes)
    asked = request(cpu=str(rng.randint(0, 5)))
    plain = place(DEFAULT_PROFILE, snapshot, asked, hints=False)
    for extended in (Extended(), Extended().and_now(snapshot.nodes.names, {}, {}).close()):
        found = place(DEFAULT_PROFILE, snapshot, asked, hints=False, extended=extended)
        assert (found.placement, found.feasible) == (plain.placement, plain.feasible)
        assert found.totals.tolist() == plain.totals.tolist()
        assert found.diagnosis.summary() == plain.diagnosis.summary()


def test_refusals_stand_behind_the_filters(snapshot):
    found = place(DEFAULT_PROFILE, snapshot, request(cpu="3"), extended=asked_all(a=FULL, c=BROKEN))
    assert found.feasible == ("b",)
    found = place(DEFAULT_PROFILE, snapshot, request(cpu="3"), hints=False, extended=asked_all(a=FULL, b=BROKEN))
    assert found.placement is None
    verdicts = {name: (one.plugin, one.reasons, one.resolvable) for name, one in found.diagnosis.nodes.items()}
    assert verdicts == {
        "a": (NAME, ("full",), True),
        "b": (NAME, ("broken",), False),
        "c": ("NodeResourcesFit", ("Insufficient cpu",), False),
    }
    assert found.diagnosis.summary() == "0/3 nodes are available: 1 Insufficient cpu, 1 broken, 1 full."


def test_scores_are_added_to_those_of_the_plugins(snapshot):
    plain = place(DEFAULT_PROFILE, snapshot, request())
    extended = Extended().and_now("abc", {}, {"c": 1000, "b": 10})
    found = place(DEFAULT_PROFILE, snapshot, request(), extended=extended)
    assert found.placement.node == "c"
    assert (found.totals - plain.totals).tolist() == [0, 10, 1000]
    again = extended.and_now("a", {}, {"a": 2000})
    assert place(DEFAULT_PROFILE, snapshot, request(), extended=again).placement.node == "a", "the last answer counts"


def test_a_node_that_nobody_was_asked_about(snapshot):
    extended = Extended().and_now("b", {"b": FULL}, {})
    assert place(DEFAULT_PROFILE, snapshot, request(), extended=extended).feasible == ("a", "c")
    found = place(DEFAULT_PROFILE, snapshot, request(), hints=False, extended=extended.close())
    assert found.placement is None
    said = {name: one.reasons for name, one in found.diagnosis.nodes.items()}
    assert said == {"a": NOT_ASKED.reasons, "b": ("full",), "c": NOT_ASKED.reasons}


def test_a_pod_that_is_nominated_is_placed_on_its_node_unless_an_extender_refuses_it(snapshot):
    asked = request(nominatedNodeName="b")
    for extended, feasible in (
        (Extended(), ("b",)),
        (asked_all(), ("b",)),
        (asked_all(b=FULL), ("a", "c")),
        (Extended().close(), ()),
    ):
        found = place(DEFAULT_PROFILE, snapshot, asked, hints=False, nominated={}, extended=extended)
        assert found.feasible == feasible


def test_all_nodes_on_which_room_could_be_made_are_told(snapshot):
    profile = SchedulerConfiguration.parse(FILE).profiles[0].build()
    for name, cpu in (("a", "7"), ("b", "3"), ("c", "2")):
        snapshot.put_pod(PodInfo.from_manifest(pod(f"on-{name}", [container(cpu)], node_name=name)))
    asked = PlacementRequest(PodInfo.from_manifest(pod("p", [container("2")], priority=10)))
    refused = place(profile, snapshot, asked, hints=False)
    found = post_filter(profile, snapshot, asked, refused.diagnosis)
    assert [one.node for one in found.candidates] == ["a", "b", "c"]
    assert choose([one for one in found.candidates if one.node == "b"]).node == "b"
    assert choose([]).message == "preemption: no candidate node for preemption"
    assert choose([]).node is None, "what is nominated already stays"


def test_what_extenders_manage_may_be_ignored_by_the_scheduler():
    source = {
        **FILE,
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/x"]}}]}],
        "extenders": [
            {"urlPrefix": "http://first", "ignorable": True},
            {
                "urlPrefix": "http://second",
                "managedResources": [
                    {"name": "example.com/ours", "ignoredByScheduler": True},
                    {"name": "example.com/both"},
                ],
            },
        ],
    }
    found = SchedulerConfiguration.parse(source)
    assert [one.url_prefix for one in found.extenders_in_order()] == ["http://second", "http://first"]
    (profile,) = found.profiles
    asked = pod("p", [container("1", **{"example.com/ours": "3"})])
    snapshot = Snapshot.from_objects(nodes=[node("a")])
    outcome = place(profile.build(), snapshot, PlacementRequest(PodInfo.from_manifest(asked)), hints=False)
    assert outcome.placement.node == "a"
    assert {one.status.code for one in outcome.diagnosis.refusals} <= {Code.SUCCESS}
