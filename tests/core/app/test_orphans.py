"""What is an orphan, what is none, and which repair is named."""

from __future__ import annotations

import pytest

from berth_core.app import orphans
from berth_core.app.claim_manifests import DISK_ANNOTATION
from berth_core.app.claims import CLAIM_NAME, PROVISIONED_BY, PROVISIONER
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from tests.core.app.claim_world import disk

UID = "11111111-2222"
LOCK = {"namespace": "x", "name": "db-0", "uid": UID, "app": "db", "ordinal": 0, "claim": "d", "dataUID": UID}


def berth(uid=UID, phase="Running", disks=("n1-d0",), **annotations):
    meta = {"name": "db-0", "namespace": "x", "uid": uid, "annotations": annotations}
    spec = {"app": "db", "ordinal": 0, "nodeName": "n1", "disks": [{"claim": "d", "name": one} for one in disks]}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def volume(phase="Bound", **annotations):
    meta = {"name": "n1-d0-11111111", "uid": "v", "annotations": {BERTH_ANNOTATION: UID, **annotations}}
    return {"metadata": meta, "spec": {}, "status": {"phase": phase}}


def look(disks=(), berths=(), volumes=(), devices=(), workloads=(), pods=()):
    found = orphans.find(orphans.Holdings(disks, devices, volumes, berths, frozenset(workloads), frozenset(pods)))
    return [(one.reason, one.repair) for one in found]


HELD = disk(claimRef=LOCK)


def test_a_whole_app_is_no_orphan():
    assert look([HELD], [berth()], [volume()], workloads=[("x", "db")]) == []
    assert look([HELD], [berth()], [volume()], pods=[("x", "db-0")]) == []


def test_a_lock_without_its_berth_becomes_retained_data_unless_a_volume_is_there():
    assert look([HELD]) == [("LockWithoutBerth", "retain")]
    assert look([HELD], [berth(uid="another")], workloads=[("x", "db")]) == [("LockWithoutBerth", "retain")]
    assert look([HELD], volumes=[volume()]) == [("LockWithoutBerth", "")]


@pytest.mark.parametrize(("provisioner", "phase", "repair"), [
    (PROVISIONER, "Released", "delete volume"), (PROVISIONER, "Bound", ""), ("other", "Released", "")])  # fmt: skip
def test_a_volume_without_its_lock_goes_only_when_it_is_ours_and_released(provisioner, phase, repair):
    one = volume(phase, **{PROVISIONED_BY: provisioner})
    assert look([disk()], volumes=[one]) == [("VolumeWithoutLock", repair)]


def test_a_volume_for_a_claim_of_another_namespace_than_the_locks_is_told_of():
    one = volume()
    one["spec"]["claimRef"] = {"namespace": LOCK["namespace"], "name": "data-db-0"}
    assert look([HELD], [berth()], [one], workloads=[("x", "db")]) == []
    one["spec"]["claimRef"]["namespace"] = "another"
    assert look([HELD], [berth()], [one], workloads=[("x", "db")]) == [("VolumeWithoutLock", "")]


def test_a_volume_whose_disk_is_gone_is_told_of_and_left():
    assert look(volumes=[volume("Released")]) == [("VolumeWithoutDisk", "")]
    assert orphans.disk_of(volume()) == "n1-d0"
    assert orphans.disk_of(volume(**{DISK_ANNOTATION: "other"})) == "other"


def test_a_berth_whose_app_or_disk_is_gone_is_told_of_and_left():
    assert look([HELD], [berth()]) == [("BerthWithoutApp", "")]
    assert look([HELD], [berth(phase="Bound")]) == [], "an app that is being made"
    assert look([], [berth()], workloads=[("x", "db")]) == [("BerthWithoutDisk", "")]


def test_the_berth_of_a_claim_has_no_app():
    record = berth(**{CLAIM_NAME: "data"})
    record["metadata"]["name"] = "pvc-c-1"
    assert look([HELD], [record]) == []


def test_shares_of_a_device_without_a_berth_are_told_of():
    shares = [{"namespace": "x", "name": "db-0", "uid": "gone", "claim": "g", "shares": 400}]
    device = {"metadata": {"name": "g0", "uid": "d"}, "spec": {"claimRefs": shares}}
    assert look(devices=[device]) == [("DeviceLockWithoutBerth", "")]
    assert look(devices=[device], berths=[berth(uid="gone", disks=())], workloads=[("x", "db")]) == []
