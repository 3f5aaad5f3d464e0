"""The cycle: the choice, the ties, what is counted, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from berth_core.cluster.columns import ints
from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import BerthError, InputError, UnschedulableError
from berth_core.framework.adapter import PerNodeFilter, PerNodeScore
from berth_core.framework.contract import SUCCESS, Dirt, unschedulable
from berth_core.framework.cycle import place
from berth_core.framework.profile import Profile
from berth_core.framework.registry import Registry
from berth_core.plugins.node_name import NodeName
from berth_core.plugins.node_resources_fit import NodeResourcesFit
from berth_core.plugins.table import DEFAULT_PROFILE, DEFAULT_WEIGHTS, TABLE, make_profile
from tests.core.cluster.objects import GI, container, disk, node, pod, request, taint


def cluster(*nodes, **more):
    return Snapshot.from_objects(nodes=nodes, **more)


def test_ties_go_to_the_smallest_name():
    outcome = place(DEFAULT_PROFILE, cluster(node("b"), node("a"), node("c")), request())
    assert outcome.placement.node == "a"
    assert outcome.feasible == ("a", "b", "c")


def test_the_highest_total_wins():
    busy = pod("x", [container("3", "6Gi")], node_name="a")
    outcome = place(
        DEFAULT_PROFILE, cluster(node("a"), node("b"), pods=[busy]), request(pod(containers=[container("1", "2Gi")]))
    )
    assert outcome.placement.node == "b"


def test_scores_are_given_when_they_are_asked_for():
    snapshot = cluster(node("a"), node("b", cpu="8"))
    asked = request(pod(containers=[container("1", "1Gi")]))
    assert place(DEFAULT_PROFILE, snapshot, asked).scores == {}
    outcome = place(DEFAULT_PROFILE, snapshot, asked, explain=True)
    weights = dict(DEFAULT_WEIGHTS)
    for score in outcome.scores.values():
        assert score.total == sum(weights[name] * value for name, value in score.plugins.items())
    assert outcome.scores["b"].plugins["NodeResourcesFit"] > outcome.scores["a"].plugins["NodeResourcesFit"]


def test_one_feasible_node_is_not_scored():
    outcome = place(DEFAULT_PROFILE, cluster(node("a"), node("b", unschedulable=True)), request())
    assert outcome.placement.node == "a"
    assert outcome.counts.score_calls == 0


def test_an_existing_replica_returns_without_being_scheduled():
    snapshot = cluster(node("a"), node("b"), node("c"), disks=[disk("d", "b")])
    outcome = place(DEFAULT_PROFILE, snapshot, request(disks=[("data", GI)]), only_node="b")
    assert (outcome.placement.node, outcome.placement.disks) == ("b", {"data": "d"})
    assert outcome.counts.nodes == ("b",)
    assert set(outcome.counts.filter.values()) == {1}
    assert outcome.counts.score_calls == 0


def test_a_node_that_is_not_there():
    outcome = place(DEFAULT_PROFILE, cluster(node("a")), request(), only_node="z")
    assert outcome.diagnosis.message() == '0/1 nodes are available: node "z" not found.'
    assert outcome.counts.filter_calls == 0


def test_no_nodes_at_all():
    assert place(DEFAULT_PROFILE, cluster(), request()).diagnosis.message() == "0/0 nodes are available:"


def test_the_second_request_is_answered_from_kept_columns():
    snapshot = cluster(*(node(f"n{index}") for index in range(5)))
    first = place(DEFAULT_PROFILE, snapshot, request(ordinal=0))
    assert first.counts.computed["NodeResourcesFit"] == 10, "five filtered, five scored"
    snapshot.assume(request(ordinal=0), first.placement)
    second = place(DEFAULT_PROFILE, snapshot, request(ordinal=1))
    assert second.counts.filter["NodeResourcesFit"] == 5
    assert second.counts.computed["NodeResourcesFit"] == 2, "one dirty row, filtered and scored again"


def test_a_pod_on_one_node_changes_kept_verdicts_on_others():
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    snapshot = cluster(node("a"), node("b"))
    asked = request(pod("new", labels={"app": "web"}, topologySpreadConstraints=[constraint]))
    assert place(DEFAULT_PROFILE, snapshot, asked).feasible == ("a", "b")
    snapshot.upsert_pod(pod("x", node_name="a", labels={"app": "web"}))
    assert place(DEFAULT_PROFILE, snapshot, asked).feasible == ("b",)
    snapshot.upsert_pod(pod("y", node_name="b", labels={"app": "web"}))
    assert place(DEFAULT_PROFILE, snapshot, asked).feasible == ("a", "b"), "b filled up, and a may be used again"


def test_profiles_with_other_arguments_do_not_share_verdicts():
    snapshot = cluster(node("a", cpu="1"), node("b"))
    asked = request(pod(containers=[container("500m", "100Mi")]))
    most = make_profile(args={"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}})
    least = place(DEFAULT_PROFILE, snapshot, asked, explain=True).scores["a"].plugins["NodeResourcesFit"]
    assert place(most, snapshot, asked, explain=True).scores["a"].plugins["NodeResourcesFit"] != least


# -- words


def test_the_message_is_kube_schedulers_own():
    nodes = [
        node("a", unschedulable=True),
        node("b", taints=[taint("k")]),
        node("c", taints=[taint("k")]),
        node("d", cpu="1", memory="1Gi"),
    ]
    outcome = place(DEFAULT_PROFILE, cluster(*nodes), request(pod(containers=[container("2", "2Gi")])))
    assert outcome.diagnosis.summary() == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) were unschedulable, "
        "2 node(s) had untolerated taint(s)."
    )
    verdict = outcome.diagnosis.nodes["d"]
    assert (verdict.plugin, verdict.reasons, verdict.resolvable) == (
        "NodeResourcesFit",
        ("Insufficient cpu", "Insufficient memory"),
        False,
    )


def test_hints_name_what_would_make_it_fit():
    nodes = [node("h1"), node("h2"), node("h3", unschedulable=True), node("h4", taints=[taint("k", value="v")])]
    disks = [disk("h1-a", "h1", GI >> 1), disk("h2-a", "h2", GI), disk("h3-a", "h3", GI), disk("h4-a", "h4", GI)]
    busy = pod("x", [container("3800m")], node_name="h2")
    outcome = place(
        DEFAULT_PROFILE,
        cluster(*nodes, disks=disks, pods=[busy]),
        request(pod(containers=[container("500m")]), [("data", GI, "fast")]),
    )
    assert outcome.diagnosis.hints() == (
        "a local disk of at least 1Gi of class fast on h1",
        "free 300m cpu on h2",
        "uncordon h3",
        "tolerate k=v:NoSchedule of h4",
    )


def test_a_node_that_needs_two_things_is_told_both_and_last():
    nodes = [node("h1", unschedulable=True), node("h2", unschedulable=True)]
    outcome = place(DEFAULT_PROFILE, cluster(*nodes, disks=[disk("d", "h2")]), request(disks=[("data", GI)]))
    assert outcome.diagnosis.hints() == ("uncordon h2", "uncordon h1 and a local disk of at least 1Gi on h1")


def test_require():
    snapshot = cluster(node("a", unschedulable=True))
    with pytest.raises(
        UnschedulableError, match=r"default/web-0 does not fit: 0/1 nodes are available: 1 node\(s\) were unsch"
    ) as caught:
        place(DEFAULT_PROFILE, snapshot, request()).require("default/web-0")
    assert caught.value.details["hints"] == ["uncordon a"]
    assert place(DEFAULT_PROFILE, cluster(node("a")), request()).require("x").node == "a"


def test_many_disks_do_not_make_a_message_nobody_reads():
    nodes = [node(f"n{index:03}") for index in range(300)]
    disks = [disk(f"d{index:03}", f"n{index:03}", GI) for index in range(300)]
    outcome = place(DEFAULT_PROFILE, cluster(*nodes, disks=disks), request(disks=[("data", 2 * GI)]))
    message = outcome.diagnosis.message()
    assert "300 node(s) didn't have a free local disk for data" in message
    assert "300 too small (d000 1Gi of 2Gi, d001 1Gi of 2Gi, d002 1Gi of 2Gi, d003 1Gi of 2Gi and 296 more)" in message
    assert len(message) < 600


# -- profiles, the registry, plugins from outside


def test_a_name_is_registered_once():
    with pytest.raises(InputError, match="NodeName is registered twice"):
        TABLE.extended([("NodeName", lambda args, path: NodeName())])
    assert list(TABLE.names) == sorted(TABLE.names)


def test_an_unknown_plugin_is_named_with_those_that_are_known():
    with pytest.raises(InputError, match=r"unknown plugin 'NodeNam': expected one of .*NodeName"):
        TABLE.make("NodeNam")


def test_a_plugin_is_enabled_once():
    with pytest.raises(InputError, match="NodeName is enabled twice"):
        Profile.build("p", [(NodeName(), 0), (NodeName(), 0)])


def test_a_plugin_for_single_nodes_becomes_a_column():
    even = PerNodeFilter(
        "Even", lambda _request, info: SUCCESS if int(info.name[1:]) % 2 == 0 else unschedulable("node(s) were odd")
    )
    high = PerNodeScore("High", lambda _request, info: 10 * int(info.name[1:]))
    profile = Profile.build("outside", [(even, 0), (high, 2)])
    outcome = place(profile, cluster(*(node(f"n{index}") for index in range(6))), request(), explain=True)
    assert outcome.placement.node == "n4"
    assert outcome.feasible == ("n0", "n2", "n4")
    assert outcome.scores["n4"].total == 80
    assert outcome.diagnosis.nodes["n1"].reasons == ("node(s) were odd",)


@dataclass(frozen=True)
class Wrong:
    """Scores above 100."""

    name: str = "Wrong"
    score_dirt: Dirt = Dirt.ALL

    def score_key(self, cycle: Any) -> None:
        return None

    def score(self, cycle: Any, rows: Any) -> Any:
        return ints(len(rows), 101)


def test_a_score_outside_the_range_is_refused():
    with pytest.raises(BerthError, match=r"plugin Wrong scored outside 0 to 100 \(101 to 101\)"):
        place(Profile.build("p", [(Wrong(), 1)]), cluster(node("a"), node("b")), request())


def test_a_plugin_without_weight_does_not_score():
    assert place(Profile.build("p", [(Wrong(), 0)]), cluster(node("a"), node("b")), request()).placement.node == "a"


@pytest.mark.parametrize("name", [name for name, _weight in DEFAULT_WEIGHTS])
def test_arguments_that_a_plugin_does_not_have_are_refused_with_their_path(name):
    with pytest.raises(InputError, match=rf"pluginConfig\[{name}\].args.nonsense: unknown argument"):
        TABLE.make(name, {"nonsense": 1})


LIKE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Like"}]}]}


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "Best"}},
            "scoringStrategy.type: expected one of LeastAllocated",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            r"resources\[0\].weight",
        ),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": [{"weight": 1}]}}, r"resources\[0\].name"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "shape: expected at least one point",
        ),
        ("NodeResourcesFit", {"ignoredResources": "cpu"}, "ignoredResources must be a list of strings"),
        ("NodeAffinity", {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": LIKE}}, "Like"),
        ("PodTopologySpread", {"defaultingType": "Some"}, "defaultingType: expected List"),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "z", "labelSelector": {}}]},
            "selector of the workload",
        ),
    ],
)
def test_bad_arguments_are_refused_with_their_path(name, args, words):
    with pytest.raises(InputError, match=words):
        TABLE.make(name, args)


def test_registries_are_extended_not_changed():
    more = Registry([("A", lambda args, path: NodeName())]).extended([("B", lambda args, path: NodeResourcesFit())])
    assert more.names == ("A", "B")
