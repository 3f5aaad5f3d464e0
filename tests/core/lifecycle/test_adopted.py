"""A replica that was there before berth: its volumes keep their names, its filesystems their UUIDs. Cut at every write.

Whoever looks a volume up finds it by the name in the Berth: forward, back, out, while a disk is exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from berth_core.app import orphans
from berth_core.app.manifests import volume_of, volume_of_lock, volume_over
from berth_core.app.observed import Observed, bound
from berth_core.errors import LockError
from berth_core.lifecycle import lost
from berth_core.lifecycle.locks import BERTH_ANNOTATION, DISK_ANNOTATION, Holder, lock_disk
from berth_core.lifecycle.lost import Loss
from berth_core.lifecycle.replica import ReplicaOwner
from berth_core.lifecycle.step import Wait
from berth_core.lifecycle.view import recorded
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from tests.core.lifecycle.replica_world import APP, HELD_BACK, NAME, Process, World, exchange, run

DISKS = {"data": "d0", "wal": "d1"}
VOLUMES = {"data": "local-pv-a", "wal": "local-pv-b"}
PLACE = SimpleNamespace(ordinal=0, node="h1", disks=DISKS, devices=(), volumes=VOLUMES)
#: Berth, two locks, two phases, Reserved, two volumes, two claims, Bound, Created, Running.
WRITES = 13


class Adopter(Process):
    """A run of stateful_app_adoption over this replica, behind the writes that put its data on record."""

    def __init__(self, world):
        super().__init__(world, "adopt")

    def owner(self):
        return ReplicaOwner(APP, 0, PLACE, told=True, ready=True)


class Leaver(Process):
    """A run that releases it from berth again."""

    def look(self):
        return replace(super().look(), leaves=True)

    def owner(self):
        return None


class Present(Process):
    """A run of stateful_app: the app has no devices."""

    def _choose(self):
        found = super()._choose()
        if found is not None:
            found.devices = ()
        return found


def before_berth():
    """As a StatefulSet over hand-made local volumes runs, with its data on record."""
    world = World()
    for claim, disk in DISKS.items():
        name, volume = f"{claim}-{NAME}", VOLUMES[claim]
        ref = {"namespace": "default", "name": name}
        spec = {"local": {"path": f"/mnt/{disk}/fs"}, "claimRef": ref, "persistentVolumeReclaimPolicy": "Delete"}
        world._put(PV, {"metadata": {"name": volume, "finalizers": [HELD_BACK[PV]]}, "spec": spec})
        meta = {"name": name, "namespace": "default", "finalizers": [HELD_BACK[PVC]], "labels": {"own": "yes"}}
        world._put(PVC, {"metadata": meta, "spec": {"volumeName": volume}})
        uid = world.store[PV, volume]["metadata"]["uid"]
        kept = {"namespace": "default", "app": "db", "ordinal": 0, "claim": claim, "dataUID": uid,
                "namespaceUID": "ns-1", "filesystemUUID": f"fs-{disk}", "volume": volume,
                "mountPoint": f"/mnt/{disk}/fs"}  # fmt: skip
        body = world.get(LOCAL_DISK, disk)
        body["spec"]["retainedFor"] = kept
        seen = {"devicePath": f"/dev/{disk}", "mounts": [f"/mnt/{disk}/fs"]}
        body["status"] = {"phase": "Released", "observed": {**seen, "filesystem": {"uuid": f"fs-{disk}"}}}
        world._put(LOCAL_DISK, body)
        world.data[disk] = uid
    world._put(POD, {"metadata": {"name": NAME, "namespace": "default"}, "spec": {}})
    world.wanted = True
    return world


def adopted():
    world = before_berth()
    run(world, Adopter(world), until=("",))
    return world


def shape(world):
    """What runs, and what it uses: nothing of it changes."""
    claims = {one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]["volumeName"]) for one in world.all(PVC)}
    volumes = {one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]["local"]) for one in world.all(PV)}
    return world.get(POD, NAME)["metadata"]["uid"], claims, volumes, dict(world.data)


def check_adopted(world, before):
    assert shape(world) == before
    record = world.get(BERTH, NAME)
    assert recorded(record) == "Running"
    assert {each["claim"]: each["volume"] for each in record["spec"]["disks"]} == VOLUMES
    for claim, name in DISKS.items():
        ref, uid = world.get(LOCAL_DISK, name)["spec"]["claimRef"], record["metadata"]["uid"]
        told = (ref["uid"], ref["volume"], ref["filesystemUUID"], ref["mountPoint"])
        assert told == (uid, VOLUMES[claim], f"fs-{name}", f"/mnt/{name}/fs")
        assert world.get(LOCAL_DISK, name)["status"]["phase"] == "InUse"
        volume, bound_claim = world.get(PV, VOLUMES[claim]), world.get(PVC, f"{claim}-{NAME}")
        assert volume["metadata"]["annotations"] == {BERTH_ANNOTATION: uid, DISK_ANNOTATION: name}
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain", "no provisioner cleans the disk"
        assert bound_claim["metadata"]["annotations"] == {BERTH_ANNOTATION: uid}
        assert bound_claim["metadata"]["labels"].items() >= {"own": "yes", "berth.dev/app": "db"}.items()


@pytest.mark.promise
def test_pod_claims_and_volumes_stay_whichever_write_is_the_last_one():
    for last in range(WRITES + 1):
        world = before_berth()
        before, process = shape(world), Adopter(world)
        while len(world.log) < last:
            process.step()
        run(world, Adopter(world), until=("",))
        assert len(world.log) == WRITES, "and nothing is written twice"
        check_adopted(world, before)


@pytest.mark.promise
def test_given_up_its_data_stays_on_record_and_comes_back_over_a_volume_of_berths_own():
    for last in range(12):
        world = adopted()
        data, first, process = dict(world.data), len(world.log), Process(world, "absent")
        while len(world.log) - first < last and world.get(BERTH, NAME) is not None:
            process.step()
            world.kubernetes()
        run(world, Process(world, "absent"), until=("",))
        assert (world.all(BERTH), world.all(PV), world.all(PVC)) == ([], [], [])
        kept = {one["metadata"]["name"]: one["spec"].get("retainedFor", {}) for one in world.all(LOCAL_DISK)}
        assert [kept[name]["filesystemUUID"] for name in DISKS.values()] == ["fs-d0", "fs-d1"]

        run(world, Present(world, "present"), until=("",))
        record = world.get(BERTH, NAME)
        assert {each["claim"]: each["name"] for each in record["spec"]["disks"]} == DISKS
        assert not any("volume" in each for each in record["spec"]["disks"])
        for name in DISKS.values():
            ref = world.get(LOCAL_DISK, name)["spec"]["claimRef"]
            assert (ref["dataUID"], ref["filesystemUUID"]) == (data[name], f"fs-{name}")
            assert not {"volume", "mountPoint"} & set(ref), "berth's agent mounts it from now on"
            assert world.get(PV, f"{name}-{record['metadata']['uid'][:8]}") is not None


@pytest.mark.promise
def test_released_from_berth_it_is_as_before_and_can_be_adopted_again():
    world = adopted()
    before = shape(world)
    run(world, Leaver(world, "leave"), until=("",))
    assert shape(world) == before
    assert world.all(BERTH) == []
    for claim, name in DISKS.items():
        kept = world.get(LOCAL_DISK, name)["spec"]["retainedFor"]
        told = (kept["volume"], kept["filesystemUUID"], kept["mountPoint"])
        assert told == (VOLUMES[claim], f"fs-{name}", f"/mnt/{name}/fs")
        assert world.get(PV, VOLUMES[claim])["metadata"]["annotations"] == {}
        assert world.get(PVC, f"{claim}-{NAME}")["metadata"]["labels"] == {"own": "yes"}
    run(world, Adopter(world), until=("",))
    check_adopted(world, before)


def test_a_disk_of_it_is_exchanged_and_the_new_one_has_a_volume_of_berths_own():
    world = adopted()
    process = Process(world, "exchange", exchange())
    process.owner = lambda: ReplicaOwner(APP, 0, told=True, ready=(POD, NAME) in world.store)
    run(world, process, until=("",))
    record = world.get(BERTH, NAME)
    entries = {each["claim"]: each for each in record["spec"]["disks"]}
    assert (entries["data"]["name"], entries["data"].get("volume")) == ("d9", None)
    assert entries["wal"]["volume"] == VOLUMES["wal"]
    assert world.get(LOCAL_DISK, "d0")["spec"]["retainedFor"]["filesystemUUID"] == "fs-d0"
    assert world.get(PV, VOLUMES["data"]) is None
    assert world.get(PVC, f"data-{NAME}")["spec"]["volumeName"] == f"d9-{record['metadata']['uid'][:8]}"


def test_of_a_lost_node_the_claims_over_its_volumes_are_those_that_go():
    world = adopted()
    record, loss = world.get(BERTH, NAME), Loss("h1", "it is gone", "default", "db", 0)
    asked = lost.stop(Adopter(world).look(), record, loss)
    assert (asked.do, asked.ref.name) == ("delete", f"data-{NAME}")
    for name in (f"data-{NAME}", f"wal-{NAME}"):
        world.store[PVC, name]["spec"]["volumeName"] = "of-the-next-berth"
    assert lost.stop(Adopter(world).look(), record, loss) is None, "other claims are the next one's"


def test_what_is_gone_or_not_this_replicas_is_neither_made_nor_marked_nor_deleted():
    world = adopted()
    volume = world.store.pop((PV, VOLUMES["data"]))
    step = Adopter(world).step()
    assert isinstance(step, Wait)
    assert (step.reason, step.warn) == ("VolumeGone", True)

    for wrong in ({"name": "data-web-0", "namespace": "default"}, {"name": f"data-{NAME}", "namespace": "other"}):
        world = before_berth()
        world.store[PV, VOLUMES["data"]]["spec"]["claimRef"] = wrong
        assert run(world, Adopter(world)).reason == "Differs"
        assert BERTH_ANNOTATION not in world.get(PV, VOLUMES["data"])["metadata"].get("annotations", {})
        run(world, Process(world, "absent"), until=("",))
        assert world.get(PV, VOLUMES["data"]) is not None, "a Berth that names it makes it nobody's to delete"

    world = before_berth()
    world.store[LOCAL_DISK, "d0"]["spec"]["retainedFor"]["volume"] = "another"
    world.store[LOCAL_DISK, "d0"]["metadata"]["resourceVersion"] = "900"
    process = Adopter(world)
    for _step in range(8):
        process.step()
    assert "claimRef" not in world.get(LOCAL_DISK, "d0")["spec"], "locked for the volume that it keeps its data for"
    assert volume["metadata"]["name"] == VOLUMES["data"]


def test_everybody_has_the_name_from_one_place():
    world = adopted()
    record, disk = world.get(BERTH, NAME), world.get(LOCAL_DISK, "d0")
    entry = record["spec"]["disks"][0]
    assert volume_of(record, entry) == volume_over(record, "d0") == volume_of_lock(disk) == VOLUMES["data"]
    uid = record["metadata"]["uid"]
    assert volume_over(record, "d7") == f"d7-{uid[:8]}", "one that it does not have any more"
    seen = Observed("db", "default", {0: record},
                    volumes={name: world.get(PV, name) for name in VOLUMES.values()},
                    claims={one["metadata"]["name"]: one for one in world.all(PVC)})  # fmt: skip
    assert bound(record, seen)
    assert not bound(record, replace(seen, volumes={}))

    disks = [world.get(LOCAL_DISK, name) for name in DISKS.values()]
    app = frozenset({("default", "db")})
    assert orphans.find(orphans.Holdings(disks, [], world.all(PV), [record], app)) == []
    found = orphans.find(orphans.Holdings(disks, [], world.all(PV), [], app))
    assert {one.reason for one in found} == {orphans.LOCK_WITHOUT_BERTH}
    assert not any(one.repair for one in found), "its volume is still there: somebody uses it"


def test_a_lock_for_a_volume_wants_the_data_that_is_kept_for_it():
    world = before_berth()
    holder = Holder("default", NAME, "b", "db", 0, "data", world.tenant, "local-pv-z")
    for name in ("d0", "d2"):
        with pytest.raises(LockError, match="does not keep the data of PersistentVolume local-pv-z"):
            lock_disk(world.get(LOCAL_DISK, name), holder)
