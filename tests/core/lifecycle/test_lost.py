"""A replica whose node is lost: waits, or gets another berth, and never runs twice. Cut at every write, and raced."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from berth_core.errors import ConflictError, NotFoundError
from berth_core.lifecycle import states
from berth_core.lifecycle.lost import Loss
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.step import FORCE, REMOVE, Wait, Write
from berth_core.lifecycle.view import recorded
from berth_core.model.one_node import tie
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, POD, PVC
from tests.core.lifecycle.replica_world import NAME, Process, World, exchange, local_device, local_disk, locks, run

LOSS = Loss("h1", "its power is off", "default", "db", 0)
LABELS = {"berth.dev/app": "db", "app.kubernetes.io/managed-by": "berth"}


class TwoNodes(World):
    """The replica begins on h1. ``runs``: nodes on which its containers really run, whatever the API server says."""

    def __init__(self):
        super().__init__(disks=("d0", "d1"))
        for name in ("e0", "e1"):
            self._put(LOCAL_DISK, local_disk(name, "h2"))
        self._put(LOCAL_DEVICE, {**local_device("h2-gpu"), "spec": {**local_device()["spec"], "nodeName": "h2"}})
        self.lost, self.fenced, self.runs = False, False, set()

    def lose(self):
        """Its kubelet is not heard any more. Its containers go on."""
        self.lost = True

    def fence(self):
        """The power goes off."""
        if self.lost:
            self.fenced = True
            self.runs.discard("h1")

    def apply(self, step):
        if step.do != FORCE:
            return super().apply(step)
        assert self.fenced, "a pod's object was taken away by force while it may run"
        live = self.store.get((POD, NAME))
        if live is None:
            raise NotFoundError("gone", 404, "NotFound")
        if live["metadata"]["uid"] != step.body["metadata"]["uid"]:
            raise ConflictError("another uid", 409, "Conflict")
        return self._remove((POD, NAME))

    def _start(self):
        super()._start()
        for claim in self.all(PVC):
            if "annotations" not in claim["metadata"]:  # by the StatefulSet's controller
                self.store[PVC, claim["metadata"]["name"]]["metadata"]["labels"] = dict(LABELS)
        pod = self.store.get((POD, NAME))
        if pod is None:
            return
        node = self.get(BERTH, NAME)["spec"]["nodeName"]
        if self.lost and node == "h1":
            del self.store[POD, NAME]  # it waits for its node
            return
        pod["spec"]["nodeName"] = node
        self.runs.add(node)

    def check(self):
        super().check()
        assert len(self.runs) <= 1, "it runs twice"


class OnTwoNodes(Process):
    """A run of stateful_app; ``asked``: to give the replica another berth, which it does where that is proven."""

    def __init__(self, world, asked=True):
        super().__init__(world, "present")
        self.asked = asked

    def look(self):
        loss = LOSS if self.asked and self.world.fenced else None
        return replace(super().look(), loss=loss)

    def step(self):
        """A run that was not asked finds no place but the lost node for a berth that goes, and fails beforehand."""
        record = self.world.get(BERTH, NAME)
        if self.world.lost and not self.asked and record is not None and recorded(record) == states.RELEASING:
            return Wait("NoRoom")
        return super().step()

    def _choose(self):
        node = "h2" if self.world.lost else "h1"
        disks = [one for one in self.world.all(LOCAL_DISK) if one["spec"]["nodeName"] == node]
        kept = {each["spec"]["retainedFor"]["claim"]: each["metadata"]["name"] for each in disks if _kept(each)}
        free = [each["metadata"]["name"] for each in disks if not _kept(each) and not each["spec"].get("claimRef")]
        elsewhere = [one for one in self.world.all(LOCAL_DISK) if _kept(one) and one not in disks]
        if elsewhere and not (self.asked and self.world.fenced):
            return None  # its data is there
        if len(kept) + len(free) < 2:
            return None
        names = {claim: kept.get(claim) or free.pop(0) for claim in ("data", "wal")}
        devices = (("gpu", f"{node}-gpu", 1000),)
        return SimpleNamespace(ordinal=0, node=node, disks=names, devices=devices, volumes={})


def _kept(disk):
    return bool(disk["spec"].get("retainedFor")) and not disk["spec"].get("claimRef")


def running():
    world = TwoNodes()
    run(world, OnTwoNodes(world))
    assert world.runs == {"h1"}
    return world


def rebuilt(world):
    """On the other node; what is on the lost one is kept, and given to nobody by itself."""
    assert recorded(world.get(BERTH, NAME)) == states.RUNNING
    assert locks(world) == ({"data": "e0", "wal": "e1"}, {"d0", "d1"})
    for name in ("d0", "d1"):
        spec = world.get(LOCAL_DISK, name)["spec"]
        assert spec["unschedulable"]
        assert (spec["retainedFor"]["app"], spec["retainedFor"]["ordinal"]) == ("db", 0)
    assert world.stale_locks() == []
    assert world.runs == {"h2"}


def cut(world, process, steps):
    for _number in range(steps):
        process.step()
        world.kubernetes()
        world.agent()


def test_a_replica_of_a_lost_node_gets_another_berth():
    world = running()
    world.lose()
    world.fence()
    run(world, OnTwoNodes(world))
    rebuilt(world)
    before = len(world.log)
    run(world, OnTwoNodes(world))
    assert len(world.log) == before, "nothing is written"


def test_nothing_is_done_before_it_is_proven_or_without_being_asked():
    world = running()
    before = locks(world), len(world.log)
    world.lose()
    run(world, OnTwoNodes(world))
    world.fence()
    run(world, OnTwoNodes(world, asked=False))
    assert (locks(world), len(world.log)) == before


@pytest.mark.promise
@pytest.mark.parametrize("at", range(40))
def test_one_that_dies_anywhere_is_continued(at):
    world = running()
    world.lose()
    world.fence()
    cut(world, OnTwoNodes(world), at)
    run(world, OnTwoNodes(world, asked=False), until=("Pod", "Workload", "NoRoom", "", "PersistentVolumeClaimGoing"))
    run(world, OnTwoNodes(world))
    rebuilt(world)


def test_the_steps_are_those_of_the_table():
    world, seen = running(), []
    world.lose()
    world.fence()
    process = OnTwoNodes(world)
    while (record := world.get(BERTH, NAME)) is not None and record["spec"]["nodeName"] == "h1":
        step = process.step()
        if isinstance(step, Write):
            seen.append((step.do, step.resource.kind))
        world.kubernetes()
    named = {"cordon": "replace", "unlock": "replace", "delete": "delete", FORCE: FORCE, "record": "status"}
    told = {(named[one.verb], one.what.split()[0]) for step in states.LOSS for one in step.writes}
    assert set(seen) <= told
    assert told - set(seen) <= {("delete", "ResourceClaim")}, "the app hands its device to no container"
    assert seen.index((REMOVE, "PersistentVolumeClaim")) < seen.index((FORCE, "Pod")) < seen.index((REMOVE, "Berth"))


@pytest.mark.parametrize(("node", "goes"), [("h1", True), ("h2", False), (None, False)])
def test_a_pod_that_is_tied_to_the_lost_node_goes_before_it_is_bound(node, goes):
    """One that was made anew while the Berth still named the lost node: it would wait for that node for ever."""
    world = running()
    world.lose()
    world.fence()
    process = OnTwoNodes(world)
    while recorded(world.get(BERTH, NAME)) != states.RELEASING:
        process.step()
    pod = world.store.setdefault((POD, NAME), {"metadata": {"name": NAME, "namespace": "default", "uid": "p9"}})
    pod["spec"] = {}
    if node:
        tie(pod["spec"], node)
    process.kill()
    steps = [process.step() for _number in range(4)]
    gone = [step for step in steps if isinstance(step, Write) and (step.do, step.resource) == (FORCE, POD)]
    assert bool(gone) == goes


def test_one_whose_disk_is_being_exchanged_is_left_alone():
    world = running()
    cut(world, Process(world, "replace", exchange("d0", "d9")), 3)
    assert recorded(world.get(BERTH, NAME)) == states.REPLACING
    world.lose()
    world.fence()
    step = next_step(OnTwoNodes(world).look())
    assert (step.reason, step.warn) == ("Replacing", True)


def test_data_that_was_left_on_a_node_before_it_was_lost_is_cordoned_first():
    world = running()
    world.runs.clear()
    run(world, Process(world, "absent"), until=("",))
    assert locks(world) == ({}, {"d0", "d1"})
    world.lose()
    world.fence()
    run(world, OnTwoNodes(world))
    rebuilt(world)


def test_after_the_node_is_back_its_data_is_not_the_replicas():
    world = running()
    world.lose()
    world.fence()
    run(world, OnTwoNodes(world))
    world.lost = world.fenced = False
    assert isinstance(run(world, OnTwoNodes(world)), Wait)
    assert locks(world)[0] == {"data": "e0", "wal": "e1"}


ACTIONS = ("one", "two", "kill one", "kill two", "kubernetes", "agent", "lose", "fence", "end")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), max_size=90), st.booleans())
def test_whatever_happens_it_never_runs_twice_and_loses_nothing(actions, asked):
    world = running()
    processes = {"one": OnTwoNodes(world), "two": OnTwoNodes(world, asked)}
    for action in actions:
        verb, _space, what = action.partition(" ")
        if action in processes:
            processes[action].step()
        elif verb == "kill":
            processes[what].kill()
        elif action == "end":  # the pod ends by itself, and is made anew
            if not world.lost and world.store.pop((POD, NAME), None):
                world.runs.clear()
        else:
            getattr(world, action)()
        world.check()
    world.lose()
    world.fence()
    run(world, OnTwoNodes(world))
    rebuilt(world)
