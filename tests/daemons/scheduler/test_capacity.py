"""Claims of a CSI class on the real API server: where the driver has reported no room, the pod waits until it does.

No driver runs: what its provisioner would do, the test does.
"""

from __future__ import annotations

import asyncio

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_kube import config
from berth_kube.client import KubeClient
from berth_scheduler.cluster import Cluster
from tests.daemons.scheduler.world import until
from tests.support.watching import watching

pytestmark = pytest.mark.slow
SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture
def driver(world):
    """A driver of the world's name that reports its capacity, and a class of it."""
    name = f"csi.{world.name}"
    world.api.create(kinds.CSI_DRIVER, {"metadata": {"name": name}, "spec": {"storageCapacity": True}})
    waits = {"provisioner": name, "volumeBindingMode": "WaitForFirstConsumer"}
    world.api.create(kinds.STORAGE_CLASS, {"metadata": {"name": world.name}, **waits})
    yield name
    world.delete(kinds.CSI_DRIVER, name)


def report(world, node, size):
    """What is left for the class on a node."""
    body = {
        "metadata": {"name": node, "namespace": world.name},
        "storageClassName": world.name,
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node}},
        "capacity": size,
    }
    world.api.create(kinds.CSI_STORAGE_CAPACITY, body)


def provision(world, driver, claim, node):
    """As the provisioner does for a claim whose node was chosen."""
    until(lambda: _selected(world, claim) == node, lambda: world.story(claim))
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    meta = world.get_claim(claim)["metadata"]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": world.name,
        "csi": {"driver": driver, "volumeHandle": meta["uid"]},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": {"namespace": world.name, "name": claim, "uid": meta["uid"]},
    }
    labels = {"berth.dev/namespace": world.name}
    world.api.create(kinds.PV, {"metadata": {"name": f"{world.name}-{claim}", "labels": labels}, "spec": spec})


def _selected(world, claim):
    return (world.get_claim(claim)["metadata"].get("annotations") or {}).get(SELECTED)


def test_a_pod_waits_until_its_claims_driver_reports_room(world, start, driver):
    """kube-scheduler says the same of the same pod. Room that is too small, or of another node, helps nobody."""
    first, second = world.node("0"), world.node("1")
    start()
    for name, scheduler in (("ours", world.name), ("theirs", "default-scheduler")):
        world.claim(name)
        world.pod(name, name, schedulerName=scheduler)
    sentence = "2 node(s) did not have enough free storage"
    world.refused("ours", sentence)
    world.refused("theirs", sentence)
    report(world, first, "1Mi")
    assert _selected(world, "ours") is None
    report(world, second, "1Gi")
    for name in ("ours", "theirs"):
        provision(world, driver, name, second)
    assert world.placed("ours", "theirs") == [second, second]


def test_more_room_and_a_driver_that_reports_no_more(world, start, driver):
    node = world.node()
    report(world, node, "1Mi")
    start()
    world.claim("data")
    world.pod("first", "data")
    world.refused("first", "1 node(s) did not have enough free storage")
    world.api.patch(kinds.CSI_STORAGE_CAPACITY, node, world.name, {"capacity": "9Gi"})
    provision(world, driver, "data", node)
    assert world.placed("first") == [node]
    world.api.patch(kinds.CSI_STORAGE_CAPACITY, node, world.name, {"capacity": "0"})
    world.claim("more")
    world.pod("second", "more")
    world.refused("second", "1 node(s) did not have enough free storage")
    world.api.patch(kinds.CSI_DRIVER, driver, None, {"spec": {"storageCapacity": False}})
    provision(world, driver, "more", node)
    assert world.placed("second") == [node]


def test_what_our_own_controller_reports_is_not_kept(world, plane, driver):
    """There is one for each node and class, and each lock of a disk changes one: LocalDiskFit knows better."""
    node = world.node()
    report(world, node, "1Gi")
    ours = {"name": "ours", "namespace": world.name, "labels": {"app.kubernetes.io/managed-by": "berth-controller"}}
    world.api.create(kinds.CSI_STORAGE_CAPACITY, {"metadata": ours, "storageClassName": world.name, "capacity": "1Gi"})

    async def story():
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            cluster = Cluster(client)
            async with watching(cluster):
                kept = [one["metadata"] for one in cluster.all(kinds.CSI_STORAGE_CAPACITY)]
                return [meta["name"] for meta in kept if meta["namespace"] == world.name]

    assert asyncio.run(story()) == [node]
