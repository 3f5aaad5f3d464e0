"""The disk of a StatefulSet's claim is exchanged: cut at every write, beside the controller, with edits by hand."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from berth_core.lifecycle import states
from berth_core.lifecycle.forecast import remaining
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.replacing import PARTS, part_of
from berth_core.lifecycle.step import DONE, Wait, Write
from berth_core.lifecycle.view import recorded
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from tests.core.lifecycle.claim_exchange_world import CLAIM, KEY, POD_NAME, Module, bound, finish
from tests.core.lifecycle.replica_world import local_disk

pytestmark = pytest.mark.promise
WAYS = pytest.mark.parametrize(("waits", "policy"), [(True, "Retain"), (False, "Retain"), (False, "Delete")])


def exchanged(world):
    """The claim is on d9; d0 keeps its data in its name; nothing else is left, and d1 was given to nobody."""
    (record,) = world.all(BERTH)
    claim = world.get(PVC, CLAIM)
    assert record["metadata"]["name"] == f"pvc-{claim['metadata']['uid']}"
    assert [each["name"] for each in record["spec"]["disks"]] == ["d9"]
    assert recorded(record) == states.RESERVED
    assert claim["status"]["phase"] == "Bound"
    assert [one["metadata"]["name"] for one in world.all(PV)] == [claim["spec"]["volumeName"]]
    assert world.get(LOCAL_DISK, "d9")["spec"]["claimRef"]["uid"] == record["metadata"]["uid"]
    old = world.get(LOCAL_DISK, "d0")["spec"]
    assert {key: old["retainedFor"][key] for key in KEY} == KEY
    assert (old["unschedulable"], "wipe" in old, "claimRef" in old) == (True, False, False)
    assert old["retainedFor"]["dataUID"] == world.data["d0"]
    assert "d1" not in world.data
    assert world.get(LOCAL_DISK, "d1")["spec"].keys() & {"claimRef", "retainedFor"} == set()
    assert (POD, POD_NAME) in world.store


@WAYS
@pytest.mark.parametrize("at", range(26))
@pytest.mark.parametrize("beside", [True, False])
def test_an_exchange_that_dies_anywhere_is_continued(waits, policy, at, beside):
    """``beside``: the controller works while nobody exchanges the disk; it gives the claim no other one."""
    world, controller = bound(waits, policy)
    first = Module(world)
    for _number in range(at):
        first.step()
        world.kubernetes()
        world.agent()
    for _number in range(30 if beside else 0):
        world.kubernetes()
        world.choose_node()
        controller.step()
    assert finish(world, controller, Module(world), beside) == DONE
    exchanged(world)
    before = dict(world.store)
    assert finish(world, controller, Module(world), beside) == DONE
    assert world.store == before, "once more it changes nothing"


def test_what_is_left_of_it_is_told_from_every_point():
    world, controller = bound(waits=True)
    module, seen = Module(world), []
    while not seen or seen[-1]:
        left = remaining(module.look())
        assert left == [part for part in PARTS if part in left]
        if not seen or left != seen[-1]:
            seen.append(left)
        module.step()
        world.kubernetes()
        controller.step()
        world.agent()
        assert len(world.log) < 200
    assert seen[0] == list(PARTS)
    assert all(set(later) < set(earlier) for earlier, later in pairwise(seen))
    exchanged(world)


def test_every_part_is_done_in_its_order():
    world, _controller = bound(waits=False)
    module, parts = Module(world), []
    for _number in range(80):
        step = module.step()
        if isinstance(step, Write):
            parts.append(part_of(step))
        world.kubernetes()
        world.agent()
    order = [part for part in PARTS if part in parts]
    assert parts == sorted(parts, key=order.index)
    assert set(order) == set(PARTS) - {"run"}


def test_a_claim_that_was_deleted_by_hand_goes_on_where_it_is():
    """Pod and claim were deleted, the new claim waits for its data: what people do first when a disk breaks."""
    world, controller = bound(waits=True)
    world.store[LOCAL_DISK, "d0"]["status"].update(phase="Faulted")
    world.store[LOCAL_DISK, "d0"]["status"]["observed"]["health"] = "Faulted"
    world.ask_to_go(PVC, CLAIM)
    world.store.pop((POD, POD_NAME))
    for _number in range(30):
        world.kubernetes()
        world.choose_node()
        controller.step()
    uid = world.get(PVC, CLAIM)["metadata"]["uid"]
    assert controller.last[uid].reason == "NoDisk"
    assert world.all(BERTH) == []
    assert remaining(Module(world).look()) == ["cordon", "adopt", "assign", "lock", "bind", "run"]
    assert finish(world, controller, Module(world)) == DONE
    exchanged(world)


@pytest.mark.parametrize("waits", [True, False])
def test_a_claim_that_is_made_anew_waits_for_the_berth_before_it(waits):
    """Without an exchange too: until the lock is given up, nothing else says that its data is there."""
    world, controller = bound(waits)
    world.ask_to_go(PVC, CLAIM)
    world.store.pop((POD, POD_NAME))
    world.kubernetes()
    world.kubernetes()
    world.choose_node()
    uid = world.get(PVC, CLAIM)["metadata"]["uid"]
    controller._step(uid)
    assert (controller.last[uid].reason, controller.last[uid].warn) == ("EarlierClaim", False)
    for _number in range(30):
        world.kubernetes()
        controller.step()
    assert world.berth_on("d0") == f"pvc-{uid}"


def test_a_lock_whose_berth_is_gone_is_told_with_the_way_out():
    world, controller = bound(waits=False)
    del world.store[BERTH, world.berth_on("d0")]
    world.ask_to_go(PVC, CLAIM)
    world.store.pop((POD, POD_NAME))
    world.kubernetes()
    world.kubernetes()
    assert controller.step() is None
    step = controller.last[world.get(PVC, CLAIM)["metadata"]["uid"]]
    assert (step.reason, step.warn) == ("EarlierClaim", True)
    assert "local_disk -a 'name=d0 state=released'" in step.message


def replacing():
    world, controller = bound(waits=False)
    module = Module(world)
    for _number in range(6):
        module.step()
        world.kubernetes()
    old = world.berth_on("d0")
    assert recorded(world.get(BERTH, old)) == states.REPLACING
    return world, controller, old


def test_the_controller_leaves_a_replacing_berth_alone_and_tells_the_new_claim_what_it_waits_for():
    world, controller, old = replacing()
    world.kubernetes()
    assert controller.step() is None
    uid = world.get(PVC, CLAIM)["metadata"]["uid"]
    assert (controller.last[uid].reason, controller.last[uid].warn) == ("Replacing", True)
    assert f"kubectl delete berth {old} -n default" in controller.last[uid].message


def test_an_exchange_is_given_up_by_deleting_its_berth_and_the_data_is_kept():
    world, controller = bound(waits=False, policy="Delete")
    module = Module(world)
    while recorded(world.get(BERTH, world.berth_on("d0"))) != states.REPLACING or (PVC, CLAIM) in world.store:
        module.step()
        if (POD, POD_NAME) not in world.store:
            world.store.pop((PVC, CLAIM), None)
    world.ask_to_go(BERTH, world.berth_on("d0"))
    for _number in range(30):
        world.kubernetes()
        controller.step()
    assert world.all(BERTH) == []
    spec = world.get(LOCAL_DISK, "d0")["spec"]
    assert ("retainedFor" in spec, "wipe" in spec) == (True, False)
    assert finish(world, controller, Module(world)) == DONE
    exchanged(world)


def test_another_new_disk_may_be_named_until_the_claim_has_one():
    world, controller, old = replacing()
    holder = {"namespace": "x", "name": "x-0", "uid": "x", "app": "x", "ordinal": 0, "claim": "x", "dataUID": "x"}
    finish_waits = Module(world)
    for _number in range(10):
        finish_waits.step()
        world.kubernetes()
    world.store[LOCAL_DISK, "d9"]["spec"]["claimRef"] = holder
    world.store[LOCAL_DISK, "d9"]["status"] = {"phase": "Locked"}
    assert finish(world, controller, Module(world)).reason == "DiskTaken"
    other = Module(world, "d8")
    other.step()
    assert world.get(BERTH, old)["status"]["replacing"]["to"] == "d8", "who waits is told of the right one"
    assert finish(world, controller, other) == DONE
    assert world.berth_on("d8") == f"pvc-{world.get(PVC, CLAIM)['metadata']['uid']}"


@pytest.mark.parametrize(("namespace", "reason"), [("ns-1", ""), ("ns-0", "NotTheDisk"), ("", "")])
def test_a_new_disk_with_data_of_the_claims_name_is_its_own_where_the_namespace_is_the_same(namespace, reason):
    """Without a uid on the disk the names decide: an older release wrote it."""
    world, _controller = bound(waits=False)
    kept = {**KEY, "dataUID": "earlier", **({"namespaceUID": namespace} if namespace else {})}
    new = local_disk("d9") | {"status": {"phase": "Released"}}
    world.store[LOCAL_DISK, "d9"] = world.get(LOCAL_DISK, "d1") | new
    world.store[LOCAL_DISK, "d9"]["metadata"] = {**world.get(LOCAL_DISK, "d1")["metadata"], "name": "d9"}
    world.store[LOCAL_DISK, "d9"]["spec"]["retainedFor"] = kept
    module = Module(world)
    for _number in range(40):
        step = module.step()
        world.kubernetes()
        if isinstance(step, Wait) and step.reason == "NotTheDisk":
            break
        if world.get(LOCAL_DISK, "d9")["spec"].get("claimRef"):
            break
    held = world.get(LOCAL_DISK, "d9")["spec"].get("claimRef")
    assert (getattr(step, "reason", ""), bool(held)) == (reason, not reason)


def test_a_disk_that_the_claim_cannot_use_is_refused_before_anything_is_touched():
    world, _controller = bound(waits=False)
    module = Module(world)
    module.exchange.declared["spec"]["identity"]["size"] = 1
    step = next_step(module.look())
    assert (step.reason, step.warn) == ("Unfit", True)
    assert "too small" in step.message
    assert remaining(module.look()) == []


def test_a_claim_that_has_another_disk_by_now_needs_no_exchange():
    """The data was given up by name while the exchange was interrupted, so the controller chose."""
    world, controller = bound(waits=False)
    world.ask_to_go(PVC, CLAIM)
    world.store.pop((POD, POD_NAME))
    for _number in range(4):
        controller.step()
        world.kubernetes()
    del world.store[BERTH, world.berth_on("d0")]  # with its finalizer, by hand
    stays = world.store[LOCAL_DISK, "d0"]["spec"]
    stays["unschedulable"] = True
    for mine, key in ((stays, "claimRef"), (stays, "retainedFor"), (world.data, "d0")):
        mine.pop(key, None)
    for _number in range(20):
        world.kubernetes()
        controller.step()
    assert world.berth_on("d1")
    stays["retainedFor"] = {**KEY, "dataUID": "someone"}
    module = Module(world)
    for _number in range(10):
        step = module.step()
        world.agent()
    assert (step.reason, step.warn) == ("OtherDisk", True)


ACTIONS = ("module", "other", "kill", "controller", "controller", "kubernetes", "agent", "choose_node")
HANDS = ("lose pod", "delete claim", "delete berth")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from((*ACTIONS, *ACTIONS, *HANDS)), max_size=90), st.booleans())
def test_two_modules_the_controller_kills_and_hand_edits_lose_nothing(actions, waits):
    """World.check after every write; at the end one module brings the claim to the new disk and to no other."""
    world, controller = bound(waits)
    modules = {"module": Module(world), "other": Module(world)}
    for action in actions:
        if action in modules:
            modules[action].step()
        elif action == "kill":
            modules["module"].kill()
        elif action == "controller":
            controller.step()
        elif action == "lose pod":
            world.store.pop((POD, POD_NAME), None)
        elif action == "delete claim":
            world.ask_to_go(PVC, CLAIM)
        elif action == "delete berth":
            world.ask_to_go(BERTH, world.berth_on("d0"))
        else:
            getattr(world, action)()
        world.check()
    step = finish(world, controller, Module(world))
    assert step == DONE, step if isinstance(step, Wait) else ""
    exchanged(world)
