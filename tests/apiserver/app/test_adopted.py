"""A StatefulSet over hand-made local volumes comes under berth: real API server and controllers; kwok's kubelets."""

from __future__ import annotations

import copy
from functools import partial

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.adoption import OPERATION
from tests.apiserver.app.runner import SPEC, STATUS, calm, deaths, run
from tests.apiserver.app.world import MI, OBSERVED, local_disk, params
from tests.dev.hosts_help import eventually
from tests.support.team import options, team

pytestmark = [pytest.mark.slow, pytest.mark.promise]
NODES = ("fake-0", "fake-1")
TEAM = "team-in"
CONTAINER = {"name": "main", "image": "berth.local/busybox:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
LABELS = {"app": "own"}
SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "own", "namespace": "default"},
    "spec": {
        "serviceName": "own",
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [CONTAINER]},
        },
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "100Mi"}},
                    "storageClassName": "berth-test",
                },
            }
        ],
    },
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "own", "namespace": "default"},
    "spec": {"clusterIP": "None", "selector": LABELS, "ports": [{"port": 80}]},
}


def manifest():
    return {"apiVersion": "v1", "kind": "List", "items": [copy.deepcopy(SET), copy.deepcopy(SERVICE)]}


def volume(ordinal, hostname):
    """As a person makes one: bound by its class and size."""
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"hand-{ordinal}"},
        "spec": {
            "capacity": {"storage": "256Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "berth-test",
            "local": {"path": f"/mnt/disks/{ordinal}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
        },
    }


def discovered(node, path):
    """As sig-storage-local-static-provisioner makes one of a mount that it has found (discovery.go, CreateLocalPVSpec).

    The class of these tests is as its documentation has one: no provisioner, WaitForFirstConsumer, Delete.
    """
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    hashed = fnv1a(f"{path.rpartition('/')[2]}{name}berth-test")
    made = volume(0, node["metadata"]["labels"]["kubernetes.io/hostname"])
    notes = {"pv.kubernetes.io/provisioned-by": f"local-volume-provisioner-{name}-{uid}"}
    spec = {**made["spec"], "local": {"path": path}, "volumeMode": "Filesystem", "capacity": {"storage": "240Mi"}}
    return {**made, "metadata": {"name": f"local-pv-{hashed:x}", "annotations": notes}, "spec": spec}


def fnv1a(text):
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 % 2**32
    return found


def found(world, node, path, uuid):
    """A LocalDisk as its agent shows it: declared as reserved, for its host mounts it."""
    disk = local_disk(node, 0)
    disk["spec"]["reserved"] = True
    world.add_disk(disk, "Pending")
    seen = {**OBSERVED, "mounts": [path], "filesystem": {"type": "ext4", "uuid": uuid}}
    status = {"metadata": {}, "status": {"phase": "Pending", "observed": seen}}
    world.client.patch(world.kinds.LOCAL_DISK, f"{node}-d0", None, status, "status")


@pytest.fixture
def world(app_world, kubeconfig):
    """Two replicas, Ready, over a local volume each, one made by hand; berth has no part in them."""
    kinds, client = app_world.kinds, app_world.client
    app_world.into = {"name": "own", "state": "adopted", "kubeconfig": str(kubeconfig), "template": manifest()}
    same = {"name": "own", "kubeconfig": str(kubeconfig), "template": manifest(), "wait": True, "wait_timeout": 60}
    app_world.asked = same

    def lay_out():
        forget(app_world)
        by_hand, other = (client.get(kinds.NODE, node) for node in NODES)
        client.create(kinds.PV, volume(0, by_hand["metadata"]["labels"]["kubernetes.io/hostname"]))
        client.create(kinds.PV, discovered(other, "/mnt/disks/1"))
        for ordinal, node in enumerate(NODES):
            found(app_world, node, f"/mnt/disks/{ordinal}", f"uuid-{ordinal}")
        client.create(kinds.SERVICE, copy.deepcopy(SERVICE))
        client.create(kinds.STATEFUL_SET, copy.deepcopy(SET))
        eventually(lambda: ready(app_world) == 2, 60, "both pods to be Ready")

    app_world.lay_out = lay_out
    lay_out()
    yield app_world
    forget(app_world)


def ready(world, namespace="default"):
    live = world.client.get(world.kinds.STATEFUL_SET, "own", namespace)
    status = live.get("status") or {}
    seen = status.get("observedGeneration") == live["metadata"]["generation"]
    return status.get("readyReplicas", 0) if seen else 0


def pods(world):
    every = world.client.list(world.kinds.POD, "default", labels="app=own")
    return {pod["metadata"]["name"]: pod for pod in every}


def forget(world):
    """With and without berth's labels: names tell."""
    kinds, client = world.kinds, world.client
    client.delete(kinds.STATEFUL_SET, "own", "default")
    client.delete(kinds.SERVICE, "own", "default")
    for ordinal in range(3):
        client.delete(kinds.PVC, f"data-own-{ordinal}", "default")
    eventually(lambda: not pods(world), 60, "the pods to go")
    for name in volumes(world):
        client.delete(kinds.PV, name)
    world.clear()
    eventually(lambda: not volumes(world), 30, "the volumes to go")


def volumes(world):
    """By name, those that were there before berth, with their paths."""
    every = {one["metadata"]["name"]: one["spec"].get("local") or {} for one in world.client.list(world.kinds.PV)}
    return {name: local["path"] for name, local in every.items() if local.get("path", "").startswith("/mnt/disks/")}


def running(world):
    """What runs and what it uses: nothing of it may change."""
    kinds, client = world.kinds, world.client
    claims = [client.get(kinds.PVC, f"data-own-{ordinal}", "default") for ordinal in range(2)]
    volumes = [client.get(kinds.PV, claim["spec"]["volumeName"]) for claim in claims]
    return {
        "set": client.get(kinds.STATEFUL_SET, "own", "default")["metadata"]["uid"],
        "pods": {name: (pod["metadata"]["uid"], pod["spec"]["nodeName"]) for name, pod in pods(world).items()},
        "claims": [(one["metadata"]["uid"], one["spec"]["volumeName"], one["status"]["phase"]) for one in claims],
        "volumes": [(one["metadata"]["uid"], one["spec"]["local"], one["status"]["phase"]) for one in volumes],
    }


def check_adopted(world, before):
    assert running(world) == before
    world.check()
    kinds, client = world.kinds, world.client
    assert {name: one["status"]["phase"] for name, one in world.berths().items()} == dict.fromkeys(
        ("own-0", "own-1"), "Running"
    )
    names = {f"own-{ordinal}": before["claims"][ordinal][1] for ordinal in range(2)}
    for name, disk in world.disks().items():
        ref = disk["spec"]["claimRef"]
        assert not disk["spec"].get("reserved")
        assert ref["volume"] == names[ref["name"]]
        number = volumes(world)[ref["volume"]].removeprefix("/mnt/disks/")
        assert (ref["filesystemUUID"], ref["mountPoint"]) == (f"uuid-{number}", f"/mnt/disks/{number}"), name
        assert ref["dataUID"] == client.get(kinds.PV, ref["volume"])["metadata"]["uid"]
        assert client.get(kinds.PV, ref["volume"])["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    live = client.get(kinds.STATEFUL_SET, "own", "default")
    hashes = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods(world).values()}
    assert hashes == {live["status"]["updateRevision"]}, "nothing is outdated"
    assert {pod["metadata"]["labels"].get("berth.dev/app") for pod in pods(world).values()} == {"own"}


def test_no_pod_is_restarted_and_stateful_app_goes_on(world):
    before = running(world)
    seen = calm(run(world.into, OPERATION, check=True))
    assert (seen["changed"], seen["writes"], running(world), world.berths()) == (True, 0, before, {})
    heads = {entry["after_header"] for entry in seen["diff"]}
    assert heads >= {"StatefulSet default/own", "Service default/own", "Berth default/own-0", "LocalDisk fake-0-d0"}
    assert heads >= {"PersistentVolume hand-0", "PersistentVolumeClaim default/data-own-1", "Pod default/own-1"}
    (static,) = set(volumes(world)) - {"hand-0"}
    (told,) = seen["warnings"]
    assert f"PersistentVolume {static} (/mnt/disks/1) was made by local-volume-provisioner" in told

    done = calm(run(world.into, OPERATION))
    assert (done["diff"], done["replicas"]) == (seen["diff"], seen["replicas"])
    check_adopted(world, before)
    again = calm(run(world.into, OPERATION))
    assert (again["changed"], again["writes"], again["diff"]) == (False, 0, [])
    assert again["replicas"] == done["replicas"]

    same = calm(run(world.asked))
    assert same["trace"] == [SPEC, STATUS], "stateful_app takes it on, and writes it down"
    check_adopted(world, before)

    world.client.delete(world.kinds.POD, "own-0", "default")  # and its controller makes it anew, on its node
    eventually(lambda: came_back(world, before), 60, "own-0 to come back")
    assert calm(run(world.asked))["trace"] in ([], [STATUS]), "it may not be Ready yet"

    world.add_disk(local_disk("fake-2", 0))  # ordinary berths beside them
    wider = copy.deepcopy(world.asked)
    wider["template"]["items"][0]["spec"]["replicas"] = 3
    assert calm(run(wider))["changed"]
    (third,) = world.berths()["own-2"]["spec"]["disks"]
    assert (third["name"], "volume" in third) == ("fake-2-d0", False)
    world.check()
    calm(run(world.asked))

    before = running(world)
    out = {**world.into, "state": "released"}
    out.pop("template")
    gone = calm(run(out, OPERATION))
    assert {disk["fstab"] for one in gone["replicas"] for disk in one["disks"]} == {None}, "its hosts mount them"
    assert (running(world), world.berths(), world.holders()) == (before, {}, {})
    kept = {disk["spec"]["retainedFor"].get("volume") for disk in world.disks().values()} - {None}
    assert kept == set(volumes(world))
    calm(run(world.into, OPERATION))
    assert running(world) == before


def came_back(world, before):
    now = pods(world).get("own-0")
    if now is None or now["metadata"]["uid"] == before["pods"]["own-0"][0] or ready(world) != 2:
        return False
    return now["spec"]["nodeName"] == before["pods"]["own-0"][1]


def test_it_dies_at_any_write_and_the_next_run_goes_on(world):
    before = running(world)
    trace = calm(run(world.into, OPERATION))["trace"]
    check_adopted(world, before)
    assert trace[:2] == ["replace LocalDisk"] * 2, "first the data is somebody's"
    assert trace[2] == "create Berth"
    world.lay_out()
    before = running(world)
    died, seen = 0, None
    for _death in deaths(partial(run, world.into, OPERATION)):
        died += 1
        held = [disk["spec"] for disk in world.disks().values()]
        assert died == 1 or all("claimRef" in spec or "retainedFor" in spec for spec in held), "nobody's data"
        told = [(disk["spec"], disk["status"]["phase"]) for disk in world.disks().values()]
        if told != seen:  # another app looks at nothing else of a disk
            other = run(params("other", world.into["kubeconfig"], replicas=1))
            assert other["failed"], "the disks are nobody else's to take"
        seen = told
    assert died == len(trace), "no death has cost a write"
    check_adopted(world, before)


def test_without_a_manifest_stateful_app_writes_down_what_it_was_made_from_and_restarts_nothing(world):
    before = running(world)
    bare = {key: value for key, value in world.into.items() if key != "template"}
    calm(run(bare, OPERATION))
    check_adopted(world, before)
    assert calm(run(bare, OPERATION))["writes"] == 0
    calm(run(world.asked))
    check_adopted(world, before)
    assert calm(run(world.asked))["writes"] == 0


def test_given_up_its_data_is_kept_by_the_filesystems_own_uuid(world):
    calm(run(world.into, OPERATION))
    calm(run({**world.asked, "state": "absent"}))
    kept = {name: disk["spec"]["retainedFor"] for name, disk in world.disks().items()}
    assert {each["filesystemUUID"] for each in kept.values()} == {"uuid-0", "uuid-1"}
    calm(run({**world.asked, "wait": False}))
    for disk in world.disks().values():
        ref = disk["spec"]["claimRef"]
        assert (ref["filesystemUUID"], "volume" in ref, "mountPoint" in ref) == (
            kept[disk["metadata"]["name"]]["filesystemUUID"],
            False,
            False,
        )
    world.check()


def test_what_is_in_the_way_is_told_and_nothing_is_written(world):
    kinds, client = world.kinds, world.client
    client.patch(kinds.LOCAL_DISK, "fake-0-d0", None, {"spec": {"unschedulable": True}})
    made = client.create(kinds.CONFIG_MAP, {"metadata": {"name": "operator", "namespace": "default"}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "operator", "uid": made["metadata"]["uid"]}
    waits = copy.deepcopy(world.into)  # which is for stateful_app to judge, not here
    waits["template"]["items"][0]["spec"]["updateStrategy"] = {"type": "OnDelete"}
    refused = run(waits, OPERATION)
    assert "LocalDisk fake-0-d0 is cordoned" in refused["msg"]
    other = run({**world.into, "name": "nobody", "template": None}, OPERATION)
    assert "there is no StatefulSet default/nobody" in other["msg"]
    named = run({**world.into, "local_disks": [{"ordinal": 0, "name": "elsewhere"}]}, OPERATION)
    assert "LocalDisk elsewhere was named for it" in named["msg"]
    client.patch(kinds.STATEFUL_SET, "own", "default", {"metadata": {"ownerReferences": [owner]}})
    owned = run(world.into, OPERATION)
    assert "it belongs to ConfigMap operator (ownerReferences)" in owned["msg"]
    assert [one["writes"] for one in (refused, other, named, owned)] == [0, 0, 0, 0]
    assert (world.berths(), world.holders()) == ({}, {})
    client.delete(kinds.CONFIG_MAP, "operator", "default")


def test_a_volume_of_topolvm_is_refused_with_its_driver(app_world, kubeconfig):
    """Bound beforehand, as no driver runs here."""
    kinds, client = app_world.kinds, app_world.client
    own, claim = copy.deepcopy(SET), {"name": "data-own-0", "namespace": "default"}
    own["spec"]["replicas"] = 1
    (data,) = own["spec"]["volumeClaimTemplates"]
    data["spec"]["storageClassName"] = "topolvm-provisioner"
    where = {"key": "topology.topolvm.io/node", "operator": "In", "values": ["fake-3"]}
    client.patch(kinds.NODE, "fake-3", None, {"metadata": {"labels": {where["key"]: "fake-3"}}})
    lvm = volume(0, "")
    lvm["metadata"] = {"name": "pvc-lvm", "annotations": {"pv.kubernetes.io/provisioned-by": "topolvm.io"}}
    del lvm["spec"]["local"]
    lvm["spec"] |= {
        "storageClassName": "topolvm-provisioner",
        "claimRef": claim,
        "csi": {"driver": "topolvm.io", "fsType": "xfs", "volumeHandle": "a0c4bd17-33ee-4d6c-8b5b-5f7ff0dd8bf6"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
    }
    client.create(kinds.PV, lvm)
    client.create(kinds.PVC, {"metadata": claim, "spec": {**data["spec"], "volumeName": "pvc-lvm"}})
    client.create(kinds.STATEFUL_SET, own)
    eventually(lambda: ready(app_world) == 1, 60, "the pod to be Ready")
    before = pods(app_world)["own-0"]["metadata"]["uid"]
    refused = run({"name": "own", "state": "adopted", "kubeconfig": str(kubeconfig)}, OPERATION)
    assert "own-0: PersistentVolume pvc-lvm has no spec.local (csi, driver topolvm.io)" in refused["msg"]
    assert "make a new application with stateful_app and bring the data there" in refused["msg"]
    assert (refused["writes"], pods(app_world)["own-0"]["metadata"]["uid"]) == (0, before)
    client.delete(kinds.PV, "pvc-lvm")
    forget(app_world)
    client.patch(kinds.NODE, "fake-3", None, {"metadata": {"labels": {where["key"]: None}}})


def test_a_team_is_refused_before_the_first_write(app_world, kubeconfig):
    """To say whose data a disk has, and to change volumes, is an administrator's."""
    kinds, client = app_world.kinds, app_world.client
    hostname = client.get(kinds.NODE, "fake-2")["metadata"]["labels"]["kubernetes.io/hostname"]
    with team(kubeconfig, TEAM):
        own = copy.deepcopy(SET)
        own["metadata"]["namespace"] = TEAM
        own["spec"]["replicas"] = 1
        client.create(kinds.PV, volume(2, hostname))
        found(app_world, "fake-2", "/mnt/disks/2", "uuid-2")
        client.create(kinds.STATEFUL_SET, own)
        eventually(lambda: ready(app_world, TEAM) == 1, 60, "the pod to be Ready")
        into = {"name": "own", "namespace": TEAM, "state": "adopted", "kubeconfig": str(kubeconfig)}
        refused = run({**into, **options(TEAM)}, OPERATION)
        assert (refused["failed"], refused["writes"]) == (True, 0), refused
        assert calm(run(into, OPERATION, check=True))["changed"], "nothing else is in the way"
        client.delete(kinds.STATEFUL_SET, "own", TEAM)
        client.delete(kinds.PVC, "data-own-0", TEAM)
    client.delete(kinds.PV, "hand-2")
    app_world.clear()


def test_what_was_there_before_stays_on_record_whoever_writes(world):
    """The rules of the schema: a lock and what it leaves behind carry the filesystem's UUID."""
    from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import InvalidError

    calm(run(world.into, OPERATION))
    kinds, client = world.kinds, world.client
    disk = client.get(kinds.LOCAL_DISK, "fake-0-d0")
    ref = disk["spec"].pop("claimRef")
    kept = {key: ref[key] for key in ("namespace", "app", "ordinal", "claim", "dataUID", "namespaceUID")}
    for more in ({}, {"filesystemUUID": "another"}):
        disk["spec"]["retainedFor"] = {**kept, **more}
        with pytest.raises(InvalidError, match="stays on record by its UUID"):
            client.replace(kinds.LOCAL_DISK, disk)
    disk["spec"]["retainedFor"] = {**kept, "filesystemUUID": ref["filesystemUUID"]}
    disk = client.replace(kinds.LOCAL_DISK, disk)
    disk["spec"].pop("retainedFor")
    for more in ({}, {"filesystemUUID": "another"}):
        lock = {key: ref[key] for key in (*kept, "name", "uid")}
        with pytest.raises(InvalidError, match="stays on record by its UUID"):
            client.replace(kinds.LOCAL_DISK, {**disk, "spec": {**disk["spec"], "claimRef": {**lock, **more}}})
    assert disk["spec"]["identity"]["size"] == 256 * MI
