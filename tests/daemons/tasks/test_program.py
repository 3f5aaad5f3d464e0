"""Programs that run tasks from Python: what they submit and are told; room that they hold, take, decline and lose."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.errors import InputError, StateError, TimeoutExpired
from berth_core.tasks.items import MOST_ITEMS
from berth_kube.client import KubeClient
from berth_tasks.program import TaskBatches, TaskOffers, Tasks
from tests.daemons.tasks import program
from tests.daemons.tasks.world import World, until

Start = Callable[..., Any]
QUARTER = {"cpu": "500m"}
DIES = """
import asyncio, sys
from berth_kube import config
from berth_kube.client import KubeClient
from berth_tasks.program import TaskOffers
async def main():
    async with KubeClient(config.load(sys.argv[1])) as client, TaskOffers(client) as offers:
        (held,) = await offers.revive_offers({"cpu": "1500m"}, seconds=15, wait=60)
        print(held.node, held.until, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.fixture
def rights(world: World) -> Iterator[Path]:
    path = program.allow(world)
    yield path
    path.unlink()


async def ends(world: World, name: str, code: int = 0, number: int = 1) -> None:
    """The pod of a try runs, and ends."""
    await asyncio.to_thread(lambda: world.end(world.running(name, number), code))


def test_each_state_is_told_once_and_a_name_that_is_used_again_is_another_task(
    world: World, start: Start, rights: Path
) -> None:
    world.node()
    start("--running-after", "0")

    async def main(client: KubeClient) -> None:
        async with Tasks(client) as tasks:
            with pytest.raises(StateError, match="is not there: submit it first"):
                await tasks.wait("job")
            first = await tasks.submit("job", world.template(), retries=1)
            assert (first["state"], first["namespace"]) == ("Submitted", world.name)
            assert (await tasks.submit("job", world.template(), retries=1))["state"] in ("Submitted", "Running")
            assert (await tasks.submit("job", world.template()))["tries"] in (None, 0), "what is not given stays"
            assert world.api.get(kinds.TASK, "job", world.name)["spec"]["retries"] == 1
            with pytest.raises(TimeoutExpired, match=r"waited 0\.1 s for Task .*/job to end: it is "):
                await tasks.wait("job", 0.1)
            followers = [asyncio.create_task(told(tasks)) for _number in range(2)]
            await ends(world, "job", 1)
            await ends(world, "job", 0, number=2)
            rows = await asyncio.gather(*followers)
            assert rows[0][-1] == ("Succeeded", 2)
            assert [len(set(seen)) == len(seen) for seen in rows] == [True, True], rows
            assert (await tasks.wait("job"))["exit_code"] == 0, "who comes late is told the end"

            assert await tasks.remove("job")
            await tasks.submit("job", world.template())
            again = asyncio.create_task(tasks.wait("job"))
            await asyncio.to_thread(world.running, "job")
            assert not again.done()
            await tasks.kill("job")
            assert (await again)["state"] == "Killed"

            await tasks.submit("gone", world.template())
            following = asyncio.create_task(tasks.wait("gone"))
            await asyncio.to_thread(world.running, "gone")
            await asyncio.to_thread(world.api.delete, kinds.TASK, "gone", world.name)
            with pytest.raises(StateError, match="was deleted before it ended"):
                await following

    async def told(tasks: Tasks) -> list[tuple[str, int]]:
        return [(row["state"], row["tries"] or 0) async for row in tasks.follow("job")]

    program.run(rights, main)


def test_other_content_of_the_same_name_is_an_update_until_it_has_ended(
    world: World, start: Start, rights: Path
) -> None:
    world.node()
    start("--running-after", "0")
    first = world.template()
    first["spec"]["priorityClassName"], first["metadata"] = "", {"labels": {"a": "1"}}

    async def main(client: KubeClient) -> None:
        async with Tasks(client) as tasks:
            await tasks.submit("job", first, retries=1)
            old = await asyncio.to_thread(world.running, "job")
            version = world.api.get(kinds.TASK, "job", world.name)["metadata"]["generation"]
            await tasks.submit("job", first, retries=1)
            assert world.api.get(kinds.TASK, "job", world.name)["metadata"]["generation"] == version
            await tasks.submit("job", world.template("200m"), retries=2)
            spec = world.api.get(kinds.TASK, "job", world.name)["spec"]
            assert (spec["template"], spec["retries"]) == (world.template("200m"), 2), "what it had before is gone"
            new = await asyncio.to_thread(world.running, "job", 2)
            assert new["metadata"]["uid"] != old["metadata"]["uid"]
            await asyncio.to_thread(world.end, new)
            assert (await tasks.wait("job", 60))["state"] == "Succeeded"
            with pytest.raises(StateError, match=r"Task .*/job is Succeeded, and was of another template: remove it"):
                await tasks.submit("job", first)
            assert (await tasks.submit("job", world.template("200m")))["state"] == "Succeeded"

    program.run(rights, main)


def test_a_batch_is_waited_for_and_says_which_of_its_tasks_failed(world: World, start: Start, rights: Path) -> None:
    world.node()
    start()

    async def main(client: KubeClient) -> None:
        async with TaskBatches(client) as batches:
            with pytest.raises(InputError, match=r"either spec\.count or spec\.items"):
                await batches.submit("many", world.template())
            with pytest.raises(TypeError, match="a TaskBatch has no option offer: it has count, gang, items,"):
                await batches.submit("many", world.template(), count=3, offer="held")
            await batches.submit("many", world.template(), count=3)
            end = asyncio.create_task(batches.wait("many", 60))
            await asyncio.to_thread(until, lambda: len(world.elements("many", "Running")) == 3, "three run")
            for index, pod in world.elements("many").items():
                world.end(pod, int(index == 1))
            row = await end
            assert (row["state"], row["indexes"]) == ("Failed", {"Succeeded": "0,2", "Failed": "1"})
            assert await batches.remove("many")

    program.run(rights, main)


def test_ten_thousand_tasks_come_from_a_generator(world: World, rights: Path) -> None:
    items = [{"name": f"part-{number:05}", "args": ["x" * 30]} for number in range(MOST_ITEMS)]

    async def read() -> AsyncIterator[dict[str, Any]]:
        for one in items:
            await asyncio.sleep(0)
            yield one

    async def forever() -> AsyncIterator[dict[str, Any]]:
        while True:
            yield {}

    async def main(client: KubeClient) -> None:
        async with TaskBatches(client) as batches:
            for _time in range(2):
                row = await batches.submit("later", world.template(), items=read())
                assert (row["name"], row["state"]) == ("later", "Submitted")
            await batches.submit("now", world.template(), items=({"args": ("-p", one["name"])} for one in items[:3]))
            for endless in (({"args": [str(number)]} for number in itertools.count()), forever()):
                with pytest.raises(InputError, match=r"TaskBatch endless: spec\.items has more than 10000 items"):
                    await batches.submit("endless", world.template(), items=endless)

    program.run(rights, main)
    specs = {one["metadata"]["name"]: one["spec"]["items"] for one in world.api.list(kinds.TASK_BATCH, world.name)}
    assert (specs["later"], len(specs["now"]), specs.keys()) == (items, 3, {"later", "now"})


def test_room_is_held_and_goes_to_the_task_that_takes_it_and_what_is_declined_comes_back(
    world: World, start: Start, rights: Path
) -> None:
    node = world.node(cpu="2")
    start()
    pool = {"template": world.template("500m")}

    async def main(client: KubeClient) -> None:
        async with Tasks(client) as tasks, TaskOffers(client) as offers:
            held = await offers.revive_offers(QUARTER, most=5, wait=3)
            here = [one for one in held if one.node == node]
            assert len(held) >= len(here) == 4, "as many as the node has room for"
            world.submit("waits", "500m")
            await asyncio.sleep(1)
            assert not world.pods_of("waits")
            with pytest.raises(InputError, match=r"asks for cpu 600, and TaskOffer offer-\w+ holds 500"):
                await here[0].accept(tasks, "large", world.template("600m"))
            with pytest.raises(InputError, match="an offer is room for one task, and a gang starts together"):
                await here[0].accept(tasks, "ring", **pool, gang={"name": "ring", "minCount": 2})
            await here[0].accept(tasks, "mine", **pool)
            pod = await asyncio.to_thread(world.running, "mine")
            assert pod["spec"]["nodeName"] == node
            assert not world.pods_of("waits"), "others have the rest"
            while here[0].held:  # what was taken is no offer any more
                await asyncio.sleep(0.05)
            await here[1].decline()
            await asyncio.to_thread(world.running, "waits")
            with pytest.raises(StateError, match="has gone back"):
                await here[1].accept(tasks, "late", **pool)
        assert not world.api.list(kinds.TASK_OFFER, world.name), "who leaves in order declines what is left"

    program.run(rights, main)


def test_what_is_held_of_borrowed_room_goes_back_when_the_lender_wants_it(
    world: World, start: Start, rights: Path
) -> None:
    """At once, long before its time is over; what runs of the borrower is not touched for it."""
    world.node(cpu="4")
    world.queue("owner", ceiling={"cpu": "300m"}, reclaim="Any")
    world.queue("guest", ceiling={"cpu": "100m"}, borrowingLimit={"cpu": "300m"})
    start()
    world.submit("runs", queue="guest")
    before = world.running("runs")["metadata"]["uid"]

    async def main(client: KubeClient) -> None:
        async with Tasks(client) as tasks, TaskOffers(client) as offers:
            held = await offers.revive_offers({"cpu": "100m"}, most=3, seconds=600, wait=60, queue="guest")
            assert [one.held for one in held] == [True, True, True]
            await asyncio.to_thread(world.submit, "mine", "200m", queue="owner")
            await asyncio.to_thread(world.running, "mine")
            await asyncio.to_thread(until, lambda: sum(one.held for one in held) == 1, "two of them go back")
            left = [one["metadata"]["name"] for one in world.api.list(kinds.TASK_OFFER, world.name)]
            assert left == [one.name for one in held if one.held], "who has lost one is told by its object"
            lost = next(one for one in held if not one.held)
            with pytest.raises(StateError, match="TaskQueue guest gave back what it had borrowed; ask anew"):
                await lost.accept(tasks, "late", world.template())
            assert await offers.revive_offers({"cpu": "100m"}, seconds=600, wait=1, queue="guest") == []
            assert [pod["metadata"]["uid"] for pod in world.pods_of("runs")] == [before]
            world.end(world.running("mine"))
            again = await offers.revive_offers({"cpu": "100m"}, seconds=600, wait=60, queue="guest")
            assert len(again) == 1, "what the owner needs no more is lent again"

    program.run(rights, main)


def test_what_a_program_holds_comes_back_when_it_dies_and_outlives_a_backend_that_does(
    world: World, start: Start, rights: Path
) -> None:
    world.node(cpu="2")
    backend = start()
    dies = subprocess.Popen([sys.executable, "-c", DIES, str(rights)], stdout=subprocess.PIPE, text=True)
    try:
        assert dies.stdout is not None
        node, until_ = dies.stdout.readline().split()
        assert node == world.nodes[0]
    finally:
        dies.kill()
        dies.wait()
        dies.stdout.close()
    backend.signal(9)
    assert backend.ended() == -9
    world.submit("waits", "1500m")
    start()
    pod = world.running("waits")
    assert pod["metadata"]["creationTimestamp"] >= until_, "the next backend has held it as long as it was promised"
    until(lambda: not world.api.list(kinds.TASK_OFFER, world.name), "it is deleted")
    world.end(pod)
    world.ended("waits", "Succeeded")
