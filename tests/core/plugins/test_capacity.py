"""VolumeBinding and what CSI drivers report that they can still make."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.cycle import place
from berth_core.framework.events import Action, Change, ClusterEvent
from berth_core.framework.state import Cycle
from berth_core.model.pod import PodInfo
from berth_core.plugins.hints import BUILT_IN
from berth_core.plugins.table import DEFAULT_PROFILE
from berth_core.plugins.volume_binding import (
    BIND_CONFLICT,
    NO_VOLUME,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VolumeBinding,
)
from tests.core.cluster.objects import capacity, claim, csi_driver, node, pod, request, storage_class, volume
from tests.core.plugins.helpers import judged, passing

HOST = "kubernetes.io/hostname"
NODES = [node("h1"), node("h2", labels={"zone": "a"}), node("h3", labels={"zone": "b"})]
CLASSES = (
    storage_class(),
    storage_class("made", provisioner="csi.example.com"),
    storage_class("ours", provisioner="local.berth.dev"),
)


def cluster(capacities=(), claims=(), drivers=None, classes=CLASSES, **more):
    drivers = [csi_driver(), csi_driver("local.berth.dev")] if drivers is None else drivers
    known = {"nodes": NODES, "storage_classes": classes, "csi_drivers": drivers, "capacities": capacities}
    return Snapshot.from_objects(**known, pvcs=claims or [made("data")], **more)


def made(name, size="1Gi", **more):
    return claim(name, size, "made", **more)


def wants(*names):
    volumes = [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in names]
    return request(pod("web-0", volumes=volumes))


def where(snapshot, *names):
    return passing(VolumeBinding(), snapshot, wants(*(names or ("data",))))


def test_a_volume_is_made_where_there_is_room_for_it():
    snapshot = cluster([capacity("c1", "h1", "5Gi"), capacity("c2", "h2", "1Gi"), capacity("c3", "h3", "1073741823")])
    assert judged(VolumeBinding(), snapshot, wants("data")) == {"h1": (), "h2": (), "h3": (NOT_ENOUGH_SPACE,)}
    snapshot.remove_capacity("kube-system", "c2")
    assert where(snapshot) == ["h1"]
    snapshot.upsert_capacity(capacity("c1", "h3", "5Gi"))
    assert where(snapshot) == ["h3"]


def test_a_driver_that_has_reported_nothing_makes_nothing():
    snapshot = cluster()
    found = place(DEFAULT_PROFILE, snapshot, wants("data")).diagnosis
    assert found.summary() == f"0/3 nodes are available: 3 {NOT_ENOUGH_SPACE}."
    assert all(not one.resolvable for one in found.nodes.values()), "nobody who leaves a node gives room"


def test_who_does_not_report_has_room_everywhere():
    for drivers in ([], [csi_driver(reports=False)], [csi_driver("other")]):
        assert where(cluster(drivers=drivers)) == ["h1", "h2", "h3"]
    snapshot = cluster()
    assert where(snapshot) == []
    snapshot.upsert_csi_driver(csi_driver(reports=False))
    assert where(snapshot) == ["h1", "h2", "h3"]
    snapshot.upsert_csi_driver(csi_driver())
    assert where(snapshot) == []
    snapshot.remove_csi_driver("csi.example.com")
    assert where(snapshot) == ["h1", "h2", "h3"]


def test_a_claim_without_a_size_is_not_held_against_capacity():
    bare = made("data")
    bare["spec"]["resources"] = {}
    assert where(cluster(claims=[bare])) == ["h1", "h2", "h3"]
    assert where(cluster(claims=[made("data", "0")])) == [], "to ask for nothing is not the same"


@pytest.mark.parametrize(
    ("topology", "nodes"),
    [
        (None, []),
        ({}, ["h1", "h2", "h3"]),
        ({"matchLabels": {HOST: "h2"}}, ["h2"]),
        ({"matchLabels": {HOST: "h2", "zone": "a"}}, ["h2"]),
        ({"matchLabels": {HOST: "h2", "zone": "b"}}, []),
        ({"matchLabels": {HOST: "h1", "zone": "never"}}, []),
        ({"matchLabels": {"zone": "a"}, "matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}, []),
        ({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}, ["h2", "h3"]),
        ({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}, ["h1"]),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, ["h1", "h3"]),
    ],
)
def test_nodes_that_reach_it(topology, nodes):
    assert where(cluster([capacity("c", nodeTopology=topology)])) == nodes


def test_capacity_is_that_of_its_class():
    assert where(cluster([capacity("c", storage_class="other")])) == []


def test_each_claim_is_held_against_it_alone():
    """Capacity is what a driver says beforehand: it tells nobody how many volumes it can make."""
    snapshot = cluster([capacity("c", "h1", "2Gi")], [made("one", "2Gi"), made("two", "2Gi")])
    assert where(snapshot, "one", "two") == ["h1"]
    snapshot.upsert_claim(made("two", "3Gi"))
    assert where(snapshot, "one", "two") == []


def test_a_volume_that_is_there_needs_no_room():
    there = volume("pv", "h2", storage_class="made")
    assert where(cluster(pvs=[there])) == ["h2"]
    both = cluster([capacity("c", "h1")], pvs=[there])
    assert judged(VolumeBinding(), both, wants("data")) == {"h1": (), "h2": (), "h3": (NOT_ENOUGH_SPACE,)}
    assert place(DEFAULT_PROFILE, both, wants("data")).placement.volumes == {}
    both.remove_capacity("kube-system", "c")
    assert place(DEFAULT_PROFILE, both, wants("data")).placement.volumes == {"data": "pv"}


def test_the_first_claim_that_fails_has_the_say():
    """The smaller one is looked at first; one that has its node, before all."""
    claims = [made("large", "9Gi"), claim("small", "1Gi")]
    assert set(judged(VolumeBinding(), cluster(claims=claims), wants("large", "small")).values()) == {(BIND_CONFLICT,)}
    claims = [made("small"), claim("large", "9Gi")]
    expected = {(NOT_ENOUGH_SPACE,)}
    assert set(judged(VolumeBinding(), cluster(claims=claims), wants("large", "small")).values()) == expected
    chosen = made("large", "9Gi")
    chosen["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "h2"}
    found = judged(VolumeBinding(), cluster(claims=[claim("small"), chosen]), wants("small", "large"))
    assert found == {"h1": (BIND_CONFLICT,), "h2": (NOT_ENOUGH_SPACE,), "h3": (BIND_CONFLICT,)}


def test_a_class_that_makes_none_there_says_so_first():
    zoned = {**CLASSES[1], "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]}
    found = judged(VolumeBinding(), cluster(classes=[zoned]), wants("data"))
    assert found == {"h1": (BIND_CONFLICT,), "h2": (NOT_ENOUGH_SPACE,), "h3": (BIND_CONFLICT,)}


def test_reasons_stand_in_kube_schedulers_order():
    bound = [claim("far", volume_name="pv", bound=True), made("data")]
    snapshot = cluster(claims=bound, pvs=[volume("pv", "h1")])
    far = (NODE_CONFLICT, NOT_ENOUGH_SPACE)
    asked = wants("far", "data")
    assert judged(VolumeBinding(), snapshot, asked) == {"h1": (NOT_ENOUGH_SPACE,), "h2": far, "h3": far}
    snapshot.remove_volume("pv")
    assert set(judged(VolumeBinding(), snapshot, asked).values()) == {(NOT_ENOUGH_SPACE, NO_VOLUME)}


def test_of_berths_own_classes_the_disks_decide():
    """The controller reports them for other schedulers, and some time after they have changed."""
    snapshot = cluster([capacity("c", size="0", storage_class="ours")], [claim("data", "1Gi", "ours")])
    assert where(snapshot) == ["h1", "h2", "h3"]


def test_a_change_of_capacity_counts_for_those_whom_it_concerns():
    snapshot = cluster(claims=[made("data"), claim("ours", "1Gi", "ours"), claim("still")])

    def key(*names):
        return VolumeBinding().filter_key(Cycle(snapshot, wants(*names)))

    before = {name: key(name) for name in ("data", "ours", "still")}
    for other in ("ours", "local", "unknown"):
        snapshot.upsert_capacity(capacity(f"of-{other}", storage_class=other))
    assert {name: key(name) for name in before} == before
    generation = snapshot.generation
    snapshot.upsert_capacity(capacity("c", "h1"))
    assert snapshot.generation > generation
    assert [name for name in before if key(name) != before[name]] == ["data"]
    known, generation = key("data"), snapshot.generation
    snapshot.upsert_capacity({**capacity("c", "h1"), "metadata": {**capacity("c")["metadata"], "resourceVersion": "9"}})
    snapshot.remove_capacity("kube-system", "never")
    assert (key("data"), snapshot.generation) == (known, generation), "it says what it said"


def test_a_pod_is_judged_again_when_capacity_changes():
    snapshot = cluster()
    assert place(DEFAULT_PROFILE, snapshot, wants("data")).placement is None
    snapshot.upsert_capacity(capacity("c", "h2"))
    assert place(DEFAULT_PROFILE, snapshot, wants("data")).placement.node == "h2"
    snapshot.upsert_capacity(capacity("c", "h2", "1Mi"))
    assert place(DEFAULT_PROFILE, snapshot, wants("data")).placement is None


def heard(kind, old, new):
    """Whether a pod that VolumeBinding has refused is tried again."""
    event = ClusterEvent(kind, Action.ADD if old is None else Action.DELETE if new is None else Action.OTHER_UPDATE)
    pod_info = PodInfo.from_manifest(pod("web-0"))
    wishes = [one for one in BUILT_IN["VolumeBinding"] if one.event.covers(event)]
    return any(one.hint is None or one.hint(pod_info, Change(event, old, new)) for one in wishes)


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        (None, capacity("c", size="0"), True),
        (capacity("c", size="1Gi"), capacity("c", size="1025Mi"), True),
        (capacity("c", size="1Gi"), capacity("c", size="1024Mi"), False),
        (capacity("c", size="1Gi"), capacity("c", size="1Mi"), False),
        (capacity("c", size=None), capacity("c", size="0"), True),
        (capacity("c", size="1Gi"), capacity("c", size=None), False),
        (capacity("c", maximumVolumeSize="1Gi"), capacity("c", size="9Gi", maximumVolumeSize="1Gi"), False),
        (capacity("c"), None, False),
    ],
)
def test_changes_of_capacity_that_may_help(old, new, again):
    assert heard("CSIStorageCapacity", old, new) is again


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        (csi_driver(), csi_driver(reports=False), True),
        (csi_driver(), {"metadata": {"name": "csi.example.com"}, "spec": {}}, True),
        (csi_driver(reports=False), csi_driver(), False),
        (csi_driver(), csi_driver(), False),
        (None, csi_driver(reports=False), False),
        (csi_driver(), None, False),
    ],
)
def test_changes_of_drivers_that_may_help(old, new, again):
    assert heard("CSIDriver", old, new) is again
