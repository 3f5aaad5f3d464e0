"""The module and the controller race for the same disks, are killed at any request, and people edit what they write."""

from __future__ import annotations

from contextlib import contextmanager

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from berth_core.app.orphans import LOCK_WITHOUT_BERTH
from berth_core.lifecycle import states
from berth_core.lifecycle.view import recorded
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from tests.core.lifecycle.race_checks import seen_of_app
from tests.core.lifecycle.race_controller import Controller
from tests.core.lifecycle.race_module import Module
from tests.core.lifecycle.race_world import CLAIMS, NAME, WEB, RaceWorld

pytestmark = pytest.mark.promise
DISKS = ("d0", "d1", "d2")


def act(world, module, controller, action):
    """One step of one of them, or one edit by hand."""
    verb, *rest = action
    if verb == "module":
        module.step()
    elif verb == "controller":
        controller.step()
    elif verb == "kill":
        (module if rest[0] == "module" else controller).kill()
    elif verb == "turn":
        module.turn()
    elif verb == "hear":
        controller.hear()
    elif verb == "web":
        world.web ^= {rest[0]}
    elif verb == "delete":
        kind, owner = rest
        name = {BERTH: world.berth_of(owner), POD: owner, PVC: CLAIMS[owner][0]}[kind]
        world.ask_to_go(kind, name)
    else:
        getattr(world, verb)(*rest)


@contextmanager
def racing(waits, state):
    world = RaceWorld(waits)
    module, controller = Module(world, state), Controller(world)
    try:
        yield world, module, controller
    finally:
        module.kill()
        controller.kill()


def settle(world, module, controller, rounds):
    """Everybody in turn, undisturbed."""
    for _number in range(rounds):
        for _request in range(15):
            module.step()
        controller.hear()
        for _request in range(15):
            controller.step()
        for verb in ("kubernetes", "choose_node", "agent", "watch"):
            getattr(world, verb)()


BESIDE = ("kubernetes", "agent", "choose_node", "watch", "hear")
OWNERS = st.sampled_from([NAME, *WEB])
#: Of one that goes on by itself a few steps at a time.
GOING = st.tuples(
    st.sampled_from([("module",)] * 4 + [("controller",)] * 4 + [(verb,) for verb in BESIDE]), st.integers(1, 8)
).map(lambda each: [each[0]] * each[1])
EDITS = st.one_of(
    st.tuples(st.sampled_from(["clear_lock", "release", "wipe"]), st.sampled_from(DISKS)),
    st.tuples(st.just("drop_berth"), OWNERS),
    st.tuples(st.just("set_phase"), OWNERS, st.integers(0, 6)),
    st.tuples(st.just("delete"), st.sampled_from([BERTH, POD, PVC]), OWNERS),
    st.tuples(st.just("web"), st.sampled_from(WEB)),
    st.tuples(st.just("kill"), st.sampled_from(["module", "controller"])),
    st.just(("turn",)),
).map(lambda each: [each])


@settings(max_examples=60, deadline=None)
@given(st.lists(GOING | EDITS, max_size=50), st.sampled_from(["present", "absent"]), st.booleans(), st.booleans())
def test_two_drivers_kills_and_hand_edits_keep_each_disk_its_one_owners(actions, state, waits, begun):
    """`race_checks.check` after every write; in the end nothing of the app, and no lock that could be given up."""
    with racing(waits, state) as (world, module, controller):
        settle(world, module, controller, 5 if begun else 0)
        for action in (one for several in actions for one in several):
            act(world, module, controller, action)
        world.web.clear()
        module.kill()
        module.state = "absent"
        settle(world, module, controller, 8)
        assert world.berth_of(NAME) is None
        assert [one for one in world.orphans() if one.repair] == []
        assert world.stale_locks() == [] or world.all(PV), "what a volume may be used through stays locked"


def test_undisturbed_they_share_the_disks_and_give_all_back():
    """So the race is about something: two drivers, four claims, three disks, and all of them are used."""
    with racing(True, "present") as (world, module, controller):
        settle(world, module, controller, 5)
        assert recorded(world.get(BERTH, NAME)) == states.RUNNING
        assert set(world.pods[NAME]) | set(world.pods["web-0"]) == set(DISKS)
        assert [step.reason for step in controller.rests.values()] == ["", "NoDisk"]
        module.turn()
        world.web.clear()
        settle(world, module, controller, 5)
        assert (world.all(BERTH), world.stale_locks(), world.pods) == ([], [], {})
        assert {one["status"]["phase"] for one in world.all(LOCAL_DISK)} == {"Released"}


@pytest.mark.parametrize("owner", [NAME, "web-0"])
def test_a_berth_that_is_deleted_by_force_leaves_locks_that_are_reported(owner):
    """Under its pod they stay, as its volume does; the app's own are reported by stateful_app_info, too."""
    with racing(False, "present") as (world, module, controller):
        settle(world, module, controller, 5)
        disks = set(world.pods[owner])
        world.drop_berth(owner)
        found = [one for one in world.orphans() if one.reason == LOCK_WITHOUT_BERTH]
        assert ({one.about["metadata"]["name"] for one in found}, {one.repair for one in found}) == (disks, {""})
        stale = {one["metadata"]["name"] for one in seen_of_app(world).stale_disks()}
        assert stale == (disks if owner == NAME else set())
