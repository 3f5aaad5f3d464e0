"""PodTopologySpread's default constraints: whose pods are spread, when neither the pod nor the request says so."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.cluster.workloads import STATEFUL_SET
from berth_core.plugins.pod_topology_spread import PodTopologySpread
from tests.core.cluster.objects import node, pod, request
from tests.core.plugins.helpers import judged, passing, scored

HARD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
LISTED = PodTopologySpread.from_args({"defaultConstraints": [HARD]}, "args")
SYSTEM = PodTopologySpread.from_args({"defaultingType": "System"}, "args")
LABELS = {"app": "web"}


def named(name, spec, namespace="default"):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def owned(kind="StatefulSet", version="apps/v1", controller=True):
    made = pod("new", labels=LABELS)
    owner = {"apiVersion": version, "kind": kind, "name": "web", "uid": "u", "controller": controller}
    made["metadata"]["ownerReferences"] = [owner]
    return request(made)


def cluster(**more):
    nodes = [node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"})]
    return Snapshot.from_objects(nodes=nodes, pods=[pod("old", node_name="a", labels=LABELS)], **more)


SELECTED = {"selector": {"matchLabels": LABELS}}


@pytest.mark.parametrize(
    "more",
    [
        {"services": [named("web", {"selector": LABELS})]},
        {"stateful_sets": [named("web", SELECTED)]},
    ],
)
def test_services_and_controllers_say_who_belongs_together(more):
    assert passing(LISTED, cluster(**more), owned()) == ["b"]
    assert scored(SYSTEM, cluster(**more), owned()) == {"a": 66, "b": 100}


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, owned()),
        ({"services": [named("web", {"selector": LABELS}, "other")]}, owned()),
        ({"services": [named("web", {})]}, owned()),
        ({"services": [named("db", {"selector": {"app": "db"}})]}, owned()),
        ({"stateful_sets": [named("web", SELECTED)]}, owned(controller=False)),
        ({"stateful_sets": [named("web", SELECTED)]}, owned(version="apps.kruise.io/v1")),
        ({"replica_sets": [named("web", SELECTED)]}, owned()),
    ],
)
def test_nobody_belongs_together_by_chance(more, asked):
    assert judged(LISTED, cluster(**more), asked) == "skipped"


def test_a_controller_that_changes_is_followed():
    snapshot = cluster(stateful_sets=[named("web", SELECTED)])
    snapshot.workloads.upsert_controller(STATEFUL_SET, named("web", {"selector": {"matchLabels": {"app": "x"}}}))
    assert passing(LISTED, snapshot, owned()) == ["a", "b"]
    snapshot.workloads.remove_controller(STATEFUL_SET, "default", "web")
    assert judged(LISTED, snapshot, owned()) == "skipped"
