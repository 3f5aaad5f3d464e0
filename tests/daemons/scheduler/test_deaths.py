"""Scheduler or extender die right after each of their writes, by a real SIGKILL: the next finishes what is begun.

Each death has a scheduler, a node and a pod of its own, and all are at once; the last of each kind is to die after more
writes than there are, so no write is left out. No controller runs: what the scheduler promises, it keeps alone.
"""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.scheduler.test_devices import Devices
from tests.daemons.scheduler.test_extender import asking, binding, ground, settled
from tests.daemons.scheduler.test_preemption import PRIORITY_CLASS
from tests.daemons.scheduler.world import until
from tests.support.tcp import free_port
from tests.support.wire import dying

pytestmark = [pytest.mark.slow, pytest.mark.promise]
#: Of a pod with a claim of each sort: node of the claim, Berth, lock, Reserved, volume, the ResourceClaim's finalizer
#: and its allocation, bind.
DISK_AND_DEVICE = (
    r"\w+ (Berth|LocalDisk|PersistentVolume|PersistentVolumeClaim|ResourceClaim)(/status)? .*|create Pod/binding .*"
)
#: Of a pod that has to make room: why and the deletion, of each of two victims; its bind. Not what is said of the pod
#: itself: a victim of another death that is gone may have it tried once more, between the news that its own last victim
#: goes and the news that it is gone; then it is told anew why it waits.
PREEMPTION = r"(patch Pod/status|delete Pod) [ab]\d+|create Pod/binding p\d+"
#: The first that is said of the pod, with the nomination; it is written beside these.
NOMINATION = r"patch Pod/status p\d+"
#: Keeps a victim in its place, going, until the test lets it go.
KEPT = "berth.dev/test"
#: Of a pod with one claim behind the extender: node of the claim, Berth, lock, Reserved, volume; bind.
EXTENDER = r"\w+ (Berth|LocalDisk|PersistentVolume|PersistentVolumeClaim)(/status)? .*|create Pod/binding .*"


class Deaths:
    """Schedulers that each die after the so many-th write of a pattern (``after``). The last one, for whose death there
    is a write too few, lives on; the last but one dies after its bind."""

    def __init__(self, world: Any, start: Any, folder: Any, after: Sequence[tuple[int, str]]) -> None:
        self.world, self._start, self._folder = world, start, folder
        self._after = dict(enumerate(after, 1))
        self.names = {at: f"{world.name}-{at}" for at in self._after}
        self.nodes = {at: world.node(str(at)) for at in self.names}

    def pod(self, at: int, name: str, *claims: str, **spec: Any) -> None:
        """On the node of that death, for its scheduler."""
        pinned = {"nodeSelector": {"kubernetes.io/hostname": self.nodes[at]}}
        self.world.pod(name, *claims, **pinned, schedulerName=self.names[at], **spec)

    def come(self, let_go: Callable[[], None] = lambda: None) -> Any:
        """All of them; then one scheduler for all pods, once the others are dead.

        ``let_go``: called when all are dead that die before their bind.
        """
        running = {}
        for at, name in self.names.items():
            file = self.world.configuration(self._folder / f"{at}.yaml", {"schedulerName": name})
            running[at] = self._start(config=file, wait=False, **dying("berth_scheduler", *self._after[at]))
        *early, last, survivor = self.names
        for at in early:
            self._dead(at, running[at])
        let_go()
        self._dead(last, running[last])
        self.world.placed(f"p{survivor}")
        assert running[survivor].process.poll() is None, "there is one write more"
        self.bound = {at for at in self.names if self.world.get_pod(f"p{at}")["spec"].get("nodeName")}
        assert self.bound == {last, survivor}
        profiles = [{"schedulerName": self.names[at]} for at in (*early, last)]
        return self._start(config=self.world.configuration(self._folder / "next.yaml", *profiles))

    def _dead(self, at: int, process: Any) -> None:
        assert process.ended() == -signal.SIGKILL, f"no death {at}, after {self._after[at]}: {process.text()}"

    def all_bound_once(self, successor: Any) -> None:
        """Each pod on its node, by one bind."""
        for at in self.names:
            assert self.world.placed(f"p{at}") == [self.nodes[at]]
            told = {note for reason, note in self.world.events(f"p{at}") if reason == "Scheduled"}
            assert len(told) <= 1, told
            again = successor.text().count(f"msg=bound pod={self.world.name}/p{at} ")
            assert again == (at not in self.bound), f"after death {at} the next one has bound the pod {again} times"


def after_each(counted: str, last: int) -> list[tuple[int, str]]:
    """Deaths after 1, 2, ... ``last`` writes, and the one that is not."""
    return [(number, counted) for number in range(1, last + 2)]


def test_disks_and_devices(world, start, tmp_path):
    """Each claim has one disk, each ResourceClaim one device, and behind each lock is a living Berth."""
    deaths, devices = Deaths(world, start, tmp_path, after_each(DISK_AND_DEVICE, 8)), Devices(world)
    try:
        world.storage_class(waits=True)
        for at, node in deaths.nodes.items():
            world.disk(node, at)
            devices.publish(node, "g0")
            world.claim(f"c{at}")
            devices.claim(f"r{at}")
            deaths.pod(at, f"p{at}", f"c{at}", resourceClaims=[{"name": "c", "resourceClaimName": f"r{at}"}])
        successor = deaths.come()
        world.check()
        deaths.all_bound_once(successor)
        world.wait_bound(*(f"c{at}" for at in deaths.names))
        until(lambda: len(world.locks()) == len(deaths.names), lambda: str(world.locks()))
        world.check()
        records = {one["metadata"]["uid"]: one["spec"]["nodeName"] for one in world.berths().values()}
        assert {lock["claim"]: records[lock["uid"]] for lock in world.locks().values()} == {
            f"c{at}": node for at, node in deaths.nodes.items()
        }
        assert devices.given() == {(node, "g0"): 1 for node in deaths.nodes.values()}
        for at in deaths.names:
            assert [one["name"] for one in devices.of(f"r{at}")["reservedFor"]] == [f"p{at}"]
    finally:
        devices.clear()


def test_preemption(world, start, tmp_path):
    """The victims that were chosen go, each once, and nobody else; the pod that needs their room gets it."""
    after = [(1, NOMINATION), *after_each(PREEMPTION, 5)]
    deaths, classes = Deaths(world, start, tmp_path, after), {"low": 1, "high": 100}
    for name, value in classes.items():
        world.api.create(PRIORITY_CLASS, {"metadata": {"name": f"{world.name}-{name}"}, "value": value})
    try:
        uids = {}
        for at, node in deaths.nodes.items():
            low = {"priorityClassName": f"{world.name}-low", "nodeName": node}
            for name in ("a", "b"):
                deaths.pod(at, f"{name}{at}", cpu="900m", finalizers=[KEPT], **low)
            deaths.pod(at, f"stays{at}", cpu="150m", **low)
            uids[at] = world.get_pod(f"stays{at}")["metadata"]["uid"]
        for at in deaths.names:
            until(lambda at=at: world.get_pod(f"stays{at}")["status"].get("phase") == "Running", "it does not run")
            deaths.pod(at, f"p{at}", cpu="1800m", priorityClassName=f"{world.name}-high")
        # The news that a victim is gone may come before the answer to its deletion. Then the bind is sent before that
        # answer ends the scheduler; so no victim is gone before all of these are dead.
        deaths.all_bound_once(deaths.come(lambda: let_go(world)))
        for at in deaths.names:
            assert (world.get_pod(f"a{at}"), world.get_pod(f"b{at}")) == (None, None)
            stays = world.get_pod(f"stays{at}")["metadata"]
            assert (stays["uid"], stays.get("deletionTimestamp")) == (uids[at], None)
    finally:
        let_go(world)
        for one in world.api.list(kinds.POD, world.name):
            world.delete(kinds.POD, one["metadata"]["name"])
        for name in classes:
            world.delete(PRIORITY_CLASS, f"{world.name}-{name}")


def let_go(world: Any) -> None:
    """Take the finalizers from all pods: a victim that was asked to go is gone with that."""
    for one in world.api.list(kinds.POD, world.name):
        if one["metadata"].get("finalizers"):
            world.api.patch(kinds.POD, one["metadata"]["name"], world.name, {"metadata": {"finalizers": None}})


def test_an_extender_that_dies_after_any_write_is_continued(world: Any, extend: Callable[..., Any]) -> None:
    """Six that are killed while each binds a pod, and one that is to die after a write more than there are: the next
    finishes what is begun. Each claim has a disk of its own, behind each lock is a living Berth, nothing stays held."""
    last = 6
    nodes = dict(enumerate(ground(world, *[1] * (last + 1)), 1))
    mortal = {at: extend(wait=False, **dying("berth_scheduler", at, EXTENDER)) for at in nodes}
    pods = {}
    for at, extender in mortal.items():
        world.claim(f"c{at}")
        pods[at] = binding(world.pod(f"p{at}", f"c{at}"), nodes[at])
        settled(extender.works(), asking(world, f"p{at}", [nodes[at]]), [nodes[at]])
    *dead, survivor = mortal
    for at in dead:
        with pytest.raises(OSError):  # noqa: PT011 - whatever a connection says that ends in the middle
            mortal[at].ask("bind", pods[at])
        assert mortal[at].ended() == -signal.SIGKILL
        world.check()
    assert mortal[survivor].ask("bind", pods[survivor]) == (200, {"Error": ""}), "there is one write more"
    port = free_port()
    extender = extend("--metrics-port", str(port))
    for at, question in pods.items():
        until(
            lambda question=question: extender.ask("bind", question) == (200, {"Error": ""}),
            lambda question=question: str(extender.ask("bind", question)),
        )
        assert world.where(f"p{at}") == nodes[at]
        assert extender.text().count(f"msg=bound pod={world.name}/p{at} ") == (at < last)
    world.wait_bound(*(f"c{at}" for at in pods))
    assert {lock["claim"]: disk for disk, lock in world.locks().items()} == {
        f"c{at}": f"{world.name}-{node}-0" for at, node in nodes.items()
    }
    world.check()
    until(lambda: held(port) == 0, lambda: f"{held(port)} disks are held for nobody")


def held(port: int) -> int:
    """Disks that the extender keeps for pods."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        found = re.search(r"^berth_extender_holds (\d+)", answer.read().decode(), re.MULTILINE)
    assert found
    return int(found.group(1))
