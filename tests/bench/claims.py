"""claim/static and claim/dynamic: from a claim's creation to Bound, one after the other and a hundred at once.

claim/static beside what Kubernetes does by itself with PersistentVolumes that were made beforehand, one for each disk:
that is how sig-storage-local-static-provisioner works, which takes no part any more when a claim comes. Nothing is
locked, chosen or made there at that moment; berth-controller does all of it.

claim/dynamic beside local-path-provisioner, on real hosts, because it starts a pod there for each volume;
berth-controller leaves the work on the node to the agent, after Bound. So what is compared is how long a claim waits,
not how long a filesystem takes. Each pair shares the API server, the volume controller, the scheduler and the nodes.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from berth_core.model.resources import BERTH, LOCAL_DISK, NAMESPACE, NODE, POD, PV, PVC, STORAGE_CLASS
from berth_dev.cluster import Cluster
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.informer import Informer
from berth_kube.reading import Obj
from tests.daemons.controller.world import OBSERVED, Process, install, kubeconfig
from tests.support.kube import client_for, install_crds

from . import local_path
from .api_writes import written
from .figures import Figure
from .ground import GI, Ground, say

SPACE, CROWD = "bench-claims", 100
STATIC_ROUNDS, DYNAMIC_ROUNDS, HOSTS = 30, 15, 2
PATIENCE = 900.0


class Contender(NamedTuple):
    """Who binds the claims. ``make(client, class, node, index)`` makes what is there before a claim comes."""

    name: str
    provisioner: str
    make: Callable[..., Any] | None


class Result(NamedTuple):
    """Seconds of each claim, in order, and the writes of everybody for all of them."""

    seconds: list[float]
    writes: float


def static(ground: Ground) -> list[Figure]:
    """claim/static: volumeBindingMode Immediate, on fake nodes."""
    beforehand = Contender("volumes made beforehand", "kubernetes.io/no-provisioner", _volumes)
    with ExitStack() as stack:
        _start(stack, ground.cluster, ground.folder)
        return asyncio.run(_compare(ground.cluster.kubeconfig, "claim/static", beforehand, False, STATIC_ROUNDS))


def dynamic(_ground: Ground) -> list[Figure]:
    """claim/dynamic: WaitForFirstConsumer, claim and pod created together, the stock scheduler chooses the host."""
    if os.geteuid() != 0:
        say("claim/dynamic needs real hosts, and these need root: left out")
        return []
    peer = Contender(local_path.NAME, local_path.PROVISIONER, None)
    local_path.program()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-")))
        cluster = Cluster(folder / f"p{folder.name[-6:]}")
        stack.callback(cluster.down)
        cluster.up(hosts=HOSTS)
        install_crds(cluster.kubeconfig)
        _start(stack, cluster, folder)
        stack.enter_context(local_path.running(cluster, folder))
        return asyncio.run(_compare(cluster.kubeconfig, "claim/dynamic", peer, True, DYNAMIC_ROUNDS))


def _start(stack: ExitStack, cluster: Any, folder: Path) -> None:
    """berth-controller, until the stack is left."""
    install(cluster)
    who = kubeconfig(cluster, client_for(cluster.kubeconfig), folder / "controller.kubeconfig")
    process = Process(who, folder / "controller.log", "--no-leader-elect")
    stack.callback(process.stop)
    process.works()


async def _compare(admin: Path, name: str, peer: Contender, waits: bool, rounds: int) -> list[Figure]:
    ours = Contender("berth-controller", "local.berth.dev", _disks)
    figures = []
    async with KubeClient(config.load(str(admin)), connections=16) as client:
        nodes = [one["metadata"]["name"] for one in (await client.list(NODE)).items]
        for count, repeated in ((1, rounds), (CROWD, 1)):
            results = []
            for who in (ours, peer):
                say(f"{name}: {count} at once, {who.name}")
                results.append(await _bind(client, who, nodes, waits, count, repeated))
            for label, share in (("p50", 0.50), ("p99", 0.99)):
                found = [_percentile(one.seconds, share) for one in results]
                figures.append(Figure(name, found[0], found[1], f"s {label}, {count} at once", peer.name))
            found = [one.writes / len(one.seconds) for one in results]
            unit = f"writes of everybody a claim, {count} at once"
            figures.append(Figure(name, round(found[0], 1), round(found[1], 1), unit, peer.name))
    return figures


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def _bind(client: KubeClient, who: Contender, nodes: list[str], waits: bool, count: int, rounds: int) -> Result:
    """``rounds`` times ``count`` claims; everything is made anew, and gone at the end."""
    name = f"bench-{who.provisioner.split('.', maxsplit=1)[0].split('/')[0]}-{count}-{time.monotonic_ns()}"
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    await client.create(
        STORAGE_CLASS,
        {
            "metadata": {"name": name},
            "provisioner": who.provisioner,
            "volumeBindingMode": mode,
            "reclaimPolicy": "Retain",
        },
    )
    if await client.find(NAMESPACE, SPACE) is None:
        await client.create(NAMESPACE, {"metadata": {"name": SPACE}})
    if who.make is not None:
        for index in range(count * rounds):
            await who.make(client, name, nodes[index % len(nodes)], index)
    await asyncio.sleep(2)  # capacity is published, volumes are Available: what is there before a claim comes
    seconds: list[float] = []
    before = await _writes(client)
    for number in range(rounds):
        seconds += await _round(client, name, [f"{name}-{number}-{index}" for index in range(count)], waits)
    writes = await _writes(client) - before
    await _clear(client)
    await client.delete(STORAGE_CLASS, name)
    return Result(sorted(seconds), writes)


async def _writes(client: KubeClient) -> float:
    """Writes that the API server has carried out so far, but for what goes on without claims."""
    return written((await client.raw("/metrics")).decode())


async def _clear(client: KubeClient) -> None:
    """What nobody works on any more cannot be in the way of who is measured next."""
    for resource in (POD, PVC):
        for item in (await client.list(resource, SPACE)).items:
            await client.delete(resource, item["metadata"]["name"], SPACE, grace_seconds=0)
    end = time.monotonic() + PATIENCE
    while [each for resource in (POD, PVC, BERTH) for each in (await client.list(resource, SPACE)).items]:
        if time.monotonic() > end:
            raise RuntimeError("pods, claims or berths of the bench do not go")
        await asyncio.sleep(0.5)


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
    """For a scheduler alone: a host turns away what is not for its system, so no container competes with the claims."""
    spec = {
        "os": {"name": "windows"},
        "containers": [{"name": "main", "image": "none"}],
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
    }
    return {"metadata": {"name": name, "namespace": SPACE}, "spec": spec}
