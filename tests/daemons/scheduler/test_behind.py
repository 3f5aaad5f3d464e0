"""Disks are locked while the watches are behind: what is known to be over is over, and no lock outlives its Berth."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app import claims
from berth_core.errors import ForbiddenError, LockError
from berth_core.framework.binding import Binding
from berth_core.framework.events import Action, ClusterEvent
from berth_core.model.placement import Placement, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.model.resources import BERTH, LOCAL_DISK, PVC, STORAGE_CLASS
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.store import Key
from berth_scheduler.cluster import Cluster
from berth_scheduler.disks import LocalDisks
from berth_scheduler.volumes import Volumes
from tests.support.watching import watching

pytestmark = pytest.mark.slow


class Before:
    """A client that does something first when a LocalDisk is to be locked."""

    def __init__(self, client: KubeClient, does: Callable[[], Awaitable[None]]) -> None:
        self._client, self._does = client, does

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def replace(self, resource: Any, body: Any, **options: Any) -> Any:
        if resource == LOCAL_DISK:
            await self._does()
        return await self._client.replace(resource, body, **options)


class Attempt:
    """The pod ``p`` on its way to a node and to a disk for its claim ``c``."""

    def __init__(self, world: Any, cluster: Cluster, api: Any, node: str, disk: str) -> None:
        pod = world.get_pod("p")
        self.disks = LocalDisks(cluster, Volumes(cluster))
        placement = Placement(node, disks={"v0": disk})
        self.binding = Binding(pod, PlacementRequest(PodInfo.from_manifest(pod)), placement, api)
        asked = claims.parse(cluster.get(PVC, "c", world.name), cluster.get(STORAGE_CLASS, world.name))
        self.disks.begin(self.binding, {"v0": asked})

    async def hold(self) -> None:
        await self.disks.hold(self.binding)

    async def release(self) -> None:
        await self.disks.release(self.binding)


@pytest.fixture
def place(world):
    """A node with one disk, and the pod that wants it."""
    world.storage_class(waits=True)
    node = world.node()
    disk = world.disk(node, 0)
    world.claim("c")
    world.pod("p", "c")
    return node, disk


def remove_berth(world):
    """As somebody does who gives it up: it is asked to go, and its finalizer is taken off."""
    (name,) = world.berths()
    world.api.delete(kinds.BERTH, name, world.name)
    world.api.patch(kinds.BERTH, name, world.name, {"metadata": {"finalizers": None}})
    assert not world.berths()


def held(world, disk):
    """The lock is there, and a living Berth behind it."""
    world.check()
    (berth,) = world.berths().values()
    assert {name: lock["uid"] for name, lock in world.locks().items()} == {disk: berth["metadata"]["uid"]}
    assert berth["status"]["phase"] == "Reserved"


def test_a_choice_that_was_given_back_is_over_though_the_watch_still_tells_it(world, plane, place):
    """The API server refuses the lock, as one does that has just started; the watches come back later than the pod."""
    node, disk = place

    async def refused() -> None:
        raise ForbiddenError("RBAC does not allow it", 403)

    async def story() -> None:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            cluster = Cluster(client)
            async with watching(cluster):
                first = Attempt(world, cluster, Before(client, refused), node, disk)
                with pytest.raises(ForbiddenError):
                    await first.hold()
                (berth,) = world.berths()
                await cluster.until(
                    BERTH, Key(world.name, berth), lambda told: told is not None, 60, "was not told by the watch"
                )
            await first.release()
            assert not world.berths()
            assert cluster.get(BERTH, berth, world.name) is None
            assert not cluster.snapshot.berths
            await Attempt(world, cluster, client, node, disk).hold()

    asyncio.run(story())
    held(world, disk)


def test_a_lock_whose_berth_went_while_it_was_taken_is_given_up(world, plane, place):
    """Whoever let the Berth go has not seen the lock: nobody else would give it up. The next attempt has the disk."""
    node, disk = place
    left = [remove_berth]

    async def goes() -> None:
        if left:
            left.pop()(world)

    async def story() -> None:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            cluster = Cluster(client)
            async with watching(cluster):
                pass
            first = Attempt(world, cluster, Before(client, goes), node, disk)
            with pytest.raises(LockError):
                await first.hold()
            assert not world.locks()
            await first.release()
            await Attempt(world, cluster, client, node, disk).hold()

    asyncio.run(story())
    assert not left
    held(world, disk)


def test_what_came_and_went_while_nobody_watched_does_not_count_for_ever(world, plane, place):
    """The scheduler made it, it went, and the watches begin anew with a list without it: they never tell its end."""
    node, disk = place

    async def story() -> None:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            cluster = Cluster(client)
            async with watching(cluster):
                await Attempt(world, cluster, client, node, disk).hold()
                written = world.berths()
            again, ended = Cluster(client), []
            again.tell = lambda change: ended.append(change.event)
            for berth in written.values():
                again.wrote(BERTH, berth)
            assert len(again.snapshot.berths) == 1
            remove_berth(world)
            async with watching(again):
                assert not again.snapshot.berths
                assert all(again.get(BERTH, name, world.name) is None for name in written)
                assert ClusterEvent("Berth", Action.DELETE) in ended, "pods that wait are told by nobody else"

    asyncio.run(story())
    world.api.patch(kinds.LOCAL_DISK, disk, None, {"spec": {"claimRef": None}})
