"""A lock that somebody took off by hand: what carries data, or is below a volume, is nobody else's."""

from __future__ import annotations

import copy

import pytest

from berth_core.lifecycle import states
from berth_core.lifecycle.left_volumes import anew, over, with_volumes
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.step import DONE, Wait, Write
from berth_core.lifecycle.view import View, recorded
from berth_core.model.over_disk import disk_below
from berth_core.model.resources import BERTH, LOCAL_DISK, PV, PVC
from tests.core.app.claim_world import Cluster, claim, disk, storage_class
from tests.core.lifecycle.claim_exchange_world import Module, bound
from tests.core.lifecycle.replica_world import NAME, Process, World, exchange, local_disk, locks, run
from tests.core.lifecycle.test_race import racing

pytestmark = pytest.mark.promise
UID = "0123456789"


def volume(name=f"n1-d0-{UID[:8]}", uid=UID, **annotations):
    notes = {**({"berth.dev/berth-uid": uid} if uid else {}), **annotations}
    ref = {"namespace": "db", "name": "data-pg-0"}
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"claimRef": ref}}


@pytest.mark.parametrize(
    ("one", "below"),
    [
        (volume(), "n1-d0"),
        (volume("any", **{"berth.dev/local-disk": "n1-d1"}), "n1-d1"),
        (volume(uid=""), ""),
        (volume(uid="", **{"berth.dev/local-disk": "n1-d1"}), ""),
    ],
)
def test_a_volume_of_berths_tells_its_disk_by_its_mark_or_its_name(one, below):
    assert disk_below(one) == below


def record(*names):
    disks = [{"claim": "data", "name": name, "size": 1} for name in names]
    return {"metadata": {"name": "db-0", "uid": "u-1"}, "spec": {"nodeName": "n1", "disks": disks}}


def test_the_volumes_over_a_berths_disks_are_looked_at_and_no_others():
    view = with_volumes(View("x", None, record("n1-d0")), [volume(), volume("n1-d9-01234567"), volume("x", uid="")])
    assert list(view.volumes) == [f"n1-d0-{UID[:8]}"]
    assert not anew(view, "n1-d0", []).volumes
    assert list(anew(view, "n1-d1", [volume()]).volumes) == [f"n1-d0-{UID[:8]}"]


def test_a_disk_below_another_ones_volume_is_not_this_berths_unless_it_keeps_its_data():
    view = with_volumes(View("x", None, record("n1-d0")), [volume()])
    assert over(view, "u-1", disk()).startswith(
        "below PersistentVolume n1-d0-01234567 of claim db/data-pg-0, whose lock"
    )
    assert over(view, "u-1", disk("n1-d1")) == ""
    assert over(view, UID, disk()) == "", "its own"
    assert over(view, "u-1", disk(retainedFor={"dataUID": UID})) == ""
    assert over(view, "u-1", disk(claimRef={"uid": "u-1", "dataUID": UID})) == ""
    assert over(view, "u-1", disk(claimRef={"uid": "u-1", "dataUID": "u-1"})) != ""


def with_left(world):
    """The claim's view as a driver fills it."""
    return with_volumes(world.view(), [volume()])


def test_a_claims_berth_locks_no_disk_below_another_ones_volume():
    world = Cluster(claim(), storage_class(), [disk(), disk("n1-d1", size=3 << 30)])
    world.step()
    step = next_step(with_left(world))
    assert isinstance(step, Write)
    assert (step.resource, step.body["status"]["phase"]) == (BERTH, states.RELEASING)
    assert step.why.startswith("LocalDisk n1-d0 is below PersistentVolume n1-d0-01234567 of claim db/data-pg-0")


def test_no_volume_is_made_beside_one_that_comes_to_be_known_after_the_lock():
    world = Cluster(claim(), storage_class(), [disk()])
    while recorded(world.get(BERTH, "pvc-c-1") or {"status": {}}) != states.RESERVED:
        world.step()
    step = next_step(with_left(world))
    assert isinstance(step, Wait)
    assert (step.reason, step.warn) == ("VolumeLeft", True)
    assert world.run() == DONE, "and goes on when that is gone"


def cover(world, disk):
    """A volume for a berth whose lock somebody has taken off the disk."""
    path = f"/var/lib/berth/disks/.namespaces/{disk}/db"
    one = volume(f"{disk}-{UID[:8]}")
    world._put(PV, {**one, "spec": {**one["spec"], "local": {"path": path}}})


@pytest.mark.parametrize("known", [True, False], ids=["before it begins", "when its pod has stopped"])
def test_a_replicas_disk_is_not_exchanged_for_one_below_another_ones_volume(known):
    world = World()
    run(world, Process(world, "present"))
    held, swap = locks(world)[0], exchange("d0", "d9")
    if known:
        world._put(LOCAL_DISK, local_disk("d9"))
    cover(world, "d9")
    before = list(world.log)
    step = run(world, Process(world, "replace", swap))
    assert (step.reason, step.warn) == ("VolumeLeft", True)
    assert (world.log == before) is known, "nothing is touched where it is known before"
    assert locks(world)[0] == held, "the berth names the old disk, and another new one may be named"
    assert "claimRef" not in world.get(LOCAL_DISK, "d9")["spec"]
    del world.store[PV, f"d9-{UID[:8]}"]
    run(world, Process(world, "replace", swap))
    assert locks(world)[0] == {**held, "data": "d9"}


def test_a_claims_disk_is_not_exchanged_for_one_below_another_ones_volume():
    world, _controller = bound(waits=False)
    world._put(LOCAL_DISK, local_disk("d9"))
    cover(world, "d9")
    before = list(world.log)
    step = Module(world).step()
    assert (step.reason, step.warn) == ("VolumeLeft", True)
    assert world.log == before


STATUSES = {
    "data is on it": {"phase": "Pending"},
    "not looked at": {"phase": "Locked"},
    "broken": {"phase": "Faulted"},
}


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_a_replicas_berth_locks_no_disk_whose_status_says_that_it_is_not_to_be_given(status):
    world = World()
    process = Process(world, "present")
    while world.get(BERTH, NAME) is None:
        process.step()
    seen = world.get(LOCAL_DISK, "d0")
    seen["status"].update(status)
    seen["status"]["observed"]["filesystem"] = {"type": "xfs"}
    world._put(LOCAL_DISK, seen)
    run(world, process)
    assert locks(world) == ({"data": "d1", "wal": "d2"}, set())
    assert "claimRef" not in world.get(LOCAL_DISK, "d0")["spec"]


def test_a_replica_takes_its_own_data_again_whatever_the_phase_says():
    world = World()
    run(world, Process(world, "present"))
    run(world, Process(world, "absent"), until=("",))
    process = Process(world, "present")
    while world.get(BERTH, NAME) is None:
        process.step()
    for name in ("d0", "d1"):
        seen = copy.deepcopy(world.get(LOCAL_DISK, name))
        seen["status"]["phase"] = "Pending"
        world._put(LOCAL_DISK, seen)
    run(world, process)
    assert locks(world)[0] == {"data": "d0", "wal": "d1"}


def test_a_disk_below_a_volume_whose_lock_was_cleared_is_given_when_that_volume_is_gone():
    """Its agent says Available: it was not formatted yet. Claims want it, and are told why they wait."""
    with racing(waits=False) as (world, processes):
        while len(world.all(PV)) < 2:
            processes["module"].step()
        world.clear_lock("d0")
        world.agent()
        assert world.get(LOCAL_DISK, "d0")["status"]["phase"] == "Available"
        world.kubernetes()
        controller = processes["controller"]
        turn(controller)
        (told,) = [step for step in controller.rests.values() if step.reason == "NoDisk"]
        assert "1 below PersistentVolume d0-" in told.message
        assert "claimRef" not in world.get(LOCAL_DISK, "d0")["spec"]
        for one in world.all(PV):
            if disk_below(one) == "d0":
                world.ask_to_go(PV, one["metadata"]["name"])
                world.ask_to_go(PVC, one["spec"]["claimRef"]["name"])
        world.kubernetes()
        world.kubernetes()
        turn(controller)
        assert world.get(LOCAL_DISK, "d0")["spec"]["claimRef"]["app"].startswith("pvc.data-web-")


def turn(controller):
    controller.hear()
    for _request in range(60):
        controller.step()


def test_a_disk_is_given_back_by_writing_down_whose_data_it_keeps():
    """As the page on failures says, by the uid in its agent's journal."""
    world = World()
    run(world, Process(world, "present"))
    held = world.get(LOCAL_DISK, "d0")
    ref = held["spec"].pop("claimRef")
    world.store[LOCAL_DISK, "d0"] = held
    assert run(world, Process(world, "present")).reason == "LockLost"
    uid = held["status"]["journal"]["dataUID"]
    held["spec"]["retainedFor"] = {
        **{key: ref[key] for key in ("namespace", "app", "ordinal", "claim")},
        "dataUID": uid,
    }
    world._put(LOCAL_DISK, held)
    run(world, Process(world, "present"))
    assert world.get(LOCAL_DISK, "d0")["spec"]["claimRef"] == ref
