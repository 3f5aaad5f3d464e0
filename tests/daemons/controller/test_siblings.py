"""The claims of one pod, in the moment in which one of them has its disk and no watch has told of it yet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from berth_controller.binder import Binder
from berth_controller.caches import Caches
from berth_controller.reports import Metrics, Reports
from berth_controller.wakes import ClaimKey, Wakes
from berth_core.app import claims
from berth_core.errors import UnschedulableError
from berth_core.model.volume import ClaimInfo
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.events import Recorder
from berth_kube.exchange import Endpoint
from berth_kube.informer import Informer
from berth_kube.store import key_of
from tests.core.app.claim_world import claim, disk, node, storage_class

LOG, DATA = ClaimKey("default", "c-1"), ClaimKey("default", "c-2")
POD = {"metadata": {"name": "app", "namespace": "default", "uid": "p-1"}, "claims": ["log", "data"], "pending": True}


def put(informer: Informer, *items: dict[str, Any]) -> None:
    """As its watch would have told."""
    for item in items:
        informer.store.put(key_of(item), item)


def binder(client: KubeClient) -> Binder:
    """Two claims of one pod for node n1; one of its two disks is locked for the claim log, says the watch of disks."""
    caches = Caches(client, "berth-system")
    put(caches.classes, storage_class(waits=True))
    put(caches.nodes, node("n1"))
    put(caches.claims, claim("log", "c-1", node="n1"), claim("data", "c-2", node="n1"))
    put(caches.pods, POD)
    holder = claims.holder(ClaimInfo.from_object(claim("log", "c-1")), "b-1")
    put(caches.disks, disk("n1-d0", claimRef=holder.reference("b-1")), disk("n1-d1"))
    reports = Reports(client, Recorder(client, "berth.dev/controller", "test"), Metrics(CollectorRegistry()))
    return Binder(client, caches, reports, Wakes(print), "/mnt", 300.0)


async def chosen_for_data(known: bool) -> str:
    """The disk of the claim data; ``known``: that log was given its disk in this process."""
    nobody = Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default")
    async with KubeClient(nobody) as client:
        made = binder(client)
        if known:
            made._chosen[LOG] = "n1-d0"
        asked = made._asked(made._caches.claim_by_uid("default", "c-2") or {})
        assert asked is not None
        return made._best(DATA, asked).name


def test_a_sibling_that_has_its_disk_is_not_asked_for_another_one() -> None:
    assert asyncio.run(chosen_for_data(known=True)) == "n1-d1"


def test_a_sibling_without_a_disk_needs_one_too() -> None:
    with pytest.raises(UnschedulableError, match="for all claims of the pod together"):
        asyncio.run(chosen_for_data(known=False))
