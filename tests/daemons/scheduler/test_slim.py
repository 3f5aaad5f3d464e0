"""What is kept of a node: what somebody reads, and once what nodes have in common."""

from __future__ import annotations

from berth_core.model.csi_capacity import CapacityInfo
from berth_core.model.node import NodeInfo
from berth_core.model.resources import CSI_STORAGE_CAPACITY
from berth_scheduler import slim


def node(name, **status):
    return {
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "7", "labels": {"kubernetes.io/os": "linux"}},
        "spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "a", "effect": "NoSchedule"}], "unschedulable": True},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": name},
                {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": name},
            ],
            "images": [{"names": ["one"], "sizeBytes": 1 << 30}],
            **status,
        },
    }


def test_what_scheduling_sees_stays():
    for given in (node("n1"), {"metadata": {"name": "bare", "uid": "u", "resourceVersion": "1"}}):
        assert NodeInfo.from_object(slim.nodes()(given)) == NodeInfo.from_object(given)


def test_what_scheduling_sees_of_a_capacity_stays():
    meta = {"name": "c", "namespace": "it", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}
    facts = {"nodeTopology": {"matchLabels": {"zone": "a"}}, "capacity": "1Gi", "maximumVolumeSize": "1Mi"}
    for more in (facts, {}):
        given = {"metadata": meta, "storageClassName": "made", **more}
        kept = slim.SLIM[CSI_STORAGE_CAPACITY](given)
        assert CapacityInfo.from_object(kept) == CapacityInfo.from_object(given)
        assert "labels" not in kept["metadata"]


def test_a_heartbeat_changes_nothing():
    keep = slim.nodes()
    before, after = keep(node("n1")), keep(node("n1", nodeInfo={"bootID": "other"}))
    assert before == after


def test_what_nodes_have_in_common_is_kept_once():
    keep = slim.nodes()
    one, other, larger = keep(node("n1")), keep(node("n2")), keep(node("n3", allocatable={"cpu": "8"}))
    for part in ("allocatable", "conditions", "images"):
        assert one["status"][part] is other["status"][part]
    assert one["spec"] is other["spec"] is larger["spec"]
    assert larger["status"]["allocatable"] == {"cpu": "8"}


def test_parts_are_forgotten_before_they_are_too_many():
    parts = slim.Parts()
    first = parts.one(["a"])
    for number in range(slim.MAX_PARTS):
        parts.one([number])
    assert parts.one(["a"]) == first
    assert len(parts._first) <= slim.MAX_PARTS
