"""A resync that finds what no change had told is counted: each is a wake-up that is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry

from berth_controller.binder import Binder
from berth_controller.caches import Caches
from berth_controller.reports import Metrics, Reports
from berth_controller.wakes import ClaimKey, Wakes
from berth_core.errors import BerthError
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.events import Recorder
from berth_kube.exchange import Endpoint
from berth_kube.store import key_of
from tests.core.app.claim_world import claim, disk, node, storage_class

KEY = ClaimKey("default", "c-1")


def begin_and_change(binder: Binder) -> Callable[[ClaimKey], None]:
    """The timer of an earlier wait begins the visit, and the watch tells of a change before it has looked."""
    begin = binder.rescues.begin

    def begun(key: ClaimKey) -> None:
        begin(key)
        binder.rescues.asked(key)

    return begun


async def rescues(told: str) -> float:
    """What is counted when a claim that waits finds a disk at its next visit; ``told``: who has asked for that."""
    nobody = Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default")
    async with KubeClient(nobody, timeout=0.2) as client:
        caches, registry = Caches(client, "berth-system"), CollectorRegistry()
        for informer, item in ((caches.classes, storage_class()), (caches.nodes, node()), (caches.claims, claim())):
            informer.store.put(key_of(item), item)
        wakes = Wakes(print)
        reports = Reports(client, Recorder(client, "berth.dev/controller", "test"), Metrics(registry))
        binder = Binder(client, caches, reports, wakes, "/mnt", 3600.0)
        if told != "first":
            assert await binder.reconcile(KEY) == 3600.0  # no disk: it rests
        caches.disks.store.put(key_of(disk()), disk())
        if told == "change":
            binder.rescues.asked(KEY)
        elif told == "class":
            wakes.wake(["fast"], soon=False)
        begins = mock.patch.object(binder.rescues, "begin", begin_and_change(binder))
        # the Berth cannot be written, as nobody listens
        with begins if told == "meanwhile" else nullcontext(), pytest.raises(BerthError):
            await binder.reconcile(KEY)
        if told == "nobody":
            with pytest.raises(BerthError):  # the same once more: a visit that failed did not rest
                await binder.reconcile(KEY)
        return registry.get_sample_value("berth_controller_resync_rescues_total") or 0.0


@pytest.mark.parametrize(
    ("told", "count"), [("nobody", 1.0), ("change", 0.0), ("class", 0.0), ("meanwhile", 0.0), ("first", 0.0)]
)
def test_a_visit_that_nobody_asked_for_and_that_finds_a_disk_is_a_rescue(told: str, count: float) -> None:
    assert asyncio.run(rescues(told)) == count
