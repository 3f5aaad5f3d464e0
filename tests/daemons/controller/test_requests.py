"""What a claim costs the API server: the controller's own requests, counted as they leave it.

What every process on the way costs besides (the volume controller, the scheduler) is Kubernetes' own.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_controller.pace import FIRST, MOST
from berth_controller.wakes import GAP, WORDS
from tests.daemons.controller.test_claims import _metrics
from tests.daemons.controller.world import until

#: In this order, each of them needed (berth_core.lifecycle.claim says for what). All that is read is the uid of the
#: namespace, which goes into the lock. The last one says that it is Bound, and names the pod where there is one.
RECORD = "replace Berth/status"
ONE_CLAIM = ["create Berth", "get Namespace", "replace LocalDisk", RECORD, "create PersistentVolume", RECORD]


class Watched:
    """A controller whose requests are noted down. `begin` when the disks are there: then its first lists tell them."""

    def __init__(self, world: Any, start: Any, notes: Path) -> None:
        self.world, self.notes, self._start = world, notes, start
        self.notes.touch()

    def begin(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self._start("--no-leader-elect", "--port", str(self.port), module="tests.support.wire")

    def asked(self) -> list[str]:
        """``verb kind`` of what was about the things of this world, in order."""
        lines = self.notes.read_text().splitlines()
        return [" ".join(line.split(" ")[:2]) for line in lines if self.world.name in line]

    def settled(self, claims: int) -> None:
        """Until the controller has seen that so many claims are Bound: nothing is left for it to do."""
        count = "berth_controller_claim_bound_seconds_count"
        until(lambda: _metrics(self.port)[count] >= claims, lambda: "\n".join(self.asked()))


@pytest.fixture
def watched(world: Any, start: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watched:
    monkeypatch.setenv("DAEMON", "berth_controller")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    return Watched(world, start, tmp_path / "notes")


def test_a_static_claim_costs_five_writes_and_one_read(world: Any, watched: Watched, nodes: list[str]) -> None:
    world.storage_class()
    world.disk(nodes[0], 0)
    watched.begin()
    world.claim("data")
    world.wait_bound("data")
    watched.settled(1)
    assert watched.asked() == ONE_CLAIM


def test_a_dynamic_claim_costs_no_more_besides_one_when_its_pod_runs_and_what_the_scheduler_is_told_of_its_node(
    plane: Any, world: Any, watched: Watched, nodes: list[str]
) -> None:
    """Its Berth says whose it is, as kubectl shows it: not by the uid of the claim."""
    world.storage_class(waits=True)
    world.disk(nodes[0], 0)
    watched.begin()
    until(lambda: "create CSIStorageCapacity" in watched.asked(), lambda: str(watched.asked()))
    world.stateful_set("pg", "data")

    def recorded() -> dict[str, Any]:
        return next((one.get("status") or {} for one in world.berths().values()), {})

    until(lambda: recorded().get("phase") == "Running", lambda: str(world.berths()))
    told = recorded()
    last = told.pop("history")[-1]
    assert told == {"phase": "Running", "podName": "pg-0", "workload": "StatefulSet pg"}
    assert (last["to"], last["by"]) == ("Running", {"component": "berth-controller"})
    asked = [one for one in watched.asked() if "CSIStorageCapacity" not in one]
    assert asked in (ONE_CLAIM, [*ONE_CLAIM, RECORD]), "a pod that is Ready at once costs no write of its own"
    head, line = plane.kubectl("get", "berths", "-n", world.name).splitlines()
    at = head.index("POD")
    assert head[at:].split() == ["POD", "WORKLOAD", "AGE"]
    assert line[at:].split()[:3] == ["pg-0", "StatefulSet", "pg"]
    until(lambda: _shown(world) == ["0"], lambda: f"the capacity that is shown is not what is left: {_shown(world)}")


def _shown(world: Any) -> list[str]:
    """What a scheduler is told of the nodes of this world's class."""
    listed = world.api.list(kinds.CSI_STORAGE_CAPACITY, "berth-system")
    return [str(one["maximumVolumeSize"]) for one in listed if one["storageClassName"] == world.name]


@pytest.mark.slow
def test_forty_claims_at_once_cost_as_much_each(world: Any, watched: Watched, nodes: list[str]) -> None:
    """Side by side they choose different disks at once: nobody's choice is refused, nothing is done twice."""
    world.storage_class()
    for index in range(40):
        world.disk(nodes[index % 4], index)
    watched.begin()
    names = [f"c{number}" for number in range(40)]
    for name in names:
        world.claim(name)
    world.wait_bound(*names)
    watched.settled(40)
    assert Counter(watched.asked()) == Counter(40 * ONE_CLAIM)


WAITING, DISKS = 30, 20


def test_claims_that_wait_follow_the_facts_with_few_events(world: Any, watched: Watched, nodes: list[str]) -> None:
    """Each of twenty disks changes what thirty claims are to be told: 600 words, of which few are said."""
    world.storage_class()
    disks = [world.disk(nodes[index % 4], index, phase="Faulted") for index in range(DISKS)]
    watched.begin()
    began = time.monotonic()
    names = {f"c{number}" for number in range(WAITING)}
    for name in names:
        world.claim(name)
    until(lambda: _told(world, f"{DISKS} Faulted") == names, lambda: str(_told(world, f"{DISKS} Faulted")))
    for disk in disks:
        world.observe(disk, "Missing")
        time.sleep(0.1)
    changed = time.monotonic()
    until(lambda: _told(world, f"{DISKS} Missing") == names, lambda: str(_told(world, f"{DISKS} Missing")))
    assert time.monotonic() - changed < MOST, "the last word comes seconds after the last change"
    asked = watched.asked()
    assert set(asked) == {"create Event"}
    assert len(asked) <= WAITING * _words(time.monotonic() - began)
    for disk in disks:
        world.api.patch(kinds.LOCAL_DISK, disk, None, {"status": {"observed": {"devicePath": "/dev/sdy"}}}, "status")
    time.sleep(WORDS + GAP)
    assert watched.asked() == asked, "another device path is no news for a claim"


def _told(world: Any, words: str) -> set[str]:
    events = [one for one in world.api.list(kinds.EVENT, world.name) if one["reason"] == "NoDisk"]
    return {one["regarding"]["name"] for one in events if str(one.get("note")).endswith(f": {words}")}


def _words(seconds: float) -> int:
    """How often one claim may be told something else in that time."""
    said, gap = 1, FIRST
    while seconds >= gap:
        said, seconds, gap = said + 1, seconds - gap, min(2 * gap, MOST)
    return said
