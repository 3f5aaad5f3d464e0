"""claim/static and claim/dynamic: from a claim's creation to Bound, one after the other and a hundred at once.

The peer is what Kubernetes does by itself with PersistentVolumes that were made beforehand, one for each disk: that is
how sig-storage-local-static-provisioner works, which takes no part any more when a claim comes. Nothing is locked,
chosen or made there at that moment; ours does all of it. Same API server, volume controller, scheduler and fake nodes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from berth_core.model.resources import LOCAL_DISK, NAMESPACE, NODE, POD, PV, PVC, STORAGE_CLASS
from berth_kube import config
from berth_kube.client import KubeClient, Obj
from berth_kube.informer import Informer
from tests.daemons.controller.world import OBSERVED, Process, install, kubeconfig

from .figures import Figure
from .ground import GI, Ground, say

SPACE, SINGLE, CROWD = "bench-claims", 30, 100
OURS, PEER = "local.berth.dev", "kubernetes.io/no-provisioner"
PEER_NAME = "volumes made beforehand"
PATIENCE = 300.0


def static(ground: Ground) -> list[Figure]:
    """claim/static: volumeBindingMode Immediate."""
    return _measure(ground, "claim/static", waits=False)


def dynamic(ground: Ground) -> list[Figure]:
    """claim/dynamic: WaitForFirstConsumer, claim and pod created together, the stock scheduler chooses the node."""
    return _measure(ground, "claim/dynamic", waits=True)


def _measure(ground: Ground, name: str, waits: bool) -> list[Figure]:
    cluster = ground.cluster
    install(cluster)
    log = ground.folder / "controller.log"
    process = Process(
        kubeconfig(cluster, ground.api, ground.folder / "controller.kubeconfig"), log, "--no-leader-elect"
    )
    try:
        process.works()
        return asyncio.run(_compare(cluster.kubeconfig, name, waits))
    finally:
        process.stop()


async def _compare(admin: Path, name: str, waits: bool) -> list[Figure]:
    figures = []
    async with KubeClient(config.load(str(admin)), connections=16) as client:
        nodes = [one["metadata"]["name"] for one in (await client.list(NODE)).items]
        for count, rounds in ((1, SINGLE), (CROWD, 1)):
            times = {}
            for who, make in ((OURS, _disks), (PEER, _volumes)):
                say(f"{name}: {count} at once, {who}")
                times[who] = sorted(await _bind(client, who, make, nodes, waits, count, rounds))
            for label, share in (("p50", 0.50), ("p99", 0.99)):
                ours, peer = (_percentile(times[who], share) for who in (OURS, PEER))
                figures.append(Figure(name, ours, peer, f"s {label}, {count} at once", PEER_NAME))
    return figures


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def _bind(
    client: KubeClient,
    provisioner: str,
    make: Callable[..., Any],
    nodes: list[str],
    waits: bool,
    count: int,
    rounds: int,
) -> list[float]:
    """Seconds of each claim, ``rounds`` times ``count`` of them; everything is made anew, and gone at the end."""
    name = f"bench-{provisioner.split('.', maxsplit=1)[0]}-{count}-{time.monotonic_ns()}"
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    await client.create(
        STORAGE_CLASS,
        {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Retain"},
    )
    if await client.find(NAMESPACE, SPACE) is None:
        await client.create(NAMESPACE, {"metadata": {"name": SPACE}})
    for index in range(count * rounds):
        await make(client, name, nodes[index % len(nodes)], index)
    await asyncio.sleep(2)  # capacity is published, volumes are Available: what is there before a claim comes
    seconds: list[float] = []
    for number in range(rounds):
        seconds += await _round(client, name, [f"{name}-{number}-{index}" for index in range(count)], waits)
    for resource in (POD, PVC):
        for item in (await client.list(resource, SPACE)).items:
            await client.delete(resource, item["metadata"]["name"], SPACE, grace_seconds=0)
    await client.delete(STORAGE_CLASS, name)
    return seconds


async def _round(client: KubeClient, storage_class: str, names: list[str], waits: bool) -> list[float]:
    """Create these claims at once; the seconds until the watch tells that each is Bound."""
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    done = asyncio.Event()

    def seen(_old: Obj, claim: Obj) -> None:
        if (claim.get("status") or {}).get("phase") == "Bound":
            ended.setdefault(claim["metadata"]["name"], time.perf_counter())
            if len(ended) == len(names):
                done.set()

    async def create(name: str) -> None:
        began[name] = time.perf_counter()
        await client.create(PVC, _claim(name, storage_class))
        if waits:
            await client.create(POD, _pod(name))

    claims = Informer(client, PVC, SPACE)
    watching = asyncio.ensure_future(claims.run())
    await claims.wait_synced()
    claims.on(update=seen)
    try:
        await asyncio.gather(*(create(name) for name in names))
        await asyncio.wait_for(done.wait(), PATIENCE)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return [ended[name] - began[name] for name in names]


async def _disks(client: KubeClient, storage_class: str, node: str, index: int) -> None:
    name = f"{storage_class}-{index}"
    spec = {
        "nodeName": node,
        "identity": {"serial": name, "size": 2 * GI},
        "storageClassName": storage_class,
        "fsType": "ext4",
    }
    body = {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", "metadata": {"name": name}, "spec": spec}
    await client.create(LOCAL_DISK, body)
    status = {"status": {"phase": "Available", "observed": OBSERVED}}
    await client.patch(LOCAL_DISK, name, None, status, subresource="status")


async def _volumes(client: KubeClient, storage_class: str, node: str, index: int) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": str(2 * GI)},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": f"/mnt/disks/{index}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await client.create(PV, {"metadata": {"name": f"{storage_class}-{index}"}, "spec": spec})


def _claim(name: str, storage_class: str) -> dict[str, Any]:
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def _pod(name: str) -> dict[str, Any]:
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
    }
    return {"metadata": {"name": name, "namespace": SPACE}, "spec": spec}
