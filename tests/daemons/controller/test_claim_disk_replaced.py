"""The disk under a StatefulSet's claim is exchanged: disk_replace dies at any write, and is run again or given up."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.disk_replace import OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.app.runner import calm, deaths, run
from tests.daemons.controller.world import GI, until
from tests.support.kube import forget, patch_disk

pytestmark = [pytest.mark.slow, pytest.mark.promise]
CLAIM, POD = "data-web-0", "web-0"
#: The writes of an exchange after which its claim goes, and before which the claim that is made anew has no Berth.
STOPS, ADOPTS = 4, 8


class Ground:
    """The one replica of a StatefulSet runs on the disk `old` of a node; another disk there may be given to anybody."""

    def __init__(self, world: Any, start: Any, plane: Any, node: str, waits: bool, policy: str) -> None:
        self.world, self.node, self.policy = world, node, policy
        self.kubeconfig = str(plane.kubeconfig)
        world.storage_class(waits, policy)
        self.old = world.disk(node, "d0", reclaimPolicy=policy)
        self.controller = start("--no-leader-elect")
        world.stateful_set("web", "data")
        until(self.settled, lambda: world.story(CLAIM))
        world.disk(node, "other", reclaimPolicy=policy)

    def runs(self) -> bool:
        """Whether the pod is Ready on a claim that is bound."""
        api, name = self.world.api, self.world.name
        claim = api.find(kinds.PVC, CLAIM, name)
        return ready(api.find(kinds.POD, POD, name)) and (claim or {}).get("status", {}).get("phase") == "Bound"

    def settled(self) -> bool:
        """Whether it runs, and the controller has written that: no later write of its meets one of an exchange, which
        would count as one of the exchange's own."""
        return self.runs() and {one["status"]["phase"] for one in self.world.berths().values()} == {"Running"}

    def begin(self, new: str) -> dict[str, Any]:
        """An exchange of the replica's disk for a new one: the options of disk_replace."""
        ((self.old, lock),) = self.world.locks().items()
        self.data, self.new = lock["dataUID"], f"{self.world.name}-{self.node}-{new}"
        identity = {"serial": f"S-{self.new}", "size": 2 * GI}
        new_disk = {"name": self.new, "identity": identity}
        return {"name": self.old, "new": new_disk, "kubeconfig": self.kubeconfig, "wait_timeout": 60}

    def agent(self) -> None:
        """What the node's agent says of the new disk, once it is declared."""
        new = self.world.disks().get(self.new)
        if new is not None and "status" not in new:
            self.world.observe(self.new, "Available")

    def nothing_is_lost(self) -> None:
        """What holds wherever an exchange is cut: the old disk is locked for the replica or keeps its data, which is
        not to be wiped; and of the old and the new disk one at most is locked, and no other one is."""
        self.world.check()
        spec, locks = self.world.disks()[self.old]["spec"], self.world.locks()
        assert ("claimRef" in spec) != ("retainedFor" in spec)
        kept = spec.get("claimRef") or spec["retainedFor"]
        assert (kept["claim"], kept["dataUID"], spec.get("wipe")) == (CLAIM, self.data, None)
        assert spec["unschedulable"], "nobody is given it"
        assert len(locks) < 2, "the claim has two disks"
        assert set(locks) <= {self.old, self.new}

    def exchanged(self) -> None:
        """The replica runs on the new disk; the old one keeps its data in the replica's name."""
        world = self.world
        self.nothing_is_lost()
        assert self.runs()
        claim = world.get_claim(CLAIM)
        ((name, lock),) = world.locks().items()
        assert (name, lock["name"]) == (self.new, f"pvc-{claim['metadata']['uid']}")
        assert list(world.berths()) == [lock["name"]]
        (volume,) = world.volumes().values()
        assert volume["metadata"]["name"] == claim["spec"]["volumeName"]
        assert volume["metadata"]["annotations"]["berth.dev/local-disk"] == self.new
        assert "retainedFor" in world.disks()[self.old]["spec"]


@pytest.fixture
def ground(world: Any, start: Any, plane: Any, nodes: list[str]) -> Any:
    return partial(Ground, world, start, plane, nodes[0])


@pytest.mark.parametrize(("waits", "policy"), [(False, "Delete"), (True, "Retain")])
def test_an_exchange_that_dies_at_every_write_ends_as_one_that_nobody_kills(ground, waits, policy):
    """There is no controller, so that every write of it is the module's own. The disk is exchanged twice: once in one
    run, whose writes are counted, then by runs that die."""
    web = ground(waits, policy)
    web.controller.stop()
    options = web.begin("d1")
    web.world.disk(web.node, "d1", reclaimPolicy=policy)  # so that nobody has to play the agent beside the run
    trace = calm(run(options, OPERATION))["trace"]
    web.exchanged()
    assert (trace[STOPS - 1], trace[ADOPTS - 1]) == ("delete Pod", "create Berth"), trace
    options, died = web.begin("d2"), 0
    for _death in deaths(partial(run, options, OPERATION)):
        died += 1
        web.nothing_is_lost()
        web.agent()
    assert died == len(trace) + 1, "one more: it declares the new disk"
    web.exchanged()
    assert run(options, OPERATION)["writes"] == 0


def test_an_exchange_that_dies_beside_a_controller_is_ended_or_given_up_with_the_data_kept(ground):
    """Both policies say Delete: an exchange asks for no wipe all the same. One that died between the claim and its pod
    is given up when a person has deleted that, too: nothing is unlocked under a living pod."""
    web = ground(False, "Delete")
    world, options = web.world, web.begin("d1")
    for write in range(STOPS - 1, ADOPTS):
        assert run(options, OPERATION, kill_at=write) is None
        web.nothing_is_lost()
        (record,) = world.berths()
        world.delete(kinds.BERTH, record)
        if write < STOPS:
            until(lambda: world.told(CLAIM, "BerthDeleted", f"kubectl delete pod {POD}"), lambda: world.story(CLAIM))
            assert set(world.locks()) == {web.old}
            world.delete(kinds.POD, POD)
        until(lambda record=record: record not in world.berths(), lambda: str(world.berths()))
        web.nothing_is_lost()
        assert world.locks() == {}, "the claim that was made anew waits: its data is on a disk that is cordoned"
        forget(world.api, kinds.LOCAL_DISK, web.new)
        patch_disk(world.api, web.old, unschedulable=None)
        until(lambda: world.locks() and web.settled(), lambda: world.story(CLAIM))
        assert web.begin("d1") == options, "it has its old disk again"
    for _death in deaths(partial(run, options, OPERATION)):
        web.nothing_is_lost()
        web.agent()
    web.exchanged()
    until(web.settled, lambda: world.story(CLAIM))
