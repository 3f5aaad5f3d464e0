"""Pods with local disks and pods without, which arrive while something goes wrong (test_faults_*.py).

After each fault: every pod is on a node, none was bound twice, no disk is given twice, and behind each lock is a living
Berth.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.scheduler.world import until


class Crowd:
    """Pods that arrive in turns, every other one with a claim for a disk of its own."""

    def __init__(self, world: Any, disks: int) -> None:
        self.world, self.names, self.claims = world, [], []
        self._came = 0
        world.storage_class(waits=True)
        for number in range(2):
            node = world.node(str(number), cpu="8")
            for index in range(disks // 2):
                world.disk(node, index)

    def arrive(self, count: int) -> None:
        for _number in range(count):
            name = f"p{self._came:02}"
            mine = [name] if self._came % 2 else []
            self._came += 1
            for claim in mine:
                self.world.claim(claim)
            self.world.pod(name, *mine)
            self.names.append(name)
            self.claims += mine

    def leave(self, name: str) -> None:
        """The pod goes; its claim, and so its disk, stays."""
        self.world.delete(kinds.POD, name)
        self.names.remove(name)

    def at_rest(self, *schedulers: Any) -> None:
        """Wait until all have arrived at their places, and look whether anything was done twice."""
        world = self.world
        nodes = dict(zip(self.names, world.placed(*self.names), strict=True))
        world.wait_bound(*self.claims)
        until(lambda: len(world.locks()) == len(self.claims), lambda: str(world.locks()))
        world.check()
        disks, locks = world.disks(), world.locks()
        assert sorted(lock["claim"] for lock in locks.values()) == sorted(self.claims)
        for disk, lock in locks.items():
            if lock["claim"] in nodes:
                assert disks[disk]["spec"]["nodeName"] == nodes[lock["claim"]], f"{lock['claim']} is not with its disk"
        text = "".join(one.text() for one in schedulers)
        for name in self.names:
            said = re.findall(rf"msg=bound pod={world.name}/{name} ", text)
            assert len(said) <= 1, f"{name} was bound {len(said)} times"
            told = [note for reason, note in world.events(name) if reason == "Scheduled"]
            assert len(set(told)) <= 1, told
