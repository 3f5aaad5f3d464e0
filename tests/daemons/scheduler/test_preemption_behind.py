"""Preemption while the watch of the pods is behind, or nobody says what became of a deletion: one victim, no more.

The scheduler of the product, in this process, on the real API server. The pod that wants room is woken meanwhile by a
better node, whose pod it would end if it were tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.errors import UnavailableError
from berth_core.model.resources import POD
from berth_kube import config
from berth_kube.client import KubeClient
from berth_scheduler.cluster import Cluster
from berth_scheduler.configuration import Configurations
from berth_scheduler.metrics import Metrics
from berth_scheduler.preemption import Preempting
from berth_scheduler.profiles import queue_rules, run_profile
from berth_scheduler.reports import Reports
from berth_scheduler.scheduler import Scheduler
from berth_scheduler.settings import Settings
from tests.daemons.scheduler.world import PATIENCE
from tests.support.watching import watching

pytestmark = pytest.mark.slow

OPEN = "berth.dev/test-open"
#: Priority classes that every cluster has; a pod without one is of less priority than both.
ABOVE, BELOW = "system-node-critical", "system-cluster-critical"


class Late:
    """A client whose watch of the pods tells of none that goes, nor of anything after that, before `told` is set.

    ``deletion`` is called in the place of each deletion, with what deletes; ``answers``: whether a pod may be read.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.told = asyncio.Event()
        self.deletion: Callable[[Callable[[], Any]], Any] = lambda delete: delete()
        self.answers = True
        self.unanswered = 0
        #: names of pods: whose deletion was wanted, and of which it is known what became of it
        self.wanted: list[str] = []
        self.deleted: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @contextlib.asynccontextmanager
    async def watch(self, resource: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        async with self._client.watch(resource, *args, **options) as events:
            yield self._late(events) if resource == POD else events

    async def _late(self, events: Any) -> AsyncIterator[Any]:
        async for event in events:
            if event.type == "DELETED" or event.object["metadata"].get("deletionTimestamp"):
                await self.told.wait()
            yield event

    async def delete(self, resource: Any, name: str, *args: Any, **options: Any) -> bool:
        self.wanted.append(name)
        try:
            return bool(await self.deletion(lambda: self._client.delete(resource, name, *args, **options)))
        finally:
            self.deleted.append(name)

    async def get(self, resource: Any, *args: Any) -> Any:
        if resource == POD and not self.answers:
            self.unanswered += 1
            raise UnavailableError("no answer")
        return await self._client.get(resource, *args)


class Scene:
    """``victim`` is on the node ``open``, where ``wants`` may go; ``innocent``, of less priority, is on ``shut``."""

    def __init__(self, world: Any, folder: Any) -> None:
        self.world, self.folder = world, folder
        self.open, self.shut = world.node("open"), world.node("shut")
        self._label(self.open)
        world.pod("victim", cpu="1500m", nodeName=self.open, priorityClassName=BELOW)
        world.pod("innocent", cpu="1500m", nodeName=self.shut)

    def _label(self, node: str) -> None:
        self.world.api.patch(kinds.NODE, node, None, {"metadata": {"labels": {OPEN: self.world.name}}})

    @contextlib.asynccontextmanager
    async def playing(self, plane: Any) -> AsyncIterator[None]:
        """The scheduler runs, and its caches are full."""
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            self.client: Any = Late(client)
            self.cluster = Cluster(self.client)
            self.scheduler = self._scheduler()
            async with watching(self.cluster):
                running = asyncio.ensure_future(self.scheduler.run())
                try:
                    yield
                finally:
                    running.cancel()
                    await asyncio.gather(running, return_exceptions=True)

    def _scheduler(self) -> Scheduler:
        settings = Settings(config=str(self.world.configuration(self.folder / "config.yaml")))
        files = Configurations(settings)
        configuration, preempting = files.load(), Preempting(self.cluster)
        running = {
            one.scheduler_name: run_profile(one, files.table, self.cluster, preempting)
            for one in configuration.profiles
        }
        rules, reports = queue_rules(configuration, running), Reports(self.client, {})
        metrics = Metrics(CollectorRegistry())
        return Scheduler(self.client, self.cluster, reports, metrics, running, rules, preempting)

    def arrive(self) -> None:
        self.world.pod("wants", cpu="1500m", priorityClassName=ABOVE, nodeSelector={OPEN: self.world.name})

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.02)

    async def wake(self) -> None:
        """The other node becomes a better one; whoever waits is told of it."""
        self._label(self.shut)
        await self.until(lambda: OPEN in (self.cluster.nodes.get(self.shut) or {})["metadata"]["labels"])

    async def holds_back(self) -> None:
        """The pod that was woken is not tried. (Or it is, which the scene's end tells.)"""
        await self.until(lambda: self.scheduler.queue.counts()["gated"] or len(self.client.wanted) > 1)

    async def ends(self) -> None:
        """The pod has the room that was made for it."""
        self.client.told.set()
        await self.until(lambda: self.world.where("wants"))
        assert self.world.where("wants") == self.open
        assert "deletionTimestamp" not in self.world.get_pod("innocent")["metadata"]


@pytest.fixture
def scene(world, tmp_path):
    return Scene(world, tmp_path)


def test_a_pod_is_held_until_the_news_of_its_victims_is_there(scene, plane):
    """The answer to the deletion is there, the watch is behind: the victim counts on its node, though it is gone."""

    async def story():
        async with scene.playing(plane):
            scene.arrive()
            await scene.until(lambda: scene.client.deleted)
            await scene.wake()
            await scene.holds_back()
            assert scene.cluster.pods.get("victim", scene.world.name) is not None, "the watch is not behind"
            await scene.ends()
            assert scene.client.wanted == ["victim"]

    asyncio.run(story())


def test_a_deletion_whose_answer_is_lost_is_asked_about(scene, plane):
    """It was carried out. Until that is known, and the watch has told it, nobody else is ended."""

    async def lost(delete):
        await delete()
        await scene.wake()
        raise UnavailableError("no answer; it may or may not have been carried out")

    async def story():
        async with scene.playing(plane):
            scene.client.deletion, scene.client.answers = lost, False
            scene.arrive()
            await scene.until(lambda: scene.client.deleted)
            await scene.holds_back()
            await scene.until(lambda: scene.client.unanswered > 1 or len(scene.client.wanted) > 1)
            scene.client.answers = True
            await scene.ends()
            assert scene.client.wanted == ["victim"]

    asyncio.run(story())


def test_a_deletion_that_was_never_sent_is_tried_again(scene, plane):
    """Nobody is asked to go, so no news would end the waiting."""

    async def unsent(_delete):
        scene.client.deletion = lambda delete: delete()
        raise UnavailableError("no answer; it may or may not have been carried out")

    async def story():
        async with scene.playing(plane):
            scene.client.deletion = unsent
            scene.arrive()
            await scene.ends()
            assert scene.client.wanted == ["victim", "victim"]

    asyncio.run(story())


def test_a_victim_that_was_replaced_is_gone(scene, plane):
    """Another pod of its name is there, of which the watch has not told: a conflict, and nobody has to go any more."""

    async def replaced(delete):
        scene.world.delete(kinds.POD, "victim")
        scene.world.pod("victim", cpu="100m", nodeName=scene.open)
        await scene.wake()
        return await delete()

    async def story():
        async with scene.playing(plane):
            scene.client.deletion = replaced
            scene.arrive()
            await scene.until(lambda: scene.client.deleted)
            await scene.holds_back()
            await scene.ends()
            assert scene.client.wanted == ["victim"]
            assert "deletionTimestamp" not in scene.world.get_pod("victim")["metadata"]

    asyncio.run(story())
