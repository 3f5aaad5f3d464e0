"""Deaths between any two writes, two controllers at once, many claims for few disks, an API server that goes away.

After each: no disk twice, no lock without a berth, and everything comes to rest when the fault ends.
"""

from __future__ import annotations

import signal
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_controller.pace import MOST
from tests.daemons.controller.world import until
from tests.support.tcp import Proxy
from tests.support.wire import dying

pytestmark = pytest.mark.promise
COUNTED = r"(?!apply)\w+ (Berth|LocalDisk|PersistentVolume|PersistentVolumeClaim)(/\w+)? .*"
FORWARD, BACKWARD = 5, 4


def die(start: Any, at: int) -> None:
    """Run a controller until its death right after that write: the cluster is as it is before the next one, too."""
    process = start("--no-leader-elect", wait=False, **dying("berth_controller", at, COUNTED))
    assert process.ended() == -signal.SIGKILL, process.text()


@pytest.mark.slow
def test_a_controller_that_dies_at_any_write_is_continued_by_the_next(world, start, nodes):
    world.storage_class()
    for at in range(1, FORWARD + 1):
        world.disk(nodes[at % 4], at)
        world.claim(f"c{at}")
        die(start, at)
        world.check()
        process = start("--no-leader-elect")
        world.wait_bound(f"c{at}")
        until(lambda: _phases(world) == {"Bound"}, lambda: str(world.berths()))
        process.stop()
        world.check()
        assert len(world.locks()) == len(world.berths()) == len(world.volumes()) == at


def _phases(world: Any) -> set[str]:
    return {(one.get("status") or {}).get("phase") for one in world.berths().values()}


@pytest.mark.slow
def test_a_release_that_dies_at_any_write_is_continued(world, start, nodes):
    world.storage_class(policy="Delete")
    process = start("--no-leader-elect")
    for at in range(1, BACKWARD + 1):
        world.disk(nodes[at % 4], at, reclaimPolicy="Delete")
        world.claim(f"c{at}")
    world.wait_bound(*(f"c{at}" for at in range(1, BACKWARD + 1)))
    until(lambda: _phases(world) == {"Bound"}, lambda: str(world.berths()))
    process.stop()
    disks = {lock["claim"]: disk for disk, lock in world.locks().items()}
    for at in range(1, BACKWARD + 1):
        world.delete(kinds.PVC, f"c{at}")
        until(lambda at=at: world.api.find(kinds.PVC, f"c{at}", world.name) is None, "the claim does not go")
        die(start, at)
        world.check()
        process = start("--no-leader-elect")
        left = BACKWARD - at
        until(
            lambda left=left: len(world.berths()) == len(world.volumes()) == left,
            lambda: str((world.berths(), world.volumes())),
        )
        process.stop()
        spec = world.disks()[disks[f"c{at}"]]["spec"]
        assert "claimRef" not in spec
        assert spec["wipe"]["requestedBy"] == f"PersistentVolumeClaim {world.name}/c{at}"


@pytest.mark.slow
def test_a_claim_that_is_deleted_while_the_controller_is_dead_leaves_nothing(world, start, nodes):
    world.storage_class()
    for at in range(1, FORWARD + 1):
        disk = world.disk(nodes[0], at)
        world.claim(f"c{at}")
        die(start, at)
        world.delete(kinds.PVC, f"c{at}")
        until(lambda: not world.api.list(kinds.PVC, world.name), "the claim does not go")
        process = start("--no-leader-elect")
        until(lambda: not world.berths() and not world.volumes(), lambda: str((world.berths(), world.volumes())))
        process.stop()
        spec = world.disks()[disk]["spec"]
        assert "claimRef" not in spec
        assert ("retainedFor" in spec) == (at >= 3), "what was Reserved may carry data; what was not is free"
        world.delete(kinds.LOCAL_DISK, disk)


@pytest.mark.slow
def test_a_hundred_claims_at_once_over_thirty_disks(world, start, nodes):
    world.storage_class()
    for index in range(30):
        world.disk(nodes[index % 4], index)
    names = [f"c{number}" for number in range(100)]
    start("--no-leader-elect")
    for name in names:
        world.claim(name)
    until(lambda: len(_bound(world)) == 30, lambda: f"{len(_bound(world))} are bound")
    waiting = set(names) - _bound(world)
    until(
        lambda: waiting <= _told(world, "NoDisk", "30 held"),
        lambda: f"told otherwise: {waiting - _told(world, 'NoDisk', '30 held')}",
        patience=2 * MOST,
    )
    world.check()
    assert len(world.locks()) == len(world.berths()) == 30
    for index in range(30, 100):
        world.disk(nodes[index % 4], index)
    until(lambda: len(_bound(world)) == 100, lambda: f"{len(_bound(world))} are bound")
    world.check()
    assert len(world.locks()) == 100


def _bound(world: Any) -> set[str]:
    found = world.api.list(kinds.PVC, world.name)
    return {one["metadata"]["name"] for one in found if one["status"].get("phase") == "Bound"}


def _told(world: Any, reason: str, words: str) -> set[str]:
    found = world.api.list(kinds.EVENT, world.name)
    return {
        one["regarding"]["name"]
        for one in found
        if one["reason"] == reason and words in str(one.get("note")) and one.get("regarding")
    }


@pytest.mark.slow
def test_two_controllers_that_both_believe_to_lead_give_no_disk_twice(world, start, nodes):
    """And both are killed in the middle of it, again and again."""
    world.storage_class()
    for index in range(24):
        world.disk(nodes[index % 4], index)
    both = [start("--no-leader-elect"), start("--no-leader-elect")]
    for number in range(30):
        world.claim(f"c{number}")
        if number % 10 == 5:
            for process in both:
                process.signal(signal.SIGKILL)
            world.check()
            both = [start("--no-leader-elect", wait=False), start("--no-leader-elect", wait=False)]
    until(lambda: len(_bound(world)) == 24, lambda: f"{len(_bound(world))} are bound")
    world.check()
    assert len(world.locks()) == 24
    for number in range(30):
        world.delete(kinds.PVC, f"c{number}")
    until(lambda: not world.berths() and not world.volumes(), lambda: str((world.berths(), world.volumes())))
    assert world.locks() == {}


@pytest.mark.slow
def test_an_api_server_that_is_away_is_waited_for(world, start, nodes, plane):
    world.storage_class()
    for index in range(4):
        world.disk(nodes[index], index)
    content = yaml.safe_load(plane.kubeconfig.read_text())
    server = urlsplit(content["clusters"][0]["cluster"]["server"])
    with Proxy(server.hostname or "", server.port or 443) as network:
        process = start("--no-leader-elect", server=f"https://127.0.0.1:{network.port}")
        world.claim("before")
        world.wait_bound("before")
        network.refuse = True
        network.cut()
        world.delete(kinds.PVC, "before")
        world.claim("meanwhile")
        time.sleep(3)
        assert process.process.poll() is None, process.text()
        assert not world.bound("meanwhile")
        network.refuse = False
        world.wait_bound("meanwhile")
        until(lambda: len(world.berths()) == 1, lambda: str(world.berths()))
    world.check()


@pytest.mark.slow
def test_what_happened_while_nobody_listened_is_found_after_a_410(world, start, nodes, plane):
    """The controller is stopped, the API server forgets what it missed: a new list tells the deletions too."""
    if not hasattr(plane, "restart_apiserver"):
        pytest.skip("the tests never restart an existing cluster's API server")
    world.storage_class()
    for index in range(3):
        world.disk(nodes[index], index)
    process = start("--no-leader-elect")
    world.claim("old")
    world.wait_bound("old")
    process.signal(signal.SIGSTOP)
    world.delete(kinds.PVC, "old")
    world.claim("new")
    plane.restart_apiserver()
    process.signal(signal.SIGCONT)
    world.wait_bound("new")
    until(lambda: len(world.berths()) == 1, lambda: str(world.berths()))
    world.check()


@pytest.mark.slow
def test_one_leads_the_other_takes_over_and_a_leader_that_was_paused_writes_nothing_more(world, start, nodes):
    world.storage_class()
    for index in range(4):
        world.disk(nodes[index], index)
    first = start("--identity", "first")
    second = start("--identity", "second", wait=False)
    world.claim("one")
    world.wait_bound("one")
    assert " works as " not in second.text()
    first.signal(signal.SIGSTOP)
    world.claim("two")
    second.works()
    world.wait_bound("two")
    first.signal(signal.SIGCONT)
    assert first.ended() == 1, first.text()
    assert "lost" in first.text()
    third = start("--identity", "third", wait=False)
    second.stop()  # gives the lease back
    third.works()
    world.claim("three")
    world.wait_bound("three")
    assert f"claim {world.name}/two: create" not in first.text()
    world.check()
