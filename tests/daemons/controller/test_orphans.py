"""Orphans on the real control plane: told of first, repaired by the rules, and never at the cost of data."""

from __future__ import annotations

from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import until

SOON = ("--no-leader-elect", "--orphan-interval", "1", "--orphan-report-after", "1")
UID = "11111111-2222-3333-4444-555555555555"


def lock(world: Any, **more: Any) -> dict[str, Any]:
    return {"namespace": world.name, "name": "db-0", "uid": UID, "app": "db", "ordinal": 0, "claim": "data",
            "dataUID": UID, **more}  # fmt: skip


def condition(item: dict[str, Any]) -> dict[str, Any] | None:
    found = (item.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == "Orphaned"), None)


def volume(world: Any, disk: str) -> dict[str, Any]:
    """Of the lock above, as stateful_app makes it."""
    return {
        "metadata": {
            "name": f"{disk}-{UID[:8]}",
            "labels": {"app.kubernetes.io/managed-by": "berth", "berth.dev/namespace": world.name},
            "annotations": {"berth.dev/berth-uid": UID},
        },
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": world.name,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/nowhere"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
                    ]
                }
            },
        },
    }


def test_a_lock_without_a_berth_is_reported_and_then_becomes_retained_data(world, start, nodes):
    world.storage_class()
    disk = world.disk(nodes[0], 0, claimRef=lock(world, dataUID="older"))
    process = start(*SOON, "--orphan-repair-after", "0")
    until(lambda: condition(world.disks()[disk]), "no condition")
    assert condition(world.disks()[disk])["reason"] == "LockWithoutBerth"
    until(lambda: world.told(disk, "LockWithoutBerth"), lambda: str(world.events(disk)))
    process.stop()
    assert world.disks()[disk]["spec"]["claimRef"]["uid"] == UID, "nothing is repaired where that is not wanted"
    start(*SOON, "--orphan-repair-after", "2")
    until(lambda: "claimRef" not in world.disks()[disk]["spec"], "not repaired")
    kept = {"namespace": world.name, "app": "db", "ordinal": 0, "claim": "data", "dataUID": "older"}
    assert world.disks()[disk]["spec"]["retainedFor"] == kept
    until(lambda: condition(world.disks()[disk]) is None, "the condition stays")


def test_a_lock_is_kept_while_its_volume_is_there(world, start, nodes):
    world.storage_class()
    disk = world.disk(nodes[0], 0, claimRef=lock(world))
    world.api.create(kinds.PV, volume(world, disk))
    start(*SOON, "--orphan-repair-after", "1")
    until(lambda: condition(world.disks()[disk]), "no condition")
    assert "PersistentVolume is still there" in condition(world.disks()[disk])["message"]
    world.disk(nodes[1], 1, claimRef=lock(world, name="db-1", uid="another", dataUID="another"))
    until(lambda: len(world.locks()) == 1, "the other one is repaired meanwhile")
    assert set(world.locks()) == {disk}


def test_a_volume_without_its_disk_is_told_of_and_stays(world, start, nodes):
    world.storage_class()
    world.api.create(kinds.PV, volume(world, f"{world.name}-gone"))
    start(*SOON, "--orphan-repair-after", "1")
    name = f"{world.name}-gone-{UID[:8]}"
    until(lambda: world.told(name, "VolumeWithoutDisk"), lambda: str(world.events(name)))
    assert name in world.volumes()


def test_a_berth_without_its_app_is_told_of_and_stays(world, start, nodes):
    disk = world.disk(nodes[0], 0)
    berth = {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Berth",
        "metadata": {"name": "db-0", "namespace": world.name},
        "spec": {
            "app": "db",
            "ordinal": 0,
            "nodeName": nodes[0],
            "disks": [{"claim": "data", "name": disk, "size": 1}],
        },
    }
    made = world.api.create(kinds.BERTH, berth)
    uid = made["metadata"]["uid"]
    held = world.disks()[disk]
    world.api.replace(
        kinds.LOCAL_DISK, {**held, "spec": {**held["spec"], "claimRef": lock(world, uid=uid, dataUID=uid)}}
    )
    world.api.patch(kinds.BERTH, "db-0", world.name, {"metadata": {}, "status": {"phase": "Running"}}, "status")
    start(*SOON, "--orphan-repair-after", "1")
    until(lambda: condition(world.berths()["db-0"]), "no condition")
    assert condition(world.berths()["db-0"])["reason"] == "BerthWithoutApp"
    world.pod("db-0")
    world.api.patch(kinds.POD, "db-0", world.name, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "berth"}}})
    until(lambda: condition(world.berths()["db-0"]) is None, "the condition stays")
    assert set(world.locks()) == {disk}


def test_the_berth_of_a_claim_that_is_deleted_by_hand_is_kept_by_its_finalizer(world, start, nodes):
    world.storage_class()
    disk = world.disk(nodes[0], 0)
    start(*SOON)
    world.claim("data")
    world.wait_bound("data")
    (name,) = world.berths()
    world.delete(kinds.BERTH, name)
    until(lambda: world.told("data", "BerthDeleted"), lambda: world.story("data"))
    assert set(world.locks()) == {disk}
    world.delete(kinds.PVC, "data")
    until(lambda: not world.berths() and not world.locks(), lambda: str(world.berths()))
