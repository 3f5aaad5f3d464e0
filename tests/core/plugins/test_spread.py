"""PodTopologySpread: skew, domains, policies, and the traps of which pods and nodes count."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.model.labels import LabelSelector
from berth_core.plugins.pod_topology_spread import PodTopologySpread
from tests.core.cluster.objects import berth, node, pod, request, taint
from tests.core.plugins.helpers import judged, passing, scored

APP = MappingProxyType({"app": "web"})
HOST = "kubernetes.io/hostname"
SKEWED = ("node(s) didn't match pod topology spread constraints",)
NO_LABEL = ("node(s) didn't match pod topology spread constraints (missing required label)",)


def spread(key="zone", skew=1, soft=False, selector=APP, **more):
    action = "ScheduleAnyway" if soft else "DoNotSchedule"
    labels = {} if selector is None else {"labelSelector": {"matchLabels": selector}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, **labels, **more}


def wants(*constraints, labels=APP, **spec):
    return request(pod("new", labels=labels, topologySpreadConstraints=list(constraints), **spec))


def zoned(**zones):
    return [node(name, labels={"zone": zone} if zone else {}) for name, zone in zones.items()]


def on(*names, labels=APP, **more):
    return [pod(f"p{index}-{name}", node_name=name, labels=labels, **more) for index, name in enumerate(names)]


def cluster(nodes, pods=(), **more):
    return Snapshot.from_objects(nodes=nodes, pods=pods, **more)


FOUR = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}


@pytest.mark.parametrize(
    ("pods", "skew", "expected"),
    [
        ([], 1, ["a1", "a2", "b1", "b2"]),
        (["a1"], 1, ["b1", "b2"]),
        (["a1"], 2, ["a1", "a2", "b1", "b2"]),
        (["a1", "a2", "b1"], 1, ["b1", "b2"]),
        (["a1", "b1"], 1, ["a1", "a2", "b1", "b2"]),
    ],
)
def test_zones(pods, skew, expected):
    assert passing(PodTopologySpread(), cluster(zoned(**FOUR), on(*pods)), wants(spread(skew=skew))) == expected


def test_hosts_are_domains_of_their_own():
    assert passing(PodTopologySpread(), cluster(zoned(**FOUR), on("a1", "b1")), wants(spread(HOST))) == ["a2", "b2"]


def test_all_constraints_must_hold():
    snapshot = cluster(zoned(**FOUR), on("a1", "b1", "b2"))
    assert passing(PodTopologySpread(), snapshot, wants(spread(), spread(HOST))) == ["a2"]


def test_a_pod_that_does_not_match_its_own_selector_adds_nothing():
    assert passing(
        PodTopologySpread(), cluster(zoned(**FOUR), on("a1")), wants(spread(), labels={"app": "other"})
    ) == list(FOUR)


def test_a_node_without_the_label_is_out_and_its_pods_do_not_count():
    snapshot = cluster(zoned(**FOUR, c1=None), on("c1", "c1", "a1"))
    assert judged(PodTopologySpread(), snapshot, wants(spread())) == {
        "a1": SKEWED,
        "a2": SKEWED,
        "b1": (),
        "b2": (),
        "c1": NO_LABEL,
    }


def test_an_empty_value_is_a_domain():
    nodes = [node("a", labels={"zone": ""}), node("b", labels={"zone": "b"})]
    assert passing(PodTopologySpread(), cluster(nodes, on("b")), wants(spread())) == ["a"]


@pytest.mark.parametrize("kind", ["namespace", "terminating", "finished", "other labels"])
def test_pods_that_do_not_count(kind):
    pods = on(
        "a1",
        namespace="other" if kind == "namespace" else "default",
        labels={"app": "x"} if kind == "other labels" else APP,
    )
    if kind == "terminating":
        pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if kind == "finished":
        pods[0]["status"] = {"phase": "Succeeded"}
    assert passing(PodTopologySpread(), cluster(zoned(**FOUR), pods), wants(spread())) == list(FOUR)


def test_a_berth_counts_before_its_pod():
    snapshot = cluster(zoned(**FOUR), berths=[berth("web", 0, "a1", labels=APP)])
    assert passing(PodTopologySpread(), snapshot, wants(spread())) == ["b1", "b2"]


def test_no_selector_counts_nobody_and_an_empty_one_counts_the_pod_alone():
    snapshot = cluster(zoned(**FOUR), on("a1", "a1", "a1"))
    assert passing(PodTopologySpread(), snapshot, wants(spread(selector=None))) == list(FOUR)
    # The trap: an empty selector selects the new pod itself, but no pods are counted for it.
    assert passing(PodTopologySpread(), snapshot, wants(spread(selector={}))) == list(FOUR)
    assert passing(PodTopologySpread(), cluster(zoned(a="a")), wants(spread(selector={}, minDomains=2))) == ["a"]


@pytest.mark.parametrize(("domains", "expected"), [(1, []), (2, []), (3, [])])
def test_fewer_domains_than_wanted_count_as_empty_ones(domains, expected):
    snapshot = cluster(zoned(**FOUR), on("a1", "b1"))
    passes = passing(PodTopologySpread(), snapshot, wants(spread(minDomains=domains)))
    assert passes == (list(FOUR) if domains <= 2 else expected)


def test_nodes_that_the_pod_cannot_use_are_no_domains_unless_the_policy_says_so():
    nodes = [*zoned(a="a", b="b"), node("c", labels={"zone": "c", "old": ""}, taints=[taint("k")])]
    snapshot = cluster(nodes, on("a", "b"))
    never = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}]
        }
    }
    picky = {"affinity": {"nodeAffinity": never}}
    plugin = PodTopologySpread()
    assert passing(plugin, snapshot, wants(spread())) == ["c"], "taints are ignored by default: c is an empty domain"
    assert passing(plugin, snapshot, wants(spread(nodeTaintsPolicy="Honor"))) == ["a", "b", "c"]
    assert passing(plugin, snapshot, wants(spread(), **picky)) == ["a", "b", "c"], "affinity is honoured by default"
    assert passing(plugin, snapshot, wants(spread(nodeAffinityPolicy="Ignore"), **picky)) == ["c"]


def test_match_label_keys_tell_revisions_apart():
    pods = on("a1", labels={**APP, "rev": "1"})
    snapshot = cluster(zoned(**FOUR), pods)
    same, other = {**APP, "rev": "1"}, {**APP, "rev": "2"}
    assert passing(PodTopologySpread(), snapshot, wants(spread(matchLabelKeys=["rev"]), labels=same)) == ["b1", "b2"]
    assert passing(PodTopologySpread(), snapshot, wants(spread(matchLabelKeys=["rev"]), labels=other)) == list(FOUR)


def test_a_pod_without_constraints_is_not_looked_at():
    snapshot = cluster(zoned(**FOUR))
    assert judged(PodTopologySpread(), snapshot, wants()) == "skipped"
    assert judged(PodTopologySpread(), snapshot, wants(spread(soft=True))) == "skipped"
    assert scored(PodTopologySpread(), snapshot, wants(spread())) == "skipped"


# -- wishes


def test_emptier_domains_score_more():
    snapshot = cluster(zoned(**FOUR), on("a1", "a2", "b1"))
    # Two domains: 2 pods * ln 4 and 1 pod * ln 4 round to 3 and 1; 100 * (3 + 1 - s) / 3.
    assert scored(PodTopologySpread(), snapshot, wants(spread(soft=True)), raw=True) == {
        "a1": 3,
        "a2": 3,
        "b1": 1,
        "b2": 1,
    }
    assert scored(PodTopologySpread(), snapshot, wants(spread(soft=True))) == {"a1": 33, "a2": 33, "b1": 100, "b2": 100}


def test_no_pods_score_100_everywhere():
    assert set(scored(PodTopologySpread(), cluster(zoned(**FOUR)), wants(spread(soft=True))).values()) == {100}


def test_a_larger_skew_waters_differences_down():
    snapshot = cluster(zoned(**FOUR), on("a1", "a2", "b1"))
    found = scored(PodTopologySpread(), snapshot, wants(spread(soft=True, skew=5)))
    assert found["b1"] == 100
    assert found["a1"] > 33


def test_pods_on_nodes_that_were_filtered_out_still_count():
    snapshot = cluster(zoned(**FOUR), on("a2", "a2"))
    found = scored(PodTopologySpread(), snapshot, wants(spread(soft=True)), among=["a1", "b1"])
    assert found["b1"] == 100
    assert found["a1"] == 0


def test_a_node_without_the_label_scores_nothing():
    snapshot = cluster(zoned(**FOUR, c1=None), on("a1"))
    assert scored(PodTopologySpread(), snapshot, wants(spread(soft=True)))["c1"] == 0


def test_cluster_wide_defaults_are_off_unless_asked_for_and_know_the_workload():
    nodes = [node(name, labels={"topology.kubernetes.io/zone": zone}) for name, zone in FOUR.items()]
    snapshot = cluster(nodes, on("a1", "a1", "a1"))
    plain, known = wants(), request(pod("new", labels=APP), default_spread=LabelSelector.from_labels(APP))
    system = PodTopologySpread.from_args({"defaultingType": "System"}, "args")
    assert scored(PodTopologySpread(), snapshot, known) == "skipped"
    assert scored(system, snapshot, plain) == "skipped"
    found = scored(system, snapshot, known)
    # Pods times ln(4 + 2) per host plus 2, times ln(2 + 2) per zone plus 4: 16, 10, 6, 6.
    assert found == {"a1": 37, "a2": 75, "b1": 100, "b2": 100}


def test_system_defaults_do_not_ask_for_every_label():
    snapshot = cluster([node("a"), node("b")], on("a"))
    known = request(pod("new", labels=APP), default_spread=LabelSelector.from_labels(APP))
    system = PodTopologySpread.from_args({"defaultingType": "System"}, "args")
    found = scored(system, snapshot, known)
    assert found["b"] == 100
    assert found["a"] < 100


def test_default_constraints_of_the_profile():
    listed = PodTopologySpread.from_args({"defaultConstraints": [spread(selector=None)]}, "args")
    known = request(pod("new", labels=APP), default_spread=LabelSelector.from_labels(APP))
    assert passing(listed, cluster(zoned(**FOUR), on("a1")), known) == ["b1", "b2"]
