"""A replica from nothing to Running, back, and through the exchange of a disk: cut at every write, and raced."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from berth_core.lifecycle import states
from berth_core.lifecycle.forecast import remaining
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.lifecycle.replacing import PARTS
from berth_core.lifecycle.view import recorded
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, POD, PV, PVC
from berth_core.model.tenant import Tenant
from tests.core.lifecycle.replica_world import NAME, Process, World, exchange, locks, run, volumes_of


def running():
    world = World()
    run(world, Process(world, "present"))
    assert recorded(world.get(BERTH, NAME)) == states.RUNNING
    return world


def paths(volumes):
    return {one["spec"]["local"]["path"] for one in volumes}


def test_a_volume_that_a_release_before_made_stays_with_its_path():
    world = running()
    root, volumes = "/var/lib/berth/disks", world.all(PV)
    assert paths(volumes) == {f"{root}/.namespaces/d0/default", f"{root}/.namespaces/d1/default"}
    for volume in volumes:
        local = volume["spec"]["local"]
        local["path"] = f"{root}/{local['path'].split('/')[-2]}/data"
        world.store[PV, volume["metadata"]["name"]] = volume
    before = len(world.log)
    run(world, Process(world, "present"))
    assert len(world.log) == before, "nothing is written"
    assert paths(world.all(PV)) == {f"{root}/d0/data", f"{root}/d1/data"}
    run(world, Process(world, "absent"), until=("",))
    assert world.all(PV) == []


@pytest.mark.promise
def test_a_replica_of_a_namespace_made_anew_gets_no_disk_of_the_earlier_one():
    """Its choice is the worst one: the disks of its own names. Nothing of them is locked, and no byte is anybody's."""
    world = running()
    run(world, Process(world, "absent"), until=("",))
    kept = locks(world)[1]
    world.tenant = Tenant("ns-2")
    process = Process(world, "present")
    told = [getattr(process.step(), "why", "") for _number in range(20)]
    assert any("keeps the data of default/db-0 (claim data) of an earlier namespace" in why for why in told)
    assert locks(world) == ({}, kept)


def whole(world, held):
    """Running, with these disks, and nothing else of it."""
    assert recorded(world.get(BERTH, NAME)) == states.RUNNING
    assert "replacing" not in world.get(BERTH, NAME)["status"]
    assert locks(world)[0] == held
    assert {one["metadata"]["name"] for one in world.all(PV)} == volumes_of(world)
    assert len(world.all(PVC)) == 2
    assert world.stale_locks() == []
    assert [ref["name"] for ref in world.get(LOCAL_DEVICE, "h1-gpu")["spec"]["claimRefs"]] == [NAME]


def gone(world, kept):
    """Nothing is left of it but its data; claims that a StatefulSet's controller made anew name no berth."""
    left = [one for one in world.store.values() if BERTH_ANNOTATION in (one["metadata"].get("annotations") or {})]
    assert left == []
    assert {kind for kind, _name in world.store} <= {LOCAL_DISK, LOCAL_DEVICE, PVC}
    assert locks(world) == ({}, kept)
    assert "claimRefs" not in world.get(LOCAL_DEVICE, "h1-gpu")["spec"]


def cut(world, process, steps):
    """So many steps of the process, with Kubernetes and the agents beside it."""
    for _number in range(steps):
        process.step()
        world.kubernetes()
        world.agent()


def ends(world, goal, kept):
    """Another run of that goal brings what is there to its end."""
    run(world, Process(world, goal))
    if goal == "present":
        whole(world, {"data": "d0", "wal": "d1"})
    else:
        gone(world, kept())


def test_forward_and_back():
    world = running()
    whole(world, {"data": "d0", "wal": "d1"})
    assert [one["spec"]["capacity"]["storage"] for one in world.all(PV)] == ["1Gi"] * 2, "as a person writes it"
    run(world, Process(world, "absent"))
    gone(world, {"d0", "d1"})
    run(world, Process(world, "present"))
    whole(world, {"data": "d0", "wal": "d1"})


@pytest.mark.parametrize("at", range(16))
@pytest.mark.parametrize("goal", ["present", "absent"])
def test_a_run_that_dies_anywhere_is_continued_or_given_up(at, goal):
    world = World()
    cut(world, Process(world, "present"), at)
    ends(world, goal, lambda: set(world.data))


@pytest.mark.parametrize("at", range(24))
@pytest.mark.parametrize("goal", ["present", "absent"])
def test_giving_up_that_dies_anywhere_is_finished_first(at, goal):
    world = running()
    cut(world, Process(world, "absent"), at)
    ends(world, goal, lambda: {"d0", "d1"})


@pytest.mark.parametrize("at", range(30))
@pytest.mark.parametrize("then", ["replace", "present", "absent"])
def test_an_exchange_that_dies_anywhere_loses_nothing_whoever_comes_next(at, then):
    world, swap = running(), exchange("d0", "d9")
    cut(world, Process(world, "replace", swap), at)
    if then == "replace":
        run(world, Process(world, "replace", swap))
        whole(world, {"data": "d9", "wal": "d1"})
        assert locks(world)[1] == {"d0"}, "the old disk keeps its data in the replica's name"
        return
    before, new = locks(world), world.get(LOCAL_DISK, "d9")
    locked = {"d9"} if new and new["spec"].get("claimRef") else set()
    rest = run(world, Process(world, then), until=("Pod", "Workload", "NoRoom", "", "Replacing"))
    if then == "absent":
        gone(world, {"d0", "d1"} | locked)
    elif rest.reason == "Replacing":
        assert locks(world) == before, "who is not exchanging the disk leaves the berth alone"
    else:
        whole(world, {"data": locks(world)[0]["data"], "wal": "d1"})


def test_what_is_left_of_an_exchange_is_told_from_every_point_of_it():
    world, seen = running(), []
    process = Process(world, "replace", exchange("d0", "d9"))
    while not seen or seen[-1]:
        left = remaining(replace(process.look(), owner=process.owner()))
        assert left == [part for part in PARTS if part in left]
        if not seen or left != seen[-1]:
            seen.append(left)
        cut(world, process, 1)
        assert len(world.log) < 200
    assert seen[0] == list(PARTS)
    assert all(set(later) < set(earlier) for earlier, later in pairwise(seen))
    whole(world, {"data": "d9", "wal": "d1"})


def test_a_disk_that_is_nobodys_is_cordoned_and_the_other_adopted():
    world = World()
    process = Process(world, "replace", exchange("d0", "d9"))
    assert remaining(process.look()) == ["cordon", "adopt"]
    run(world, process)
    assert world.get(LOCAL_DISK, "d0")["spec"]["unschedulable"]
    assert world.get(LOCAL_DISK, "d9")["status"]["phase"] == "Available"
    assert remaining(process.look()) == []


def test_a_second_exchange_waits_for_the_first():
    world = running()
    cut(world, Process(world, "replace", exchange("d0", "d9")), 3)
    assert recorded(world.get(BERTH, NAME)) == states.REPLACING
    step = run(world, Process(world, "replace", exchange("d1", "d8", "wal")))
    assert (step.reason, step.warn) == ("OtherExchange", True)


def test_a_berth_that_was_set_back_by_hand_keeps_its_data():
    """What an earlier release's disk_replace did, and the schema refuses now."""
    world = running()
    world.store[BERTH, NAME] = {**world.get(BERTH, NAME), "status": {"phase": states.SELECTED}}
    world.store.pop((POD, NAME))
    run(world, Process(world, "absent"))
    gone(world, {"d0", "d1"})


ACTIONS = ("one", "two", "kill one", "kill two", "kubernetes", "agent", "turn", "lose Pod", "lose claim", "lose Berth")


def _act(world, processes, action):
    verb, _space, what = action.partition(" ")
    pod = (POD, NAME) in world.store
    if action in processes:
        processes[action].step()
    elif verb == "kill":
        processes[what].kill()
    elif action == "turn":
        processes["one"] = Process(world, "absent" if processes["one"].goal == "present" else "present")
    elif action == "lose Pod":
        world.store.pop((POD, NAME), None)
    elif verb == "lose":
        # by hand, and where the API server lets it go: a claim that a pod uses it keeps
        world.store.pop((BERTH, NAME) if what == "Berth" else (PVC, "data-db-0"), None) if not pod else None
    else:
        getattr(world, action)()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(ACTIONS), max_size=90),
    st.sampled_from(["present", "absent", "replace"]),
    st.sampled_from(["present", "absent", "replace"]),
    st.booleans(),
)
def test_two_processes_kills_and_hand_edits_lose_nothing(actions, one, two, begun):
    """World.check after every write; at the end one process alone brings the app to rest, and no lock is left over."""
    world, swap = running() if begun else World(), exchange("d0", "d9")
    goals = {"one": one, "two": two}
    processes = {name: Process(world, goal, swap if goal == "replace" else None) for name, goal in goals.items()}
    for action in actions:
        _act(world, processes, action)
        world.check()
    run(world, Process(world, "absent"))
    gone(world, locks(world)[1])
    world.check()
