"""The disk under a StatefulSet's claim is exchanged: disk_replace dies at any write, and is run again.

Without a controller, so that each write is its own; beside one, which is faster with some of them; and given up.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.disk_replace import OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.replacing import PARTS
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.app.runner import calm, deaths, run
from tests.daemons.controller.world import GI, until

pytestmark = [pytest.mark.slow, pytest.mark.promise]
CLAIM, POD = "data-web-0", "web-0"
#: Each write of an exchange that nobody helps with, as the runner names them.
WRITES = [
    "replace LocalDisk",  # cordon
    "patch Berth status",  # Replacing
    "delete PersistentVolumeClaim",
    "delete Pod",
    "delete PersistentVolume",
    "replace LocalDisk",  # its lock is given up, its data kept
    "create LocalDisk",
    "create Berth",  # of the claim that the StatefulSet makes anew
    "replace LocalDisk",  # its lock
    "patch LocalDisk status",
    "patch Berth status",  # Reserved
    "patch Berth status",  # the old one is Releasing
    "delete Berth",
    "replace Berth",  # its finalizer
    "create PersistentVolume",
    "patch Berth status",  # Bound
]


class Ground:
    """A replica of a StatefulSet runs on disk ``old`` of ``node``; disk ``other`` there is anybody's. No controller."""

    def __init__(self, world: Any, start: Any, plane: Any, node: str, waits: bool, policy: str) -> None:
        self.world, self.start = world, start
        world.storage_class(waits, policy)
        self.old = world.disk(node, "old", reclaimPolicy=policy)
        controller = start("--no-leader-elect")
        world.stateful_set("web", "data")
        until(self.runs, lambda: world.story(CLAIM))
        controller.stop()
        world.disk(node, "other", reclaimPolicy=policy)
        ((_name, self.lock),) = world.locks().items()
        self.new = f"{world.name}-{node}-new"
        identity = {"serial": f"S-{self.new}", "size": 2 * GI}
        self.exchange = {
            "name": self.old,
            "new": {"name": self.new, "identity": identity},
            "kubeconfig": str(plane.kubeconfig),
            "wait_timeout": 60,
        }

    def runs(self) -> bool:
        return ready(self.world.api.find(kinds.POD, POD, self.world.name))

    def agent(self) -> None:
        """What the node's agent says of a disk that is declared while nobody waits for it."""
        new = self.world.disks().get(self.new)
        if new is not None and "status" not in new:
            self.world.observe(self.new, "Available")

    def nothing_is_lost(self) -> None:
        """What holds wherever an exchange is cut: the old disk is locked for the replica or keeps its data, no other
        disk but the new one is locked, for the claim as it is now, and nothing is to be wiped."""
        self.world.check()
        disks = {name: one["spec"] for name, one in self.world.disks().items()}
        locks, old = self.world.locks(), disks[self.old]
        assert ("claimRef" in old) != ("retainedFor" in old)
        kept = old.get("claimRef") or old["retainedFor"]
        assert (kept["claim"], kept["dataUID"]) == (CLAIM, self.lock["dataUID"])
        assert old["unschedulable"], "nobody else is given it"
        assert len(locks) < 2, "the claim holds two disks"
        assert set(locks) <= {self.old, self.new}
        assert not [name for name, spec in disks.items() if "wipe" in spec]

    def exchanged(self) -> None:
        """The replica runs on the new disk; the old one keeps its data in the replica's name."""
        world = self.world
        self.nothing_is_lost()
        assert self.runs()
        claim = world.bound(CLAIM)
        assert claim is not None
        ((name, lock),) = world.locks().items()
        assert (name, lock["name"]) == (self.new, f"pvc-{claim['metadata']['uid']}")
        assert list(world.berths()) == [lock["name"]]
        (volume,) = world.volumes().values()
        assert volume["metadata"]["name"] == claim["spec"]["volumeName"]
        assert f"/{self.new}/" in volume["spec"]["local"]["path"].replace(".namespaces/", "") + "/"
        assert "retainedFor" in world.disks()[self.old]["spec"]


@pytest.fixture
def ground(world: Any, start: Any, plane: Any, nodes: list[str]) -> Any:
    return partial(Ground, world, start, plane, nodes[0])


@pytest.mark.parametrize(("waits", "policy"), [(False, "Delete"), (True, "Retain")])
def test_an_exchange_that_dies_at_every_write_is_ended_by_its_rerun(ground, waits, policy):
    web = ground(waits, policy)
    died = 0
    for _death in deaths(partial(run, web.exchange, OPERATION)):
        died += 1
        web.agent()
        web.nothing_is_lost()
    assert died >= len(WRITES)
    web.exchanged()
    assert run(web.exchange, OPERATION)["writes"] == 0
