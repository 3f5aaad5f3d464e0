"""LocalDisk, LocalDevice, Berth, volumes and taints: read from API objects, refused where they are wrong."""

from __future__ import annotations

import pytest

from berth_core.errors import InputError
from berth_core.model.berth import BerthRecord
from berth_core.model.csi_capacity import CapacityInfo, DriverInfo
from berth_core.model.device import LocalDevice
from berth_core.model.disk import LocalDisk
from berth_core.model.node import NodeInfo
from berth_core.model.placement import DeviceClaim, DiskClaim, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.model.taint import Taint, Toleration
from berth_core.model.volume import ClaimInfo, ClassInfo, VolumeInfo
from tests.core.cluster.objects import (
    GI,
    MI,
    berth,
    capacity,
    claim,
    claim_ref,
    csi_driver,
    device,
    disk,
    node,
    pod,
    retained,
    share,
    storage_class,
    volume,
)


def test_a_disk():
    found = LocalDisk.from_object(
        disk("d", "h1", 5 * GI, fsType="xfs", claimRef=claim_ref("web", 1), labels={"tier": "hot"})
    )
    assert (found.node_name, found.size, found.storage_class, found.fs_type) == ("h1", 5 * GI, "fast", "xfs")
    assert (found.claim_ref.app, found.claim_ref.ordinal, str(found.claim_ref)) == ("web", 1, "default/web-1")
    assert found.retained_for is None
    assert found.labels == (("tier", "hot"),)
    assert str(LocalDisk.from_object(disk("d", "h1", retainedFor=retained("web", 2))).retained_for) == "default/web-2"


@pytest.mark.parametrize(
    ("health", "healthy"),
    [("", True), ("OK", True), ("PASSED", True), ("Unknown", True), ("FAILED", False), ("worn", False)],
)
def test_health(health, healthy):
    assert LocalDisk.from_object(disk("d", "h1", health=health)).healthy is healthy


@pytest.mark.parametrize("kind", ["Healthy", "Matched"])
def test_a_false_condition_is_bad_health(kind):
    manifest = disk("d", "h1", health="OK")
    manifest["status"]["conditions"] = [
        {"type": "Ready", "status": "False"},
        {"type": kind, "status": "False", "reason": "SerialDiffers"},
    ]
    found = LocalDisk.from_object(manifest)
    assert (found.healthy, found.health) == (False, "SerialDiffers")


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (disk("d", ""), "LocalDisk d: expected spec.nodeName"),
        (disk("d", "h1", 0), "size above 0"),
        (disk("d", "h1", "1Gi"), "size must be an integer"),
        (disk("d", "h1", reserved="yes"), "reserved must be true or false"),
        (disk("", "h1"), "without metadata.name"),
    ],
)
def test_bad_disks(manifest, words):
    with pytest.raises(InputError, match=words):
        LocalDisk.from_object(manifest)


def test_a_device():
    found = LocalDevice.from_object(device("g", "h1", refs=[share("web", 0, 250)], capacity={"memory": "16Gi"}))
    assert (found.shares, found.memory, found.claim_refs[0].shares) == (1000, 16 * GI, 250)
    with pytest.raises(InputError, match="LocalDevice g"):
        LocalDevice.from_object(device("g", ""))


def test_a_berth():
    found = BerthRecord.from_object(
        berth("web", 3, "h1", {"cpu": "1500m", "memory": "1Gi"}, {"app": "web"}, [{"port": 80}])
    )
    assert (found.name, found.ordinal, found.requests) == ("web-3", 3, (("cpu", 1500), ("memory", GI)))
    assert (found.host_ports[0].protocol, found.host_ports[0].ip) == ("TCP", "0.0.0.0")


def test_a_node_counts_what_schedulers_count():
    found = NodeInfo.from_object(node("n", "1.5", "1Gi", storage="1Gi"))
    assert dict(found.allocatable) == {"cpu": 1500, "memory": GI, "pods": 110}
    assert dict(NodeInfo.from_object(node("n", **{"example.com/x": "2"})).allocatable)["example.com/x"] == 2


def test_a_volume_and_its_claim():
    of_claim = ClaimInfo.from_object(claim("data", size="500Mi", volume_name="pv", bound=True))
    assert (of_claim.bound, of_claim.request) == (True, 500 * MI)
    assert VolumeInfo.from_object(volume("pv", claim=("default", "data"))).bound_to(of_claim)
    assert not VolumeInfo.from_object(volume("pv", claim=("other", "data"))).bound_to(of_claim)
    stale = volume("pv", claim=("default", "data"))
    stale["spec"]["claimRef"]["uid"] = "an-older-claim"
    assert not VolumeInfo.from_object(stale).bound_to(of_claim)


def test_a_claim_is_bound_when_the_controller_says_so():
    assert not ClaimInfo.from_object(claim("data", volume_name="pv")).bound


def test_the_old_annotation_names_the_class():
    manifest = claim("data", storage_class="new")
    manifest["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] = "old"
    assert ClaimInfo.from_object(manifest).storage_class == "old"


def test_a_class_and_its_topology():
    local = ClassInfo.from_object(storage_class())
    assert (local.waits, local.provisions) == (True, False)
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]
    zoned = ClassInfo.from_object({**storage_class(provisioner="x"), "allowedTopologies": terms})
    assert zoned.provisions
    assert zoned.allows((("zone", "a"),))
    assert not zoned.allows((("zone", "c"),))
    assert local.allows(())


def test_a_class_whose_driver_reports_what_it_can_make():
    found = [ClassInfo.from_object(storage_class(provisioner=name)) for name in ("csi.example.com", "local.berth.dev")]
    assert [(one.provisions, one.has_driver) for one in found] == [(True, True), (True, False)]
    assert not ClassInfo.from_object(storage_class()).has_driver


def test_a_claim_without_a_size():
    bare = claim("data")
    assert ClaimInfo.from_object(bare).sized
    bare["spec"]["resources"] = {}
    assert (ClaimInfo.from_object(bare).sized, ClaimInfo.from_object(bare).request) == (False, 0)


def test_a_driver_and_its_capacity():
    drivers = [csi_driver(), csi_driver(reports=False), {"metadata": {"name": "d"}}]
    assert [DriverInfo.from_object(one).reports for one in drivers] == [True, False, False]
    found = CapacityInfo.from_object(capacity("c", "h1", "5Gi"))
    assert (found.namespace, found.storage_class, found.limit) == ("kube-system", "made", 5 * GI)
    assert str(found.topology) == "kubernetes.io/hostname=h1"
    assert CapacityInfo.from_object(capacity("c", nodeTopology=None)).topology is None


@pytest.mark.parametrize(
    ("facts", "limit"),
    [
        ({"capacity": "5Gi", "maximumVolumeSize": "1Gi"}, GI),
        ({"capacity": "1Gi", "maximumVolumeSize": "0"}, 0),
        ({"capacity": None, "maximumVolumeSize": "1Gi"}, GI),
        ({"capacity": "1500m"}, 2),
        ({"capacity": None}, None),
    ],
)
def test_how_large_a_new_volume_may_be(facts, limit):
    found = CapacityInfo.from_object(capacity("c", **facts))
    assert (found.limit, found.holds(0)) == (limit, limit is not None)
    assert not found.holds(GI + 1)


@pytest.mark.parametrize(
    ("read", "manifest", "words"),
    [
        (DriverInfo, csi_driver(""), "CSIDriver without metadata.name"),
        (DriverInfo, csi_driver("d", "yes"), "CSIDriver d: spec.storageCapacity must be true or false"),
        (CapacityInfo, capacity("c", storageClassName=1), "kube-system/c: storageClassName must be a string"),
        (CapacityInfo, capacity("c", size="much"), "'much' is not a quantity"),
        (CapacityInfo, capacity("c", nodeTopology="h1"), "CSIStorageCapacity kube-system/c: nodeTopology must be"),
    ],
)
def test_bad_drivers_and_capacities(read, manifest, words):
    with pytest.raises(InputError, match=words):
        read.from_object(manifest)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "w", "NoSchedule"), False),
        (Toleration("k", "Exists", "", ""), True),
        (Toleration("", "Exists", "", ""), True),
        (Toleration("", "Equal", "v", ""), True),
        (Toleration("k", "Exists", "", "NoExecute"), False),
        (Toleration("j", "Exists", "", ""), False),
        (Toleration("k", "Gt", "0", ""), False),
        (Toleration("k", "Contains", "v", ""), False),
    ],
)
def test_tolerations(toleration, tolerates):
    assert toleration.tolerates(Taint("k", "v", "NoSchedule")) is tolerates


def test_claims_that_nothing_can_meet_are_refused():
    with pytest.raises(InputError, match="count 0"):
        DeviceClaim("gpu", "gpu", count=0)
    with pytest.raises(InputError, match="shares 1001"):
        DeviceClaim("gpu", "gpu", shares=1001)
    with pytest.raises(InputError, match="data is asked for twice"):
        PlacementRequest(PodInfo.from_manifest(pod()), (DiskClaim("data"), DiskClaim("data")))


def test_claims_in_words():
    assert str(DiskClaim("d", GI, "fast")) == "a local disk of at least 1Gi of class fast"
    assert (
        str(DiskClaim("d", volume_mode="Block", disk_names=("a", "b")))
        == "a local disk for volumeMode Block named a or b"
    )
    assert str(DeviceClaim("g", "a100", 2)) == "2 whole devices of class a100"
