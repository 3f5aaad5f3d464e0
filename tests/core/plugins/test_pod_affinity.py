"""InterPodAffinity: who is near whom, in which domain, and whose wish counts."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import InputError, SelectorError
from berth_core.framework.contract import Code
from berth_core.model.pod import PodInfo
from berth_core.plugins.inter_pod_affinity import InterPodAffinity
from tests.core.cluster.objects import node, pod, request
from tests.core.plugins.helpers import codes, judged, passing, scored

HOST = "kubernetes.io/hostname"
PLUGIN = InterPodAffinity()
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
NODES = [node(name, labels={"zone": name[0]}) for name in ("a1", "a2", "b1", "b2")]


def term(app="web", key="zone", **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def affinity(kind, *terms, weight=0):
    if weight:
        return {"affinity": {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": one} for one in terms]}}}
    return {"affinity": {kind: {REQUIRED: list(terms)}}}


def near(*terms, weight=0):
    return affinity("podAffinity", *terms, weight=weight)


def away(*terms, weight=0):
    return affinity("podAntiAffinity", *terms, weight=weight)


def new(app="web", **spec):
    return request(pod("new", labels={"app": app, "rev": "1"}, **spec))


def cluster(*pods, **more):
    return Snapshot.from_objects(nodes=NODES, pods=pods, **more)


def running(where, app="web", name="", namespace="default", **spec):
    return pod(name or f"{app}-{where}", node_name=where, labels={"app": app}, namespace=namespace, **spec)


def test_near_means_in_the_same_domain():
    snapshot = cluster(running("a1", "db"))
    assert passing(PLUGIN, snapshot, new(**near(term("db")))) == ["a1", "a2"]
    assert passing(PLUGIN, snapshot, new(**near(term("db", HOST)))) == ["a1"]
    assert codes(PLUGIN, snapshot, new(**near(term("db"))))["b1"] == Code.UNRESOLVABLE


def test_one_pod_must_meet_all_terms():
    snapshot = cluster(running("a1", "db"), running("b1", "cache"))
    assert passing(PLUGIN, snapshot, new(**near(term("db"), term("cache")))) == []


def test_the_first_of_a_group_may_go_anywhere_that_has_the_label():
    assert passing(PLUGIN, cluster(), new(**near(term("web")))) == ["a1", "a2", "b1", "b2"]
    assert passing(PLUGIN, cluster(), new(**near(term("web", "rack")))) == []
    assert passing(PLUGIN, cluster(), new("other", **near(term("web")))) == []
    assert passing(PLUGIN, cluster(running("b1")), new(**near(term("web")))) == ["b1", "b2"]


def test_away_means_out_of_the_domain():
    snapshot = cluster(running("a1"))
    assert judged(PLUGIN, snapshot, new(**away(term())))["a2"] == ("node(s) didn't match pod anti-affinity rules",)
    assert passing(PLUGIN, snapshot, new(**away(term()))) == ["b1", "b2"]
    assert codes(PLUGIN, snapshot, new(**away(term())))["a1"] == Code.UNSCHEDULABLE


def test_pods_that_are_there_keep_others_away():
    snapshot = cluster(running("a1", "db", **away(term("web"))))
    assert judged(PLUGIN, snapshot, new())["a2"] == ("node(s) didn't satisfy existing pods anti-affinity rules",)
    assert judged(PLUGIN, snapshot, new("other")) == "skipped"


def test_a_pod_that_is_going_counts_until_it_is_gone():
    leaving = running("a1", name="leaving", **away(term(key=HOST)))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    snapshot = cluster(leaving)
    assert passing(PLUGIN, snapshot, new()) == ["a2", "b1", "b2"]
    assert passing(PLUGIN, snapshot, new("x", **near(term()))) == ["a1", "a2"]
    snapshot.remove_pod("default", "leaving")
    assert judged(PLUGIN, snapshot, new()) == "skipped"
    assert passing(PLUGIN, snapshot, new("x", **near(term()))) == []


def test_namespaces():
    teams = [
        {"metadata": {"name": "other", "labels": {"team": "blue"}}},
        {"metadata": {"name": "third", "labels": {"team": "red"}}},
    ]
    snapshot = cluster(running("a1", namespace="other"), running("b1", namespace="third"), namespaces=teams)
    assert passing(PLUGIN, snapshot, new(**away(term()))) == ["a1", "a2", "b1", "b2"]
    assert passing(PLUGIN, snapshot, new(**away(term(namespaces=["third"])))) == ["a1", "a2"]
    assert passing(PLUGIN, snapshot, new(**away(term(namespaceSelector={})))) == []
    blue = term(namespaceSelector={"matchLabels": {"team": "blue"}})
    assert passing(PLUGIN, snapshot, new(**away(blue))) == ["b1", "b2"]
    snapshot.upsert_namespace({"metadata": {"name": "third", "labels": {"team": "blue"}}})
    assert passing(PLUGIN, snapshot, new(**away(blue))) == []
    snapshot.remove_namespace("other")
    assert passing(PLUGIN, snapshot, new(**away(blue))) == ["a1", "a2"]


@pytest.mark.parametrize(("stored", "expected"), [(False, ["a1", "a2", "b1", "b2"]), (True, ["b1", "b2"])])
def test_label_keys_are_merged_for_a_pod_that_the_api_server_has_not_seen(stored, expected):
    asked = pod("new", labels={"app": "web", "rev": "2"}, **away(term(matchLabelKeys=["rev"])))
    if stored:
        asked["metadata"]["resourceVersion"] = "7"
    old = running("a1")
    old["metadata"]["labels"]["rev"] = "1"
    assert passing(PLUGIN, cluster(old), request(asked)) == expected


def test_wishes_of_both_sides_add_up():
    snapshot = cluster(running("a1", "db"), running("b1", "fan", **near(term("web"), weight=30)))
    assert scored(PLUGIN, snapshot, new(**near(term("db"), weight=10)), raw=True) == {
        "a1": 10,
        "a2": 10,
        "b1": 30,
        "b2": 30,
    }
    assert scored(PLUGIN, snapshot, new(**near(term("db"), weight=10))) == {"a1": 0, "a2": 0, "b1": 100, "b2": 100}
    assert scored(PLUGIN, snapshot, new(**away(term("db", HOST), weight=10)), raw=True)["a1"] == -10
    assert scored(PLUGIN, snapshot, new("other")) == "skipped"


def test_what_a_pod_requires_is_a_wish_about_others():
    snapshot = cluster(running("a1", "fan", **near(term("web"))))
    assert scored(InterPodAffinity(hard_weight=7), snapshot, new(), raw=True)["a2"] == 7
    assert scored(InterPodAffinity(hard_weight=0), snapshot, new()) == "skipped"


def test_existing_preferences_can_be_left_out():
    snapshot = cluster(running("b1", "fan", **near(term("web"), weight=30)))
    plugin = InterPodAffinity.from_args({"ignorePreferredTermsOfExistingPods": True}, "args")
    assert scored(plugin, snapshot, new()) == "skipped"


@pytest.mark.parametrize("weight", [-1, 101, "1", True])
def test_wrong_arguments_name_their_path(weight):
    with pytest.raises(InputError, match=r"^args\.hardPodAffinityWeight"):
        InterPodAffinity.from_args({"hardPodAffinityWeight": weight}, "args")


@pytest.mark.parametrize(
    "spec", [near(term(key="")), near(term(), weight=101), near({**term(), "labelSelector": {"x": 1}})]
)
def test_wrong_terms_name_their_path(spec):
    with pytest.raises(SelectorError, match=r"^pod default/p: spec\.affinity\.podAffinity"):
        PodInfo.from_manifest(pod(**spec))


def test_nodes_that_come_and_go_take_their_terms_along():
    snapshot = cluster(running("a1", "db", **away(term("web"))))
    snapshot.remove_node("a1")
    assert judged(PLUGIN, snapshot, new()) == "skipped"
    snapshot.upsert_node(node("a0", labels={"zone": "b"}))
    snapshot.upsert_node(NODES[0])
    assert passing(PLUGIN, snapshot, new()) == ["a0", "b1", "b2"]
