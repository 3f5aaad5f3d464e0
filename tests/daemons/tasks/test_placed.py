"""What is free, kept as it changes, is what it is when everything that was given is added up."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from berth_core.model.pod import Amounts
from berth_core.tasks.offers import Offer
from berth_core.tasks.pods import PodState
from berth_core.tasks.snapshot import Difference
from berth_core.tasks.task import Task
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.exchange import Endpoint
from berth_kube.store import Key
from berth_tasks.backend import KubernetesTaskSchedulerBackend
from berth_tasks.nodes import _node
from berth_tasks.placed import Placed
from tests.core.tasks.samples import pod, sized
from tests.daemons.tasks.test_backend import backend

NODES, TASKS, STEPS = 4, 12, 600


def with_nodes(client: KubeClient, *names: str) -> KubernetesTaskSchedulerBackend:
    one = backend(client)
    for name in names:
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"cpu": "1", "pods": "3", "memory": "1Gi"}, "conditions": ready}
        one.nodes._nodes.store.put(Key("", name), _node({"metadata": {"name": name}, "status": status}))
    return one


class Life:
    """What may become of tries, in any order. ``alike``: they are of one size, and some have no node."""

    def __init__(self, one: KubernetesTaskSchedulerBackend, chance: random.Random, alike: bool) -> None:
        self.allocations, self.chance = one.allocations, chance
        sizes = (300,) if alike else (100, 300, 700)
        self.tasks = [sized(f"t{number}", chance.choice(sizes)) for number in range(TASKS)]
        self.nodes = [*([""] if alike else []), *(f"n{number}" for number in range(NODES + 1))]  # the last is not there
        self.pods: dict[str, PodState] = {}

    def step(self) -> None:
        chance, task = self.chance, self.chance.choice(self.tasks)
        steps = (self._given, self._taken_back, self._placed, self._seen, self._seen, self._gone)
        chance.choice(steps)(task, chance.choice(self.nodes))

    def _given(self, task: Task, node: str) -> None:
        if self.allocations.account.charge((task.uid, 1), "ns/default", task.requests, node == "n0") and node:
            self.allocations.place((task.uid, 1), node)

    def _taken_back(self, task: Task, _node: str) -> None:
        self.allocations.account.give_back((task.uid, 1))
        self.allocations.displace((task.uid, 1))

    def _placed(self, task: Task, node: str) -> None:
        self.allocations.place((task.uid, 1), node)

    def _seen(self, task: Task, node: str) -> None:
        old = self.pods.get(task.uid)
        phase = self.chance.choice(("Pending", "Running", "Succeeded"))
        new = pod(task, phase=phase, node=node)
        new = replace(new, details=new.details._replace(nominated=self.chance.choice(("", "n1"))))
        self.pods[task.uid] = new
        self.allocations.follow([Difference(old, new)])

    def _gone(self, task: Task, _node: str) -> None:
        old = self.pods.pop(task.uid, None)
        if old is not None:
            self.allocations.follow([Difference(old, None)])


def free(found: list[Offer]) -> dict[str, dict[str, int]]:
    return {node: {name: value for name, value in left.items() if value} for node, left in found}


def test_only_tries_of_which_something_may_be_otherwise_are_looked_at() -> None:
    looks: list[tuple[str, int]] = []
    places = {(f"u{number}", 1): ("n1", (("cpu", 100),)) for number in range(1_000)}

    def place_of(charge: tuple[str, int]) -> tuple[str, Amounts] | None:
        looks.append(charge)
        return places.get(charge)

    placed = Placed(place_of)
    for charge in places:
        placed.look(charge)
    for count in (1_000, 1_000, 999):
        offer = Offer("n1", {"cpu": 200_000, "pods": 2_000})
        placed.subtract([offer])
        assert offer.free == {"cpu": 200_000 - 100 * count, "pods": 2_000 - count}
        if count == 1_000 and len(looks) > 1_000:
            del places["u1", 1]
        placed.look(("u1", 1))
    assert looks[1_000:] == [("u1", 1), ("u1", 1)]


@pytest.mark.parametrize("seed", range(20))
def test_the_sums_are_those_of_all_that_is_given(seed: int) -> None:
    """Where those without a node are not alike, it is a guess which of them is where: they are alike here."""

    async def main() -> None:
        nobody = Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default")
        async with KubeClient(nobody) as client:
            one = with_nodes(client, *(f"n{number}" for number in range(NODES)))
            life = Life(one, random.Random(seed), alike=bool(seed % 2))
            taken = 0
            for _step in range(STEPS):
                life.step()
                if life.chance.random() < 0.5:  # several may have changed since the last look
                    found = free(one.allocations.offers())
                    assert found == free(one.allocations.revive_offers()[0])
                    taken += found != free([Offer(*each) for each in one.nodes.free().items()])
            assert taken > STEPS // 10, "something was given"

    asyncio.run(main())
