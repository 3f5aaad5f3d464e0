"""VolumeBinding: bound claims, claims that wait for their pod, and claims that should be bound already."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.cycle import place
from berth_core.plugins.table import DEFAULT_PROFILE
from berth_core.plugins.volume_binding import BIND_CONFLICT, NO_VOLUME, NODE_CONFLICT, VolumeBinding
from tests.core.cluster.objects import claim, disk, node, pod, request, storage_class, volume
from tests.core.plugins.helpers import judged, passing

NODES = [node("h1"), node("h2", labels={"zone": "a"}), node("h3", labels={"zone": "a"})]
CLASSES = (storage_class(), storage_class("now", waits=False), storage_class("made", provisioner="csi.example.com"))


def cluster(volumes=(), claims=(), classes=CLASSES, **more):
    return Snapshot.from_objects(nodes=NODES, pvs=volumes, pvcs=claims, storage_classes=classes, **more)


def wants(*names, **more):
    volumes = [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in names]
    return request(pod("web-0", volumes=volumes), **more)


def test_a_bound_claim_keeps_the_pod_at_its_volume():
    snapshot = cluster([volume("pv", "h2")], [claim("data", volume_name="pv", bound=True)])
    assert judged(VolumeBinding(), snapshot, wants("data")) == {
        "h1": (NODE_CONFLICT,),
        "h2": (),
        "h3": (NODE_CONFLICT,),
    }


def test_a_volume_without_affinity_is_everywhere():
    snapshot = cluster([volume("pv")], [claim("data", volume_name="pv", bound=True)])
    assert passing(VolumeBinding(), snapshot, wants("data")) == ["h1", "h2", "h3"]


def test_bound_claims_of_two_nodes_fit_nowhere():
    bound = [claim("x", volume_name="px", bound=True), claim("y", volume_name="py", bound=True)]
    snapshot = cluster([volume("px", "h1"), volume("py", "h2")], bound)
    assert passing(VolumeBinding(), snapshot, wants("x", "y")) == []


def test_a_claim_bound_to_a_volume_that_is_gone():
    snapshot = cluster([], [claim("data", volume_name="pv", bound=True)])
    assert judged(VolumeBinding(), snapshot, wants("data"))["h1"] == (NO_VOLUME,)


def test_a_claim_that_waits_gets_the_smallest_volume_of_the_node():
    volumes = [
        volume("big", "h2", "9Gi"),
        volume("small", "h2", "2Gi"),
        volume("tiny", "h2", "1Gi"),
        volume("other", "h1", "1Gi"),
    ]
    snapshot = cluster(volumes, [claim("data", "2Gi")])
    assert judged(VolumeBinding(), snapshot, wants("data")) == {
        "h1": (BIND_CONFLICT,),
        "h2": (),
        "h3": (BIND_CONFLICT,),
    }
    found = place(DEFAULT_PROFILE, snapshot, wants("data")).placement
    assert (found.node, found.volumes) == ("h2", {"data": "small"})


def test_two_claims_get_two_volumes_the_smaller_claim_first():
    snapshot = cluster(
        [volume("a", "h1", "1Gi"), volume("b", "h1", "5Gi")], [claim("large", "2Gi"), claim("small", "1Gi")]
    )
    assert place(DEFAULT_PROFILE, snapshot, wants("large", "small")).placement.volumes == {"small": "a", "large": "b"}
    snapshot.remove_volume("a")
    assert place(DEFAULT_PROFILE, snapshot, wants("large", "small")).placement is None


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Bound"},
        {"phase": "Pending"},
        {"storage_class": "made"},
        {"size": "1Mi"},
        {"claim": ("default", "other")},
        {"volumeMode": "Block"},
        {"accessModes": ["ReadWriteMany"]},
        {"volumeAttributesClassName": "gold"},
    ],
)
def test_volumes_that_will_not_do(change):
    snapshot = cluster([volume("pv", "h1", **change)], [claim("data")])
    assert passing(VolumeBinding(), snapshot, wants("data")) == []
    snapshot.upsert_volume(volume("pv", "h1"))
    assert passing(VolumeBinding(), snapshot, wants("data")) == ["h1"]


def test_a_selector_of_the_claim():
    hot = volume("hot", "h1")
    hot["metadata"]["labels"] = {"tier": "hot"}
    snapshot = cluster([hot, volume("cold", "h2")], [claim("data", selector={"matchLabels": {"tier": "hot"}})])
    assert passing(VolumeBinding(), snapshot, wants("data")) == ["h1"]


def test_a_volume_that_was_meant_for_the_claim_is_the_only_one():
    snapshot = cluster(
        [volume("meant", "h2", "9Gi", claim=("default", "data")), volume("free", "h2"), volume("far", "h1")],
        [claim("data")],
    )
    assert passing(VolumeBinding(), snapshot, wants("data")) == ["h2"]
    assert place(DEFAULT_PROFILE, snapshot, wants("data")).placement.volumes == {"data": "meant"}


LOST = {**claim("data", volume_name="pv"), "status": {"phase": "Lost"}}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim("data", storage_class="now")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", storage_class="unknown")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", volume_name="pv")], "pod has unbound immediate PersistentVolumeClaims"),
        ([LOST], 'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"'),
    ],
)  # fmt: skip
def test_pods_that_are_refused_as_a_whole(found, message):
    snapshot = cluster([volume("pv", "h1")], found)
    assert judged(VolumeBinding(), snapshot, wants("data")) == {"": (message,)}
    assert place(DEFAULT_PROFILE, snapshot, wants("data")).diagnosis.summary() == f"0/3 nodes are available: {message}."


def test_a_claim_that_is_going_away():
    going = claim("data", volume_name="pv", bound=True)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert judged(VolumeBinding(), cluster([volume("pv")], [going]), wants("data")) == {
        "": ('persistentvolumeclaim "data" is being deleted',)
    }


def test_a_class_that_makes_volumes_fits_where_its_topology_allows():
    zoned = {
        **storage_class("made", provisioner="csi.example.com"),
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    }
    snapshot = cluster([], [claim("data", storage_class="made")], [zoned])
    assert passing(VolumeBinding(), snapshot, wants("data")) == ["h2", "h3"]
    assert place(DEFAULT_PROFILE, snapshot, wants("data")).placement.volumes == {}


def test_a_claim_that_has_selected_its_node():
    chosen = claim("data", storage_class="made")
    chosen["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "h3"}
    assert passing(VolumeBinding(), cluster([], [chosen]), wants("data")) == ["h3"]


def test_ephemeral_volumes_belong_to_their_pod():
    asked = request(pod("web-0", volumes=[{"name": "tmp", "ephemeral": {}}]))
    assert judged(VolumeBinding(), cluster(), asked) == {
        "": ('waiting for ephemeral volume controller to create the persistentvolumeclaim "web-0-tmp"',)
    }
    foreign = claim("web-0-tmp")
    message = "PVC default/web-0-tmp was not created for pod default/web-0 (pod is not owner)"
    assert judged(VolumeBinding(), cluster([], [foreign]), asked) == {"": (message,)}
    foreign["metadata"]["ownerReferences"] = [{"controller": True, "uid": "uid-web-0"}]
    assert passing(VolumeBinding(), cluster([volume("pv", "h1")], [foreign]), asked) == ["h1"]


def test_claims_that_local_disks_will_fill_are_left_alone():
    asked = wants("data", disks=[("v-data", 1)])
    snapshot = cluster(disks=[disk("d", "h2")])
    assert judged(VolumeBinding(), snapshot, asked) == "skipped"
    assert place(DEFAULT_PROFILE, snapshot, asked).placement.node == "h2"
