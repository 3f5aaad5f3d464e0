"""A disk is exchanged under a replica with two disks and a device: dying at any write, beside runs of stateful_app."""

from __future__ import annotations

from functools import partial

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.disk_replace import OPERATION
from tests.apiserver.app.runner import calm, deaths, run
from tests.apiserver.app.test_stateful_app_devices import device
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
CLAIMS = {OLD: "data", OTHER: "wal", NEW: "data"}


@pytest.fixture
def pair(app_world, kubeconfig):
    """One replica with two disks and a device of node fake-0, Running."""

    def lay_out():
        app_world.clear()
        for index, size in ((0, 128), (1, 160)):
            app_world.add_disk(local_disk("fake-0", index, size * MI))
        made = app_world.client.create(app_world.kinds.LOCAL_DEVICE, device("fake-0", 0))
        status = {"status": {"phase": "Available", "observed": {"health": "Healthy"}}}
        app_world.client.patch(app_world.kinds.LOCAL_DEVICE, made["metadata"]["name"], None, status, "status")
        assert not run(app_world.options).get("failed")
        app_world.add_disk(local_disk("fake-0", 9, 512 * MI))

    devices = [{"name": "gpu", "device_class": "gpu"}]
    app_world.options = params(
        "pair", kubeconfig, replicas=1, wait=True, template=TEMPLATE, disks=DISKS, devices=devices
    )
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


def device_holders(world):
    """The uids of the berths that have the one device."""
    (found,) = world.client.list(world.kinds.LOCAL_DEVICE)
    return [ref["uid"] for ref in found["spec"].get("claimRefs") or ()]


def path(name):
    return f"/var/lib/berth/disks/.namespaces/{name}/default"


def paths(world):
    """What there are volumes over."""
    return {item["spec"]["local"]["path"] for item in world.ours(world.kinds.PV)}


def nothing_is_lost(world, uid):
    """What holds wherever an exchange is cut: one living berth, whose every disk is locked for it or keeps its data,
    each for its own claim; its device is its own; no volume is over a disk that is not locked for it."""
    (record,) = world.berths().values()
    disks = {name: disk["spec"] for name, disk in world.disks().items()}
    locks = {name: spec["claimRef"] for name, spec in disks.items() if spec.get("claimRef")}
    kept = {name: spec["retainedFor"] for name, spec in disks.items() if spec.get("retainedFor")}
    assert record["metadata"]["uid"] == uid
    assert OTHER in locks
    assert (OLD in locks) != (OLD in kept), "locked for the replica, or retained for it"
    assert set(kept) <= {OLD}
    assert {name: (one["uid"], one["claim"]) for name, one in locks.items()} == {
        name: (uid, CLAIMS[name]) for name in locks
    }
    assert {(one["dataUID"], one["claim"]) for one in kept.values()} <= {(uid, "data")}
    assert len({one["claim"] for one in locks.values()}) == len(locks), "one claim holds two disks"
    assert {each["name"] for each in record["spec"]["disks"]} in ({OLD, OTHER}, {NEW, OTHER})
    assert device_holders(world) == [uid]
    assert paths(world) <= {path(name) for name in locks}, "a volume over a disk that is not locked"


def exchanged(world):
    """The replica runs on the new disk and its other one; the old one keeps its data in the replica's name."""
    record, disks = world.berths()["pair-0"], world.disks()
    uid = record["metadata"]["uid"]
    assert record["status"]["phase"] == "Running"
    assert {each["claim"]: each["name"] for each in record["spec"]["disks"]} == {"data": NEW, "wal": OTHER}
    assert world.holders() == {NEW: uid, OTHER: uid}
    assert device_holders(world) == [uid]
    kept = disks[OLD]["spec"]["retainedFor"]
    assert (kept["app"], kept["claim"], disks[OLD]["spec"]["unschedulable"]) == ("pair", "data", True)
    assert paths(world) == {path(name) for name in (NEW, OTHER)}


def test_killed_at_every_write_with_a_rerun_of_the_app_before_it_goes_on(pair):
    """Neither the death nor the rerun loses anything: see `nothing_is_lost`. The exchange is ended by its rerun."""
    total = len(calm(run(pair.exchange, OPERATION))["trace"])
    exchanged(pair)
    pair.lay_out()
    uid, died = pair.berths()["pair-0"]["metadata"]["uid"], 0
    for _death in deaths(partial(run, pair.exchange, OPERATION)):
        died += 1
        nothing_is_lost(pair, uid)
        rerun = calm(run({**pair.options, "wait": False}))
        phase = pair.berths()["pair-0"]["status"]["phase"]
        assert any("run disk_replace again" in text for text in rerun["warnings"]) == (phase == "Replacing"), died
        nothing_is_lost(pair, uid)
    assert died > total // 2, "the rest was the doing of the app's own runs, and of the StatefulSet's controller"
    exchanged(pair)
    for write in (2, total // 2):  # one run does all the rest
        pair.lay_out()
        assert run(pair.exchange, OPERATION, kill_at=write) is None
        calm(run(pair.exchange, OPERATION))
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
