"""A replica leaves a node that is well: its pod ends first, its data is kept, and it never runs twice. Cut at every
write, and raced by a run that was not asked."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from berth_core.lifecycle import states
from berth_core.lifecycle.lost import Loss
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.step import FORCE, REMOVE, Write
from berth_core.lifecycle.view import recorded
from berth_core.model.one_node import tie
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from tests.core.lifecycle.replica_world import NAME, Process, exchange, locks, run
from tests.core.lifecycle.test_lost import OnTwoNodes, TwoNodes, cut, rebuilt

LEFT = Loss("h1", "", "default", "db", 0, left=True)


class WellNodes(TwoNodes):
    """Pods end in their own time. ``leaving``: h1 is to be left."""

    def __init__(self):
        super().__init__()
        self.leaving, self.bound = False, {}

    def leave(self):
        self.leaving = True

    def apply(self, step):
        assert step.do != FORCE, "by force, on a node that is well"
        if (step.do, step.resource) == (REMOVE, POD) and (POD, NAME) in self.store:
            self.count += 1
            self.store[POD, NAME]["metadata"].update(deletionTimestamp="now", resourceVersion=str(self.count))
            return self.get(POD, NAME)
        return super().apply(step)

    def kubernetes(self):
        pod = self.store.get((POD, NAME))
        if pod is not None and pod["metadata"].get("deletionTimestamp"):
            self.runs.discard(pod["spec"]["nodeName"])
            del self.store[POD, NAME]
        super().kubernetes()
        self._bind()

    def _bind(self):
        """A volume is bound once, to the claim of the name that it has, whoever made that."""
        for volume in self.all(PV):
            claim = self.store.get((PVC, volume["spec"]["claimRef"]["name"]))
            going = [one["metadata"].get("deletionTimestamp") for one in (claim, volume) if one is not None]
            if claim is None or any(going):
                continue
            mine = (
                self.bound.setdefault(volume["metadata"]["uid"], claim["metadata"]["uid"]) == claim["metadata"]["uid"]
            )
            if mine and not claim["spec"].get("volumeName"):
                self.count += 1
                claim["metadata"]["resourceVersion"] = str(self.count)
                claim["spec"]["volumeName"] = volume["metadata"]["name"]

    def check(self):
        super().check()
        if "h1" in self.runs:
            held = {name for name in ("d0", "d1") if self.store[LOCAL_DISK, name]["spec"].get("claimRef")}
            assert held == {"d0", "d1"}, "a lock is given up under a living pod"


class Leaver(OnTwoNodes):
    """A run of stateful_app, asked to leave h1 or not."""

    def look(self):
        return replace(Process.look(self), loss=LEFT if self.asked and self.world.leaving else None)

    def _choose(self):
        self.world.lost = self.world.fenced = self.world.leaving  # h1 is no place, as if it were lost
        try:
            return super()._choose()
        finally:
            self.world.lost = self.world.fenced = False


def running():
    world = WellNodes()
    run(world, Leaver(world))
    assert world.runs == {"h1"}
    return world


def leaves(world):
    world.leave()
    run(world, Leaver(world))
    rebuilt(world)


def test_a_replica_leaves_its_node():
    world = running()
    leaves(world)
    before = len(world.log)
    run(world, Leaver(world))
    assert len(world.log) == before, "nothing is written"


@pytest.mark.promise
@pytest.mark.parametrize("at", range(40))
def test_one_that_dies_anywhere_is_continued(at):
    world = running()
    world.leave()
    cut(world, Leaver(world), at)
    leaves(world)


def test_the_steps_are_those_of_the_table():
    world, seen = running(), []
    world.leave()
    process = Leaver(world)
    while (record := world.get(BERTH, NAME)) is not None and record["spec"]["nodeName"] == "h1":
        step = process.step()
        if isinstance(step, Write):
            seen.append((step.do, step.resource.kind))
        world.kubernetes()
    named = {"cordon": "replace", "unlock": "replace", "delete": "delete", "record": "status"}
    told = {(named[one.verb], one.what.split()[0]) for step in states.LEAVING for one in step.writes}
    assert set(seen) <= told
    assert told - set(seen) <= {("delete", "ResourceClaim")}, "the app hands its device to no container"
    assert seen.index((REMOVE, "PersistentVolumeClaim")) < seen.index((REMOVE, "Pod")) < seen.index((REMOVE, "Berth"))


def test_one_whose_disk_is_being_exchanged_is_left_alone():
    world = running()
    cut(world, Process(world, "replace", exchange("d0", "d9")), 3)
    assert recorded(world.get(BERTH, NAME)) == states.REPLACING
    world.leave()
    step = next_step(Leaver(world).look())
    assert (step.reason, step.warn) == ("Replacing", True)
    assert "node h1, which is left:" in step.message


def begun():
    """Who had it leave has died when the Berth said so; its pod runs. Nobody asks for it any more, and a person has
    taken the cordons off, so that its data may be where it goes."""
    world = running()
    world.leave()
    process = Leaver(world)
    while recorded(world.get(BERTH, NAME)) != states.RELEASING:
        process.step()
    world.leaving = False
    for name in ("d0", "d1"):
        assert world.store[LOCAL_DISK, name]["spec"].pop("unschedulable")
    assert world.runs == {"h1"}
    return world


def home(world):
    """The data is where it was, and the replica with it, in another berth."""
    assert recorded(world.get(BERTH, NAME)) == states.RUNNING
    assert locks(world)[0] == {"data": "d0", "wal": "d1"}
    assert (world.stale_locks(), world.runs) == ([], {"h1"})


@pytest.mark.promise
@pytest.mark.parametrize("at", range(16))
def test_one_that_was_begun_is_brought_to_its_end_by_a_run_that_was_not_asked(at):
    """Its pod ends before its lock goes, and its data stays its own, wherever that run dies, too."""
    world = begun()
    before = world.get(BERTH, NAME)["metadata"]["uid"]
    cut(world, Leaver(world, asked=False), at)
    world.check()
    run(world, Leaver(world, asked=False))
    home(world)
    assert world.get(BERTH, NAME)["metadata"]["uid"] != before
    assert world.data == {"d0": before, "d1": before}


@pytest.mark.parametrize("at", range(16))
def test_one_that_was_begun_may_be_taken_up_again(at):
    world = begun()
    cut(world, Leaver(world, asked=False), at)
    leaves(world)


@pytest.mark.parametrize(("node", "goes"), [("h1", True), ("h2", False), (None, False)])
def test_a_pod_that_is_tied_to_the_node_goes_before_it_is_bound(node, goes):
    """A bare pod is written so, and one of a StatefulSet by the policy berth-node-affinity."""
    world = running()
    world.leave()
    process = Leaver(world)
    while recorded(world.get(BERTH, NAME)) != states.RELEASING:
        process.step()
    pod = world.store[POD, NAME]
    pod["spec"] = {}
    if node:
        tie(pod["spec"], node)
    process.kill()
    steps = [process.step() for _number in range(3)]
    gone = [step for step in steps if isinstance(step, Write) and (step.do, step.resource) == (REMOVE, POD)]
    assert bool(gone) == goes


ACTIONS = ("one", "two", "kill one", "kill two", "kubernetes", "agent", "leave", "end")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), max_size=80), st.booleans())
def test_whatever_happens_it_never_runs_twice_and_loses_nothing(actions, asked):
    """``asked``: whether the second run is asked for it, too."""
    world = running()
    processes = {"one": Leaver(world), "two": Leaver(world, asked)}
    for action in actions:
        verb, _space, what = action.partition(" ")
        if action in processes:
            processes[action].step()
        elif verb == "kill":
            processes[what].kill()
        elif action == "end":  # the pod ends by itself, and is made anew
            if world.store.pop((POD, NAME), None):
                world.runs.clear()
        else:
            getattr(world, action)()
        world.check()
    leaves(world)
