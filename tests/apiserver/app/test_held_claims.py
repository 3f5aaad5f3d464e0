"""A claim that changes under replicas that hold disks for it: refused before anything is written, with the way out."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.local_disk import OPERATION as LOCAL_DISK
from tests.apiserver.app.runner import calm, run
from tests.apiserver.app.test_node_loss import NODES
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.world import MI, STORAGE_CLASS, local_disk, params

pytestmark = pytest.mark.promise


@pytest.fixture
def world(app_world):
    """Two disks on each node."""
    for node in NODES:
        app_world.add_disk(local_disk(node, 0, 128 * MI))
        app_world.add_disk(local_disk(node, 1, 512 * MI))
    yield app_world
    app_world.clear()
    app_world.client.delete(app_world.kinds.STORAGE_CLASS, "berth-another")


def asking(options, mounts="volumeMounts", **disk):
    """The task with another disk."""
    asked = copy.deepcopy(options)
    asked["disks"][0].update(disk)
    container = asked["template"]["spec"]["containers"][0]
    path = {"volumeMounts": "mountPath", "volumeDevices": "devicePath"}[mounts]
    del container["volumeMounts"]
    container[mounts] = [{"name": asked["disks"][0]["name"], path: "/data"}]
    return asked


def test_a_claim_of_another_kind_or_name_is_refused_with_the_way_out(world, kubeconfig):
    options = params("db", kubeconfig, wait=True)
    places = {row["name"]: row["disks"][0]["name"] for row in calm(run(options))["berths"]}
    renamed = asking(options, name="wal")
    for asked, words in (
        (asking(options, storage_class="another"), "(StorageClass berth-test), and StorageClass another is asked for"),
        (asking(options, "volumeDevices", volume_mode="Block"), "(volumeMode Filesystem), and volumeMode Block is"),
        (renamed, "and is not asked for any more, claim wal is asked for, and its berth has no disk for it"),
    ):
        for check in (True, False):
            refused = run(asked, check=check)
            assert (refused["failed"], refused["changed"], writes(refused)) == (True, False, {})
            assert f"default/db: replica db-0: claim data is on LocalDisk {places['db-0']}" in refused["msg"]
            assert words in refused["msg"]
            assert refused["msg"].endswith("Nothing was changed")
    assert run(options)["changed"] is False

    calm(run({**options, "replicas": 0}))
    refused = run(renamed)
    assert "its StatefulSet was made with the claims data, and wal are asked for" in refused["msg"]
    assert "state: absent" in refused["msg"]
    calm(run({**options, "state": "absent"}))
    made = calm(run(renamed))
    assert {row["name"]: row["phase"] for row in made["berths"]} == {"db-0": "Running", "db-1": "Running"}
    for name, disk in places.items():
        kept = world.disks()[disk]["spec"]["retainedFor"]
        assert (f"{kept['app']}-{kept['ordinal']}", kept["claim"]) == (name, "data")
    world.check()


def test_the_same_claim_gets_another_class_when_its_data_is_given_up(world, kubeconfig):
    """The longest of the ways out that the refusal names."""
    options = params("db", kubeconfig, replicas=1, wait=True)
    old = calm(run(options))["berths"][0]["disks"][0]["name"]
    another = {**STORAGE_CLASS, "metadata": {"name": "berth-another"}}
    world.client.apply(world.kinds.STORAGE_CLASS, another)
    world.add_disk(local_disk(NODES[0], 2, storageClassName="berth-another"))
    asked = asking(options, storage_class="berth-another")
    assert "or give the app up, then the data that its disks keep" in run(asked)["msg"]
    calm(run({**options, "state": "absent"}))
    assert "db-0 does not fit" in run(asked)["msg"], "its data is where it goes"
    released = {"name": old, "state": "released", "force_retained": True, "kubeconfig": str(kubeconfig)}
    calm(run(released, LOCAL_DISK))
    made = calm(run(asked))
    assert made["berths"][0]["disks"][0]["name"] == f"{NODES[0]}-d2"
    assert world.client.get(world.kinds.PVC, "data-db-0", "default")["spec"]["storageClassName"] == "berth-another"
