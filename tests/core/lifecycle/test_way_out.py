"""A replica is released from berth: its pod, claims and volumes stay, its data is nobody else's. Cut at every write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from berth_core.lifecycle import states
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.lifecycle.step import Wait
from berth_core.lifecycle.view import recorded
from berth_core.lifecycle.way_out import refusal
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from tests.core.lifecycle.replica_world import NAME, Process, World, run

#: Berth, two claims, two volumes, two locks, two phases, Berth.
WRITES = 10


class Leaver(Process):
    """A run of stateful_app_adoption over this replica."""

    def __init__(self, world):
        super().__init__(world, "leave")

    def look(self):
        return replace(super().look(), leaves=True)

    def owner(self):
        return None


def running():
    """One without a device, which could not be released."""
    world = World()
    run(world, Process(world, "present"))
    world.store[BERTH, NAME]["spec"].pop("devices")
    return world


def shape(world):
    """What plain Kubernetes has, and whose the disks are."""
    return {
        "pod": world.get(POD, NAME)["metadata"]["uid"],
        "claims": {
            one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]["volumeName"]) for one in world.all(PVC)
        },
        "volumes": {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.all(PV)},
        "data": dict(world.data),
    }


def check_released(world, before):
    assert shape(world) == before
    assert world.all(BERTH) == []
    for one in (*world.all(PVC), *world.all(PV)):
        assert BERTH_ANNOTATION not in one["metadata"]["annotations"]
        assert not {key for key in one["metadata"]["labels"] if "berth" in key}
    kept = {one["metadata"]["name"]: one for one in world.all(LOCAL_DISK) if one["metadata"]["name"] in world.data}
    assert {name: one["spec"]["retainedFor"]["volume"] for name, one in kept.items()} == {
        one["spec"]["local"]["path"].split("/")[-2]: one["metadata"]["name"] for one in world.all(PV)
    }
    assert {one["status"]["phase"] for one in kept.values()} == {"Released"}
    assert not any("claimRef" in one["spec"] or "wipe" in one["spec"] for one in kept.values())


@pytest.mark.promise
def test_claims_volumes_and_pod_stay_whichever_write_is_the_last_one():
    for last in range(WRITES + 1):
        world = running()
        before, first = shape(world), len(world.log)
        process = Leaver(world)
        while len(world.log) - first < last:
            process.step()
        run(world, Leaver(world), until=("",))
        assert len(world.log) - first == WRITES, "and nothing is written twice"
        check_released(world, before)


@pytest.mark.promise
def test_begun_it_is_carried_on_the_same_way_by_a_run_that_removes_the_app():
    """The word is in the Berth: whoever takes it up unties, and deletes nothing that the replica uses."""
    world = running()
    before = shape(world)
    Leaver(world).step()
    assert world.get(BERTH, NAME)["status"]["release"] == states.LEAVE
    removing = Process(world, "absent")
    removing._stop = lambda: False
    run(world, removing, until=("",))
    check_released(world, before)


def test_what_is_being_given_up_or_exchanged_or_holds_a_device_is_refused():
    world = World()
    run(world, Process(world, "present"))
    record = world.get(BERTH, NAME)
    assert "holds LocalDevice h1-gpu" in refusal(record)
    step = Leaver(world).step()
    assert isinstance(step, Wait)
    assert (step.warn, recorded(world.get(BERTH, NAME))) == (True, states.RUNNING)

    record["spec"].pop("devices")
    assert refusal(record) == ""
    replacing = {"claim": "data", "from": "d0", "to": "d9"}
    for status, words in (
        ({"phase": states.RELEASING, "release": states.RETAIN}, "is being given up already (Retain)"),
        ({"phase": states.REPLACING, "replacing": replacing}, "LocalDisk d0 is being exchanged for d9"),
        ({"phase": states.RESERVED}, "it is Reserved, and has no claims yet"),
        ({}, "it is Selected, and has no claims yet"),
    ):
        assert words in refusal({**record, "status": status})
    assert refusal({**record, "status": {"phase": states.RELEASING, "release": states.LEAVE}}) == ""
