"""The watch of pods is behind that of claims: what a pod needs together is found together all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_controller.binder import Binder
from berth_controller.caches import Caches
from berth_controller.reports import Metrics, Reports
from berth_controller.wakes import ClaimKey, Wakes
from berth_core.app.claims import SELECTED_NODE
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.events import Recorder


def chosen(world: Any, node: str) -> list[ClaimKey]:
    """A pod with two claims, and a scheduler has chosen that node for both."""
    keys = []
    for name in ("data", "log"):
        world.claim(name, "2Gi")
    world.pod("app", "data", "log", schedulerName="nobody")
    for name in ("data", "log"):
        claim = world.api.patch(kinds.PVC, name, world.name, {"metadata": {"annotations": {SELECTED_NODE: node}}})
        keys.append(ClaimKey(world.name, claim["metadata"]["uid"]))
    return keys


@pytest.mark.parametrize("room", [1, 2])
def test_a_pod_that_the_watch_has_not_told_of_is_asked_for(plane: Any, world: Any, nodes: list[str], room: int) -> None:
    world.storage_class(waits=True)
    for index in range(room):
        world.disk(nodes[0], index)
    keys = chosen(world, nodes[0])

    async def story() -> None:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            caches = Caches(client, "berth-system")
            told = [one for one in caches.all() if one is not caches.pods]
            watching = [asyncio.ensure_future(one.run()) for one in told]
            try:
                await asyncio.wait_for(asyncio.gather(*(one.wait_synced() for one in told)), 120)
                reports = Reports(client, Recorder(client, "test", "test"), Metrics(CollectorRegistry()))
                binder = Binder(client, caches, reports, Wakes(print), "/var/lib/berth/disks", 60.0)
                for key in keys:
                    await binder.reconcile(key)
            finally:
                for task in watching:
                    task.cancel()
                await asyncio.gather(*watching, return_exceptions=True)

    asyncio.run(story())
    assert len(world.locks()) == len(world.berths()) == (2 if room == 2 else 0)
    for name in ("data", "log"):
        annotations = world.get_claim(name)["metadata"].get("annotations") or {}
        assert (SELECTED_NODE in annotations) == (room == 2), "the scheduler chooses anew, for both"
