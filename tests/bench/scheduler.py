"""sched/plain, sched/rate, sched/memory: berth-scheduler beside kube-scheduler, on one API server, in one run.

All pods are there before the scheduler is started; it is watched until each pod is bound. CPU is that of its process
from its start to the last bind, memory what it then holds. API server, kwok and this bench run on the same cores.
BERTH_SCHED_NODES and BERTH_SCHED_PODS make it smaller than 5,000 nodes and 10,000 pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources
from tests.support.kube import client_for

from .figures import Figure
from .ground import Ground, say

NODES = int(os.environ.get("BERTH_SCHED_NODES", "5000"))
PODS = int(os.environ.get("BERTH_SCHED_PODS", "10000"))
STOCK, OURS = "default-scheduler", "berth-scheduler"
PATIENCE = 1800.0
#: Pods that a fake node takes.
ROOM = 110


class Run(NamedTuple):
    """CPU and wall seconds from the scheduler's start to the last bind, wall seconds from the first, megabytes."""

    cpu: float
    wall: float
    memory: float
    events: int


def plain(ground: Ground) -> list[Figure]:
    """sched/plain: milliseconds of scheduler CPU a pod; pods per CPU second beside it."""
    ours, stock = _sides(ground)
    notes = (
        f"pods per scheduler CPU second: ours {PODS / ours.cpu:.0f}, kube-scheduler {PODS / stock.cpu:.0f}",
        f"{NODES} nodes, {PODS} pods, all bound; Scheduled events written: ours {ours.events}, stock {stock.events}",
    )
    return [Figure("sched/plain", ours.cpu / PODS * 1e3, stock.cpu / PODS * 1e3, "ms CPU", "kube-scheduler", notes)]


def rate(ground: Ground) -> list[Figure]:
    """sched/rate: milliseconds a pod from the first bind to the last."""
    ours, stock = _sides(ground)
    notes = (f"pods per second: ours {PODS / ours.wall:.0f}, kube-scheduler {PODS / stock.wall:.0f}",)
    return [Figure("sched/rate", ours.wall / PODS * 1e3, stock.wall / PODS * 1e3, "ms", "kube-scheduler", notes)]


def memory(ground: Ground) -> list[Figure]:
    """sched/memory: megabytes resident after the last bind."""
    ours, stock = _sides(ground)
    return [Figure("sched/memory", ours.memory, stock.memory, "MB", "kube-scheduler")]


@lru_cache(maxsize=1)
def _sides(_ground: Ground) -> tuple[Run, Run]:
    with Ground(NODES, 0) as ground:
        ground.cluster.stop_component("kube-scheduler")
        return _measured(ground, OURS, _ours), _measured(ground, STOCK, _stock)


@contextlib.contextmanager
def _stock(ground: Ground) -> Iterator[int]:
    cluster = ground.cluster
    cluster.start_component("kube-scheduler")
    try:
        yield cluster.status()["components"]["kube-scheduler"]["pid"]
    finally:
        cluster.stop_component("kube-scheduler")


@contextlib.contextmanager
def _ours(ground: Ground) -> Iterator[int]:
    flags = (
        "--port",
        "0",
        "--no-leader-elect",
        "--log-level",
        "warning",
        "--kubeconfig",
        str(ground.cluster.kubeconfig),
    )
    with (ground.folder / "scheduler.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "berth_scheduler", "run", *flags], stdout=log, stderr=log)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


def _measured(ground: Ground, name: str, scheduler: Callable[[Ground], AbstractContextManager[int]]) -> Run:
    say(f"{PODS} pods on {NODES} nodes for {name}")
    namespace = f"for-{name}"
    _create_pods(ground, namespace, name)
    with scheduler(ground) as pid:
        first, last, nodes = asyncio.run(_until_bound(ground.cluster.kubeconfig, namespace))
        run = Run(_cpu(pid), last - first, _resident(pid), 0)
        assert len(nodes) == PODS
        assert max(Counter(nodes.values()).values()) <= ROOM
        events = _settled(lambda: len(ground.api.list(resources.EVENT, namespace)))
    ground.cluster.kubectl("delete", "--raw", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    _settled(lambda: len(ground.api.list(resources.POD, namespace)), wanted=0)
    return run._replace(events=events)


def _create_pods(ground: Ground, namespace: str, scheduler: str) -> None:
    ground.api.create(resources.NAMESPACE, {"metadata": {"name": namespace}})
    _settled(lambda: ground.api.find(resources.SERVICE_ACCOUNT, "default", namespace) is not None, wanted=True)
    container = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    spec = {"schedulerName": scheduler, "containers": [container], "automountServiceAccountToken": False}

    def create(api: ApiClient, numbers: range) -> None:
        for number in numbers:
            meta = {"name": f"pod-{number}", "namespace": namespace, "labels": {"app": "plain"}}
            api.create(resources.POD, {"metadata": meta, "spec": spec})

    clients = [client_for(ground.cluster.kubeconfig) for _share in range(4)]  # a client belongs to one thread
    with ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(create, clients, [range(start, PODS, 4) for start in range(4)]))


async def _until_bound(kubeconfig: Path, namespace: str) -> tuple[float, float, dict[str, str]]:
    """When the first pod was seen bound, when the last one, and each pod's node."""
    from berth_core.model.resources import POD
    from berth_kube import config
    from berth_kube.client import KubeClient
    from berth_kube.informer import Informer

    nodes: dict[str, str] = {}
    times: list[float] = []
    done = asyncio.Event()

    def seen(pod: dict[str, Any]) -> None:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if node and name not in nodes:
            nodes[name] = node
            times.append(time.monotonic())
            if len(nodes) == PODS:
                done.set()

    def slim(pod: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": pod["metadata"], "spec": {"nodeName": pod["spec"].get("nodeName")}}

    async with KubeClient(config.load(str(kubeconfig))) as client:
        pods = Informer(client, POD, namespace, transform=slim)
        pods.on(seen, lambda _old, new: seen(new))
        watching = asyncio.ensure_future(pods.run())
        try:
            await asyncio.wait_for(done.wait(), PATIENCE)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return times[0], times[-1], nodes


def _settled(ask: Callable[[], Any], wanted: Any = None) -> Any:
    """Ask until the answer is the wanted one; without one, until it stays the same for five seconds."""
    until, before = time.monotonic() + PATIENCE, object()
    while time.monotonic() < until:
        now = ask()
        if now == wanted if wanted is not None else now == before:
            return now
        before = now
        time.sleep(0.5 if wanted is not None else 5.0)
    raise SystemExit(f"sched/: expected {wanted}, still {before} after {PATIENCE:.0f} s")


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
