"""The one way in which schedulers are measured: a workload is laid out, the scheduler waits, the bench lets go.

Everything is there before the scheduler starts (but for pods that arrive later), and it has read everything before it
may lead. So what it takes until the last bind is its work on the pods; its start is a figure of its own. API server,
etcd and the bench run on the same cores; what the first two took meanwhile is told. The controller manager, and kwok
that would say of each pod that it runs, rest meanwhile, but for workloads that need them: they would take a third of
the cores, and measure how fast they are.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from berth_core.model.resources import EVENT, POD
from berth_dev.cluster import Cluster
from berth_dev.kwok import Shape
from berth_kube import config, json_fast
from berth_kube.client import KubeClient

from .ground import Ground, say
from .processes import cpu_of, resident_of
from .sched_checks import check_bound
from .sched_contenders import OURS, STOCK, Contender, hold, let_go, wait_synced
from .sched_site import Binds, Obj, Site, at_rate

SIZES = {"nodes": "BERTH_SCHED_NODES", "pods": "BERTH_SCHED_PODS"}
#: How long a scheduler leads before the first pod arrives.
SETTLE_SECONDS = 2.0
OTHERS = ("kwok", "kube-controller-manager")


async def _nothing(_site: Site, _work: Workload) -> None:
    """Nothing has to be there but nodes."""


async def _no_more(_site: Site, _pods: Sequence[Obj], _work: Workload) -> str:
    """That all pods are bound, and no node has more than it can take, is checked for each workload."""
    return ""


@dataclass(frozen=True)
class Workload:
    """What is laid out and what must come out of it.

    ``pod(number)`` is a pod without its scheduler; ``before`` makes what it needs; ``check`` is given all pods of the
    namespace at the end, raises AssertionError for a wrong result, and returns what is worth saying of a right one.
    ``rate``: pods arrive so many a second, when the scheduler leads already. ``lively``: the controller manager binds
    volumes, and kwok runs pods and ends them.
    """

    name: str
    nodes: int
    pods: int
    pod: Callable[[int], Obj]
    shape: Shape = field(default_factory=lambda: Shape(prefix="bench-", zones=10))
    before: Callable[[Site, Workload], Awaitable[None]] = _nothing
    check: Callable[[Site, Sequence[Obj], Workload], Awaitable[str]] = _no_more
    rate: float = 0.0
    lively: bool = False

    def sized(self) -> Workload:
        """With the sizes that the environment names."""
        asked = {key: int(os.environ[name]) for key, name in SIZES.items() if os.environ.get(name)}
        return replace(self, **asked)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Run:
    """Seconds and megabytes of one scheduler.

    ``cpu``: from letting go of the Lease to the last bind; ``told_cpu``: until the last Event was written, too;
    ``wall``: from its leading to the last bind; ``api`` and ``etcd``: their CPU in that time; ``events``: those that
    were written by the last bind, and all; ``waits``: of each pod, from its arrival to its bind; ``beside``: CPU until
    the last Event of what runs beside the scheduler.
    """

    pods: int
    start_cpu: float
    start_wall: float
    cpu: float
    told_cpu: float
    wall: float
    api: float
    etcd: float
    memory: float
    events: tuple[int, int]
    waits: tuple[float, ...]
    beside: float
    said: str

    @property
    def milliseconds(self) -> float:
        """Of CPU a pod, its Events among it: who writes them later has written them all the same."""
        return self.told_cpu / self.pods * 1e3


def compare(work: Workload) -> tuple[Run, Run]:
    """Runs of berth-scheduler and of the stock scheduler, the latter first, one after the other on one API server."""
    with ground_for(work) as ground:
        stock = measure(ground, work, STOCK)
        return measure(ground, work, OURS), stock


@contextmanager
def ground_for(work: Workload) -> Iterator[Ground]:
    """A cluster with the workload's nodes and no scheduler."""
    with Ground(work.nodes, 0, work.shape) as ground:
        ground.cluster.stop_component("kube-scheduler")
        yield ground


def measure(ground: Ground, work: Workload, contender: Contender, label: str = "") -> Run:
    """One scheduler with the workload. ``label``: what sets it apart from another of that name."""
    return asyncio.run(_measure(ground, work, contender, label or contender.scheduler))


async def _measure(ground: Ground, work: Workload, contender: Contender, label: str) -> Run:
    options: dict[str, Any] = {"connections": 32, "decode": json_fast.decoder(), "timeout": 120.0}
    async with KubeClient(config.load(str(ground.cluster.kubeconfig)), **options) as client:
        namespace = f"{work.name}-{label}"
        site = Site(ground.cluster, client, namespace, contender.scheduler, ground.folder)
        say(f"sched/{work.name}: {work.pods} pods on {work.nodes} nodes for {label}")
        await site.make()
        await work.before(site, work)
        pods = [of_site(site, work.pod(number)) for number in range(work.pods)]
        if not work.rate:
            await site.create(POD, pods)
        await hold(client, contender.lease)
        with resting(ground.cluster, () if work.lively else OTHERS):
            run = await _scheduled(site, work, contender, pods)
        say(f"{run.pods / run.wall:.0f} pods/s, {run.milliseconds:.3f} ms of CPU a pod")
        await site.clear()
        return run


@contextmanager
def resting(cluster: Cluster, names: Sequence[str]) -> Iterator[None]:
    """Those parts of the cluster are away meanwhile."""
    for name in names:
        cluster.stop_component(name)
    try:
        yield
    finally:
        for name in names:
            cluster.start_component(name)


def of_site(site: Site, pod: Obj) -> Obj:
    """The pod in the run's namespace, for its scheduler."""
    meta = {**pod["metadata"], "namespace": site.namespace}
    return {**pod, "metadata": meta, "spec": {"schedulerName": site.scheduler, **pod["spec"]}}


async def _scheduled(site: Site, work: Workload, contender: Contender, pods: list[Obj]) -> Run:
    components = site.cluster.status()["components"]
    api, etcd = (components[name]["pid"] for name in ("kube-apiserver", "etcd"))
    began = time.monotonic()
    with contender.start(site.cluster, site.folder) as running:

        def used() -> float:
            return cpu_of(*running.pids)

        await wait_synced(running, used)
        start_cpu, start_wall, beside = used(), time.monotonic() - began, cpu_of(*running.pids[1:])
        async with Binds(site, work.pods) as binds:
            leads = await let_go(site.client, contender.lease)
            of_api, of_etcd = cpu_of(api), cpu_of(etcd)
            arrived = await _arrivals(site, work, pods)
            wall = await binds.all(running.check) - leads
            cpu, memory = used() - start_cpu, resident_of(*running.pids)
            of_api, of_etcd = cpu_of(api) - of_api, cpu_of(etcd) - of_etcd
        told = await site.count(EVENT)
        told_cpu = await site.told(used) - start_cpu
        beside = cpu_of(*running.pids[1:]) - beside
        events = await site.events()
        found = await site.pods()
    check_bound(found, [pod["metadata"]["name"] for pod in pods], work.shape)
    said = await work.check(site, found, work)
    waits = tuple(sorted(binds.times[name] - at for name, at in arrived.items()))
    return Run(
        pods=work.pods, start_cpu=start_cpu, start_wall=start_wall, cpu=cpu, told_cpu=told_cpu, wall=wall, api=of_api,
        etcd=of_etcd, memory=memory, events=(min(told, events), events), waits=waits,
        beside=beside, said=said,
    )  # fmt: skip


async def _arrivals(site: Site, work: Workload, pods: list[Obj]) -> dict[str, float]:
    """Name -> when its creation was asked for; empty for pods that were there before."""
    if not work.rate:
        return {}
    await asyncio.sleep(SETTLE_SECONDS)
    began = await at_rate(pods, work.rate, lambda pod: site.client.create(POD, pod, read=False))
    return {pod["metadata"]["name"]: at for pod, at in zip(pods, began, strict=True)}
