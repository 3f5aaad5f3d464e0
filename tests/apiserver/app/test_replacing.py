"""A disk is exchanged under a replica with two disks: dying at any write, and beside runs of stateful_app."""

from __future__ import annotations

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.disk_replace import OPERATION
from tests.apiserver.app.runner import run
from tests.apiserver.app.world import MI, local_disk, params

pytestmark = [pytest.mark.slow, pytest.mark.promise]
CONTAINER = {
    "name": "main",
    "image": "berth.local/busybox:1",
    "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("data", "wal")],
}
TEMPLATE = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [CONTAINER]}}
DISKS = [{"name": name, "size": "100Mi", "storage_class": "berth-test"} for name in ("data", "wal")]
OLD, OTHER, NEW = "fake-0-d0", "fake-0-d1", "fake-0-d9"


@pytest.fixture
def pair(app_world, kubeconfig):
    """One replica with two disks of node fake-0, Running."""

    def lay_out():
        app_world.clear()
        for index, size in ((0, 128), (1, 160)):
            app_world.add_disk(local_disk("fake-0", index, size * MI))
        assert not run(app_world.options).get("failed")
        app_world.add_disk(local_disk("fake-0", 9, 512 * MI))

    app_world.options = params("pair", kubeconfig, replicas=1, wait=True, template=TEMPLATE, disks=DISKS)
    app_world.exchange = {
        "name": OLD,
        "new": {"name": NEW, "identity": local_disk("fake-0", 9, 512 * MI)["spec"]["identity"]},
        "kubeconfig": str(kubeconfig),
        "wait_timeout": 60,
    }
    app_world.lay_out = lay_out
    lay_out()
    yield app_world
    app_world.clear()


def exchanged(world):
    """The replica runs on the new disk and its other one; the old one keeps its data in the replica's name."""
    record, disks = world.berths()["pair-0"], world.disks()
    uid = record["metadata"]["uid"]
    assert record["status"]["phase"] == "Running"
    assert {each["claim"]: each["name"] for each in record["spec"]["disks"]} == {"data": NEW, "wal": OTHER}
    assert world.holders() == {NEW: uid, OTHER: uid}
    kept = disks[OLD]["spec"]["retainedFor"]
    assert (kept["app"], kept["claim"], disks[OLD]["spec"]["unschedulable"]) == ("pair", "data", True)
    paths = {item["spec"]["local"]["path"] for item in world.ours(world.kinds.PV)}
    assert paths == {f"/var/lib/berth/disks/{name}/data" for name in (NEW, OTHER)}


def test_killed_at_every_write_with_a_rerun_of_the_app_before_it_goes_on(pair):
    """The rerun loses nothing: the other disk stays locked, and the old one is locked or keeps its data."""
    first = run(pair.exchange, OPERATION)
    assert not first.get("failed"), first
    total = len(first["trace"])
    exchanged(pair)
    for write in range(1, total + 1):
        pair.lay_out()
        uid = pair.berths()["pair-0"]["metadata"]["uid"]
        cut = run(pair.exchange, OPERATION, kill_at=write)
        if cut is not None:
            assert write == total, "whether the StatefulSet's controller is there first with the claim makes one write"
            break
        rerun = run({**pair.options, "wait": False})
        assert not rerun.get("failed"), (write, rerun)
        phase = pair.berths()["pair-0"]["status"]["phase"]
        assert any("run disk_replace again" in text for text in rerun["warnings"]) == (phase == "Replacing"), write
        assert pair.holders().get(OTHER) == uid, (write, "the other disk was given up")
        old = pair.disks()[OLD]["spec"]
        assert (old.get("claimRef") or old.get("retainedFor"))["dataUID"] == uid, (write, "the old disk is nobody's")
        done = run(pair.exchange, OPERATION)
        assert not done.get("failed"), (write, done)
        exchanged(pair)
        assert run(pair.exchange, OPERATION)["writes"] == 0


@pytest.mark.parametrize("until", ["released", "adopted"])
@pytest.mark.parametrize("change", [{"state": "absent"}, {"replicas": 0}])
def test_an_app_that_is_given_up_meanwhile_keeps_the_data_of_all_its_disks(pair, until, change):
    uid = pair.berths()["pair-0"]["metadata"]["uid"]
    assert not run({**pair.exchange, "until": until}, OPERATION).get("failed")
    given_up = run({**pair.options, "wait": False, **change})
    assert not given_up.get("failed"), given_up
    assert pair.berths() == {}
    kept = {name: disk["spec"]["retainedFor"] for name, disk in pair.disks().items() if "retainedFor" in disk["spec"]}
    assert {name: (each["claim"], each["dataUID"]) for name, each in kept.items()} == {
        OLD: ("data", uid),
        OTHER: ("wal", uid),
    }
    assert pair.holders() == {}


def test_a_disk_of_an_earlier_namespaces_replica_goes_without_its_namesake_being_touched(pair):
    before = pair.berths(), pair.holders()
    kept = {"namespace": "default", "namespaceUID": "earlier", "app": "pair", "ordinal": 0, "claim": "data",
            "dataUID": "u-0"}  # fmt: skip
    pair.add_disk(local_disk("fake-0", 7, retainedFor=kept), phase="Released")
    done = run({**pair.exchange, "name": "fake-0-d7"}, OPERATION)
    assert not done.get("failed"), done
    assert done["done"] == ["cordon"], "the new disk is there, and is nobody's"
    assert (pair.berths(), pair.holders()) == before
    assert pair.disks()["fake-0-d7"]["spec"]["retainedFor"] == kept


def test_a_changed_template_beside_an_exchange_takes_no_disk_away(pair):
    uid = pair.berths()["pair-0"]["metadata"]["uid"]
    assert not run({**pair.exchange, "until": "released"}, OPERATION).get("failed")
    template = {"spec": {**TEMPLATE["spec"], "containers": [{**CONTAINER, "env": [{"name": "A", "value": "b"}]}]}}
    changed = {**pair.options, "wait": False, "template": template}
    assert not run(changed).get("failed")
    assert pair.holders() == {OTHER: uid}
    assert not run(pair.exchange, OPERATION).get("failed")
    exchanged(pair)
    assert not run(changed).get("failed")
    assert run(changed)["writes"] == 0
