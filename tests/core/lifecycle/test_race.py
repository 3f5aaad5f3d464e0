"""stateful_app, disk_replace and the controller race for the same disks, are killed at any request, and people edit
what they write."""

from __future__ import annotations

from contextlib import contextmanager

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from berth_core.app import claims
from berth_core.app.orphans import LOCK_WITHOUT_BERTH
from berth_core.lifecycle import states
from berth_core.lifecycle.step import CREATE, Write
from berth_core.lifecycle.view import recorded
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from tests.core.lifecycle.race_checks import seen_of_app
from tests.core.lifecycle.race_controller import Controller
from tests.core.lifecycle.race_exchange import SPARE, Exchange
from tests.core.lifecycle.race_module import Module
from tests.core.lifecycle.race_world import CLAIMS, NAME, WEB, RaceWorld

pytestmark = pytest.mark.promise
DISKS = ("d0", "d1", "d2")
ANY_DISK = st.sampled_from([*DISKS, SPARE])


@contextmanager
def racing(waits, other="present"):
    """Claims that wait for disks; the controller, a run of the module that makes the app, another one, and an exchange
    of disks."""
    world = RaceWorld(waits)
    world.kubernetes()
    world.choose_node()
    processes = {
        "module": Module(world, "present"),
        "other": Module(world, other),
        "controller": Controller(world),
        "exchange": Exchange(world, "d0"),
    }
    try:
        yield world, processes
    finally:
        for process in processes.values():
            process.kill()


def act(world, processes, action):
    """One step of one of them, or one edit by hand."""
    verb, *rest = action
    if verb in processes:
        processes[verb].step()
    elif verb == "kill":
        processes[rest[0]].kill()
    elif verb == "turn":
        processes["module"].turn()
    elif verb == "aim":
        processes["exchange"].aim(*rest)
    elif verb == "hear":
        processes["controller"].hear()
    elif verb == "web":
        world.web ^= {rest[0]}
    elif verb == "delete":
        kind, owner = rest
        name = {BERTH: world.berth_of(owner), POD: owner, PVC: CLAIMS[owner][0]}[kind]
        world.ask_to_go(kind, name)
    else:
        getattr(world, verb)(*rest)


def settle(world, processes, rounds, names=("module", "controller")):
    """Those processes in turn, undisturbed."""
    for _number in range(rounds):
        for name in names:
            for _request in range(20):
                processes[name].step()
        look_beside(world, processes)


def look_beside(world, processes):
    for verb in ("kubernetes", "choose_node", "agent", "watch"):
        getattr(world, verb)()
    processes["controller"].hear()


def begin_exchange(world, processes, old, requests):
    """So many requests of an exchange for the spare disk, with the controller and the rest of the cluster beside it."""
    processes["exchange"].aim(old, SPARE)
    for number in range(requests):
        processes["exchange"].step()
        processes["controller"].step()
        if number % 10 == 9:
            look_beside(world, processes)


BESIDE = ("kubernetes", "agent", "choose_node", "watch", "hear")
OWNERS = st.sampled_from([NAME, *WEB])
#: Of one that goes on by itself: how many of its requests at a time. An exchange looks at everything first.
REQUESTS = {"module": 8, "controller": 8, "other": 8, "exchange": 25}
WHO = ["module", "controller", "exchange"] * 4 + ["other"] * 2
GOING = st.one_of(
    st.sampled_from(WHO).flatmap(lambda who: st.integers(1, REQUESTS[who]).map(lambda number: [(who,)] * number)),
    st.sampled_from(BESIDE).map(lambda verb: [(verb,)]),
)
EDITS = st.one_of(
    st.tuples(st.sampled_from(["clear_lock", "release", "wipe", "uncordon"]), ANY_DISK),
    st.tuples(st.just("drop_berth"), OWNERS),
    st.tuples(st.just("set_phase"), OWNERS, st.integers(0, 6)),
    st.tuples(st.just("delete"), st.sampled_from([BERTH, POD, PVC]), OWNERS),
    st.tuples(st.just("web"), st.sampled_from(WEB)),
    st.tuples(st.just("kill"), st.sampled_from(["module", "other", "controller", "exchange"])),
    st.tuples(st.just("aim"), ANY_DISK, st.sampled_from([*DISKS, *[SPARE] * 3])),
    st.just(("turn",)),
    st.just(("give_up_exchanges",)),
).map(lambda each: [each])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(GOING, GOING, GOING, EDITS), min_size=10, max_size=40),
    st.sampled_from(["present", "absent"]),
    st.booleans(),
    st.sampled_from([0, 5, 5]),
    st.tuples(st.sampled_from(DISKS), st.integers(0, 90)),
)
def test_drivers_kills_and_hand_edits_keep_each_disk_its_one_owners(actions, other, waits, begun, exchange):
    """`race_checks.check` after every write; in the end nothing of the app, no exchange that cannot be given up, and no
    lock that could be."""
    with racing(waits, other) as (world, processes):
        settle(world, processes, begun)
        begin_exchange(world, processes, *exchange)
        for action in (one for several in actions for one in several):
            act(world, processes, action)
        world.web.clear()
        for process in processes.values():
            process.kill()
        world.give_up_exchanges()
        processes["module"].state = "absent"
        settle(world, processes, 8)
        assert world.berth_of(NAME) is None
        assert [one for one in world.all(BERTH) if recorded(one) == states.REPLACING] == []
        assert [one for one in world.orphans() if one.repair] == []
        assert world.stale_locks() == [] or world.all(PV), "what a volume may be used through stays locked"


def test_undisturbed_they_share_the_disks_and_give_all_back():
    """So the race is about something: two drivers, four claims, three disks, and all of them are used."""
    with racing(waits=True) as (world, processes):
        settle(world, processes, 5)
        assert recorded(world.get(BERTH, NAME)) == states.RUNNING
        assert set(world.pods[NAME]) | set(world.pods["web-0"]) == set(DISKS)
        assert [step.reason for step in processes["controller"].rests.values()] == ["", "NoDisk"]
        processes["module"].turn()
        world.web.clear()
        settle(world, processes, 5)
        assert (world.all(BERTH), world.stale_locks(), world.pods) == ([], [], {})
        assert {one["status"]["phase"] for one in world.all(LOCAL_DISK)} == {"Released"}


@pytest.mark.parametrize("owner", [NAME, "web-0"])
def test_locks_of_a_berth_that_is_deleted_by_force_are_reported_though_its_name_comes_again(owner):
    """Under its pod they stay, as its volume does; the app's own are reported by stateful_app_info, too."""
    with racing(waits=False) as (world, processes):
        settle(world, processes, 5)
        record, disks = world.get(BERTH, world.berth_of(owner)), set(world.pods[owner])
        world.drop_berth(owner)
        for again in (False, True):
            if again:
                meta = {key: record["metadata"].get(key, {}) for key in ("name", "namespace", "labels", "annotations")}
                world.apply(Write(CREATE, BERTH, {"metadata": meta, "spec": record["spec"]}, "its name comes again"))
            found = [one for one in world.orphans() if one.reason == LOCK_WITHOUT_BERTH]
            assert ({one.about["metadata"]["name"] for one in found}, {one.repair for one in found}) == (disks, {""})
            stale = {one["metadata"]["name"] for one in seen_of_app(world).stale_disks()}
            assert stale == (disks if owner == NAME else set())


@pytest.mark.parametrize(("owner", "old"), [(NAME, "d0"), ("web-0", "d2")])
def test_undisturbed_an_exchange_puts_the_spare_disk_in_place_of_the_old_one(owner, old):
    """So the race is about something: disk_replace gets to its end beside the module and the controller."""
    with racing(waits=False) as (world, processes):
        settle(world, processes, 5)
        before = set(world.pods[owner])
        assert old in before
        processes["exchange"].aim(old, SPARE)
        settle(world, processes, 8, ("exchange", "module", "controller"))
        assert set(world.pods[owner]) == before - {old} | {SPARE}
        assert world.get(LOCAL_DISK, old)["spec"]["retainedFor"]["dataUID"] == world.data[old]
        assert processes["exchange"].result["changed"] is False


def test_of_two_that_chose_one_disk_one_gets_it():
    """The app's Berth names d0, which is locked for the claim before the app comes to lock it: it gives itself up."""
    with racing(waits=False) as (world, processes):
        while (BERTH, NAME) not in world.store:
            processes["module"].step()
        while not world.get(LOCAL_DISK, "d0")["spec"].get("claimRef"):
            processes["controller"].step()
        settle(world, processes, 3)
        assert world.get(LOCAL_DISK, "d0")["spec"]["claimRef"]["app"] == claims.app_name(CLAIMS["web-0"][0])
        assert NAME not in world.pods or "d0" not in world.pods[NAME]
