"""VolumeRestrictions, VolumeZone and NodeVolumeLimits."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.contract import Code
from berth_core.plugins.node_volume_limits import NodeVolumeLimits
from berth_core.plugins.volume_restrictions import VolumeRestrictions
from berth_core.plugins.volume_zone import VolumeZone
from tests.core.cluster.objects import claim, node, pod, request, storage_class, volume
from tests.core.plugins.helpers import codes, judged, passing

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVER = "csi.example.com"


def using(*claims, name="new", node_name="", **inline):
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    volumes += [{"name": kind, kind: source} for kind, source in inline.items()]
    return pod(name, node_name=node_name, volumes=volumes)


@pytest.mark.parametrize(
    ("there", "new", "fits"),
    [
        ({"gcePersistentDisk": {"pdName": "a"}}, {"gcePersistentDisk": {"pdName": "a"}}, False),
        ({"gcePersistentDisk": {"pdName": "a"}}, {"gcePersistentDisk": {"pdName": "b"}}, True),
        (
            {"gcePersistentDisk": {"pdName": "a", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "a", "readOnly": True}},
            True,
        ),
        ({"iscsi": {"iqn": "i", "readOnly": True}}, {"iscsi": {"iqn": "i"}}, False),
        (
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            False,
        ),
        ({"rbd": {"monitors": ["m1", "m2"], "image": "x"}}, {"rbd": {"monitors": ["m2"], "image": "x"}}, False),
        ({"rbd": {"monitors": ["m1"], "image": "x"}}, {"rbd": {"monitors": ["m2"], "image": "x"}}, True),
    ],
)
def test_one_user_or_readers_alone(there, new, fits):
    snapshot = Snapshot.from_objects(nodes=[node("a"), node("b")], pods=[using(name="old", node_name="a", **there)])
    assert passing(VolumeRestrictions(), snapshot, request(using(**new))) == (["a", "b"] if fits else ["b"])
    snapshot.remove_pod("default", "old")
    assert passing(VolumeRestrictions(), snapshot, request(using(**new))) == ["a", "b"]


def test_read_write_once_pod():
    once = claim("data", accessModes=["ReadWriteOncePod"])
    snapshot = Snapshot.from_objects(nodes=[node("a")], pvcs=[once], pods=[using("data", name="old", node_name="a")])
    assert codes(VolumeRestrictions(), snapshot, request(using("data"))) == {"a": Code.UNSCHEDULABLE}
    assert "ReadWriteOncePod" in judged(VolumeRestrictions(), snapshot, request(using("data")))["a"][0]
    snapshot.remove_pod("default", "old")
    assert judged(VolumeRestrictions(), snapshot, request(using("data"))) == "skipped"


@pytest.mark.parametrize("plugin", [VolumeRestrictions(), VolumeZone()])
def test_a_missing_claim_is_refused_before_any_node(plugin):
    snapshot = Snapshot.from_objects(nodes=[node("a")])
    assert judged(plugin, snapshot, request(using("data"))) == {"": ('persistentvolumeclaim "data" not found',)}
    # A disk that this request is going to fill has no claim yet.
    assert judged(plugin, snapshot, request(using("data"), disks=[("data", 1)])) == "skipped"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({ZONE: "a"}, ["a1", "bare", "old"]),
        ({ZONE: "a__b"}, ["a1", "b1", "bare", "old"]),
        ({OLD_ZONE: "b"}, ["b1", "bare"]),
        ({ZONE: "c"}, ["bare"]),
    ],
)
def test_zones_of_volumes(labels, expected):
    nodes = [
        node("a1", labels={ZONE: "a"}),
        node("b1", labels={ZONE: "b"}),
        node("bare"),
        node("old", labels={OLD_ZONE: "a", ZONE: "a"}),
    ]
    bound = volume("pv")
    bound["metadata"]["labels"] = labels
    snapshot = Snapshot.from_objects(nodes=nodes, pvs=[bound], pvcs=[claim("data", volume_name="pv", bound=True)])
    assert passing(VolumeZone(), snapshot, request(using("data"))) == expected


def test_labels_that_say_nothing_and_claims_that_wait_are_skipped():
    broken = volume("pv")
    broken["metadata"]["labels"] = {ZONE: "a__"}
    bound, waiting = claim("data", volume_name="pv", bound=True), claim("later")
    snapshot = Snapshot.from_objects(
        nodes=[node("a")], pvs=[broken], pvcs=[bound, waiting], storage_classes=[storage_class()]
    )
    assert judged(VolumeZone(), snapshot, request(using("data", "later"))) == "skipped"
    snapshot.remove_volume("pv")
    assert judged(VolumeZone(), snapshot, request(using("data"))) == {"": ('persistentvolume "pv" not found',)}


def csi_volume(name, handle=""):
    return volume(name, csi={"driver": DRIVER, "volumeHandle": handle or name})


def csi_node(name, count):
    return {"metadata": {"name": name}, "spec": {"drivers": [{"name": DRIVER, "allocatable": {"count": count}}]}}


def attachment(name, node_name, pv):
    spec = {"nodeName": node_name, "attacher": DRIVER, "source": {"persistentVolumeName": pv}}
    return {"metadata": {"name": name}, "spec": spec}


def limited(count, pods=(), **more):
    names = ("one", "two", "three")
    return Snapshot.from_objects(
        nodes=[node("a"), node("free")],
        pods=pods,
        csi_nodes=[csi_node("a", count)],
        pvs=[csi_volume(f"pv-{name}") for name in names],
        pvcs=[claim(name, volume_name=f"pv-{name}", bound=True) for name in names],
        **more,
    )


def test_a_limit_counts_each_volume_once():
    snapshot = limited(2, [using("one", name="p1", node_name="a"), using("one", name="p2", node_name="a")])
    assert passing(NodeVolumeLimits(), snapshot, request(using("two"))) == ["a", "free"]
    assert passing(NodeVolumeLimits(), snapshot, request(using("two", "three"))) == ["free"]
    assert judged(NodeVolumeLimits(), snapshot, request(using("two", "three")))["a"] == (
        "node(s) exceed max volume count",
    )
    assert passing(NodeVolumeLimits(), limited(1, [using("one", name="p", node_name="a")]), request(using("one"))) == [
        "a",
        "free",
    ]


def test_attachments_that_no_pod_uses_count_too():
    snapshot = limited(1, attachments=[attachment("va", "a", "pv-three")])
    assert passing(NodeVolumeLimits(), snapshot, request(using("one"))) == ["free"]
    snapshot.remove_attachment("va")
    assert passing(NodeVolumeLimits(), snapshot, request(using("one"))) == ["a", "free"]
    snapshot.upsert_csi_node(csi_node("a", 0))
    assert passing(NodeVolumeLimits(), snapshot, request(using("one"))) == ["free"]
    snapshot.remove_csi_node("a")
    assert passing(NodeVolumeLimits(), snapshot, request(using("one"))) == ["a", "free"]


def test_a_volume_to_come_counts_with_its_classs_driver():
    snapshot = limited(0, storage_classes=[storage_class("made", provisioner=DRIVER)])
    snapshot.upsert_claim(claim("new", storage_class="made"))
    assert passing(NodeVolumeLimits(), snapshot, request(using("new"))) == ["free"]
    reason = 'looking up PVC default/none: persistentvolumeclaim "none" not found'
    assert judged(NodeVolumeLimits(), snapshot, request(using("none")))["a"] == (reason,)
