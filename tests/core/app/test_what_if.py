"""Where pods and replicas would go: every node has a verdict, scores add up, who is asked changes nothing."""

from __future__ import annotations

import pytest

from berth_core.app.choose import World, choose, snapshot_of
from berth_core.app.claims import PROVISIONER
from berth_core.app.wanted import parse_app
from berth_core.app.what_if import Listed, asks_for_capacity, judge_app, judge_pod
from berth_core.errors import StateError
from berth_core.plugins.table import DEFAULT_PROFILE, make_profile
from tests.core.app.samples import changed
from tests.core.cluster.objects import (
    GI,
    berth,
    capacity,
    claim,
    claim_ref,
    container,
    csi_driver,
    disk,
    node,
    pod,
    retained,
    storage_class,
    taint,
)


def lists(*nodes, **more):
    return {"Node": list(nodes), **more}


def judge(pod_manifest, listed, **more):
    return judge_pod(DEFAULT_PROFILE, Listed(listed), pod_manifest, **more)


def test_scores_before_and_after_they_are_normalized():
    listed = lists(node("a"), node("b", taints=[taint("slow", "PreferNoSchedule")]), node("c", cpu="8"))
    (row,) = judge(pod(containers=[container("1", "1Gi")]), listed)
    assert (row["fits"], row["node"], row["best_nodes"]) == (True, "c", ["c"])
    weights = {scorer.name: scorer.weight for scorer in DEFAULT_PROFILE.scorers}
    for name in ("a", "b", "c"):
        verdict = row["nodes"][name]
        assert verdict["total"] == sum(one["weighted"] for one in verdict["scores"].values())
        for plugin, one in verdict["scores"].items():
            assert one["weight"] == weights[plugin]
            assert one["weighted"] == one["weight"] * one["normalized"]
    slow = row["nodes"]["b"]["scores"]["TaintToleration"]
    assert (slow["raw"], slow["normalized"]) == (1, 0), "one taint that is not tolerated, the most of all nodes"


def test_every_node_has_its_reason_and_there_is_a_way_out():
    small, cordoned = node("a", cpu="1"), node("b", unschedulable=True)
    (row,) = judge(pod(containers=[container("2")]), lists(small, cordoned))
    assert (row["fits"], row["node"], row["disks"]) == (False, None, {})
    assert row["nodes"]["a"] == {
        "fits": False,
        "plugin": "NodeResourcesFit",
        "reasons": ["Insufficient cpu"],
        # More than the whole node has: nobody who leaves it would help.
        "resolvable": False,
    }
    assert row["nodes"]["b"]["plugin"] == "NodeUnschedulable"
    assert row["message"].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")
    assert any("a" in hint and "cpu" in hint for hint in row["hints"]), row["hints"]


def test_a_refusal_of_the_whole_pod_is_every_nodes_verdict():
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]
    (row,) = judge(pod(volumes=volumes), lists(node("a"), node("b")))
    assert not row["fits"]
    assert {name: one["reasons"] for name, one in row["nodes"].items()} == {
        "a": ['persistentvolumeclaim "gone" not found'],
        "b": ['persistentvolumeclaim "gone" not found'],
    }


def mounting(name, claim_name):
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}])


def pending(name):
    return {**claim(name, accessModes=["ReadWriteOnce"]), "status": {"phase": "Pending"}}


def test_a_claim_of_a_local_class_asks_for_a_disk():
    known = Listed(
        lists(
            node("a"),
            node("b"),
            LocalDisk=[disk("d", "b", size=2 * GI, storage_class="local")],
            StorageClass=[storage_class(provisioner=PROVISIONER)],
            PersistentVolumeClaim=[pending("one"), pending("two")],
        )
    )
    (first,) = judge_pod(DEFAULT_PROFILE, known, mounting("p", "one"))
    assert (first["node"], first["disks"]) == ("b", {"v": "d"}), first["message"]
    assert first["nodes"]["a"]["plugin"] == "LocalDiskFit"
    (again,) = judge_pod(DEFAULT_PROFILE, known, mounting("q", "one"))
    assert again["disks"] == {"v": "d"}, "the same claim has the same disk"
    (second,) = judge_pod(DEFAULT_PROFILE, known, mounting("r", "two"))
    assert (second["fits"], second["local_disks"][0]["fits"]) == (False, False), "one disk, two claims"


def ephemeral(of_pod):
    """Objects of a pod with an ephemeral volume, whose name an earlier one had that has left its data on node b."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": of_pod, "controller": True}
    made = claim("p-tmp", storage_class="b")
    made["metadata"]["ownerReferences"] = [owner]
    kept = {**retained("pvc.p-tmp", 0, "p-tmp"), "namespaceUID": "ns-1", "podUID": "p-1"}
    return lists(
        *(node("a"), node("b")),
        Namespace=[{"metadata": {"name": "default", "uid": "ns-1"}}],
        StorageClass=[storage_class("b", True, PROVISIONER)],
        PersistentVolumeClaim=[made],
        LocalDisk=[disk("d1", "a", storage_class="b"), disk("d2", "b", storage_class="b", retainedFor=kept)],
    )


@pytest.mark.parametrize(("uid", "there"), [("p-1", ("b", {"tmp": "d2"})), ("p-2", ("a", {"tmp": "d1"}))])
def test_an_ephemeral_volume_has_the_data_of_its_own_pod_alone(uid, there):
    manifest = pod("p", volumes=[{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}}])
    manifest["metadata"]["uid"] = uid
    (row,) = judge(manifest, ephemeral(uid))
    assert (row["node"], row["disks"]) == there, row["message"]


def test_capacity_is_read_for_claims_that_a_driver_would_fill():
    classes = [
        storage_class(),
        storage_class("made", provisioner="csi.example.com"),
        storage_class("b", True, PROVISIONER),
    ]
    there = claim("there", storage_class="made", volume_name="pv", bound=True)
    claims = [claim("data", storage_class="made"), claim("still"), claim("disk", storage_class="b"), there]
    listed = lists(node("a"), node("b"), StorageClass=classes, PersistentVolumeClaim=claims)
    asked = {
        name: asks_for_capacity(listed, mounting("p", name)) for name in ("data", "still", "disk", "there", "gone")
    }
    assert asked == {"data": True, "still": False, "disk": False, "there": False, "gone": False}
    assert not asks_for_capacity(listed, pod())
    more = {"CSIDriver": [csi_driver()], "CSIStorageCapacity": [capacity("c", "b")]}
    (row,) = judge(mounting("p", "data"), {**listed, **more})
    assert (row["node"], row["nodes"]["a"]["reasons"]) == ("b", ["node(s) did not have enough free storage"])


def test_a_pod_with_a_berth_is_judged_on_its_node_alone():
    listed = lists(node("a"), node("b", cpu="64"), Berth=[berth("db", 0, "a", {"cpu": "3"})])
    (row,) = judge(pod("db-0", containers=[container("3")]), listed)
    assert (row["node"], row["berth_node"], list(row["nodes"])) == ("a", "a", ["a"])


def test_who_would_have_to_go():
    low = pod("low", [container("3")], node_name="a")
    (row,) = judge(pod(containers=[container("3")], priority=10), lists(node("a"), Pod=[low]))
    assert (row["fits"], row["nodes"]["a"]["resolvable"]) == (False, True)
    assert row["preemption"] == {"node": "a", "victims": ["default/low"]}


def test_gates_and_pods_that_have_a_node():
    (row,) = judge(pod(schedulingGates=[{"name": "budget"}]), lists(node("a")))
    assert (row["fits"], row["message"]) == (False, "waits for its scheduling gates: budget")
    with pytest.raises(StateError, match="is on node a already"):
        judge(pod(node_name="a"), lists(node("a")))


def world(*nodes, **more):
    return World(nodes=nodes, pods=(), disks=more.pop("disks", ()), devices=(), berths=more.pop("berths", ()), **more)


def test_an_app_goes_where_stateful_app_would_bring_it():
    app = parse_app(changed(replicas=2))
    ground = world(node("a"), node("b"), disks=[disk("d1", "a"), disk("d2", "b"), disk("d3", "b")])
    rows = judge_app(DEFAULT_PROFILE, ground, app, snapshot_of(ground))
    chosen = {one.ordinal: (one.node, one.disks) for one in choose(app, ground, range(2))}
    assert {row["ordinal"]: (row["node"], row["disks"]) for row in rows} == chosen


def test_the_snapshot_that_is_there_is_the_one_that_is_asked(monkeypatch):
    app, ground = parse_app(changed(replicas=1)), world(node("a"), disks=[disk("d1", "a")])
    snapshot = snapshot_of(ground)
    monkeypatch.setattr("berth_core.cluster.snapshot.Snapshot.from_objects", None)
    assert [row["fits"] for row in judge_app(DEFAULT_PROFILE, ground, app, snapshot)] == [True]


def test_an_app_in_a_namespace_made_anew_goes_to_no_disk_of_the_earlier_one():
    app = parse_app(changed(replicas=1))
    left = disk("d2", "b", retainedFor={**retained("db", 0, app.disks[0].name), "namespaceUID": "ns-1"})
    for uid, there in (("ns-1", "d2"), ("ns-2", "d1")):
        namespace = {"metadata": {"name": app.namespace, "uid": uid}}
        ground = world(node("a"), node("b"), disks=[disk("d1", "a"), left], namespaces=[namespace])
        (row,) = judge_app(DEFAULT_PROFILE, ground, app, snapshot_of(ground))
        assert list(row["disks"].values()) == [there], row["message"]


def test_a_replica_with_a_berth_goes_back_and_the_next_one_has_no_disk():
    app = parse_app(changed(replicas=2))
    mine = berth("db", 0, "a")
    mine["spec"]["disks"] = [{"claim": "data", "name": "d1"}]
    mine["metadata"]["resourceVersion"] = "5"
    ground = world(node("a"), node("b"), disks=[disk("d1", "a", claimRef=claim_ref("db", 0))], berths=[mine])
    first, second = judge_app(make_profile(), ground, app, snapshot_of(ground))
    assert (first["berth_node"], first["node"], list(first["nodes"])) == ("a", "a", ["a"])
    assert (second["fits"], second["berth_node"]) == (False, None)
    assert second["hints"]
