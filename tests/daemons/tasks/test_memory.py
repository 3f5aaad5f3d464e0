"""How many bytes a Task costs that is known to the backend: one that waits, one that runs, and one that has ended.

The informer, the manager and the backend are the daemon's; the pages of the list are made here, as the API server
writes them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tracemalloc
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from berth_core.model.resources import TASK
from berth_core.tasks.pods import manifest
from berth_core.tasks.policies import Policies
from berth_core.tasks.queues import Queue
from berth_core.tasks.task import read_task
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.exchange import Endpoint
from berth_kube.informer import Informer
from berth_kube.queue import Reconciler
from berth_kube.reading import Listing
from berth_tasks.backend import KubernetesTaskSchedulerBackend
from berth_tasks.batches import Batches
from berth_tasks.daemon import task_at
from berth_tasks.kept import Kept
from berth_tasks.kubernetes_client import KubernetesClient
from berth_tasks.lifecycle_manager import TaskPodsLifecycleManager
from berth_tasks.metrics import Metrics
from berth_tasks.nodes import Nodes
from berth_tasks.quotas import Quotas
from berth_tasks.store import PodSnapshotStore
from berth_tasks.usage import Usage
from berth_tasks.watch_source import read

#: What so many more take than so few is what these more cost; nodes, templates and the like are there for the few.
FEW, MANY = 100, 600
PATIENCE = 120.0
NOBODY = Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default")
WAITS = {"state": "Submitted", "tries": 0, "failures": 0, "reason": "NeverFits", "observedGeneration": 1}
WAITS["message"] = "asks for cpu 100m, and TaskQueue shut may have 0"
RUNS = {"state": "Running", "tries": 0, "failures": 0, "observedGeneration": 1}
ENDED = {
    "state": "Failed",
    "tries": 1,
    "failures": 1,
    "reason": "Error",
    "exitCode": 3,
    "observedGeneration": 1,
    "message": "try 1 failed with exit code 3",
    "startedAt": "2026-11-28T12:00:00Z",
    "node": "worker-12",
    "finishedAt": "2026-11-28T12:00:09Z",
    "log": "line\n" * 400,
}


def text(number: int, status: dict[str, Any], own: bool) -> bytes:
    """A Task as the API server writes it. ``own``: its template differs from all others in an argument."""
    shard = f"--shard={number}" if own else "--all"
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    container = {"name": "main", "image": "registry.example.org/team/app:1.2.3", "args": [shard, "--verbose"]}
    container |= {"env": [{"name": "STAGE", "value": "night"}], "resources": resources}
    template = {"metadata": {"labels": {"app": "job"}}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    meta = {
        "name": f"nightly-{number:05}",
        "namespace": "jobs",
        "uid": str(uuid.UUID(int=number << 64 | number)),
        "resourceVersion": str(1_000_000 + number),
        "generation": 1,
        "creationTimestamp": f"2026-11-28T11:{number // 1200:02}:{number // 20 % 60:02}Z",
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:queue": {}}}}],
    }
    spec = {"queue": "shut", "priority": 0, "retries": 0, "template": template}
    return json.dumps({"metadata": meta, "spec": spec, "status": status}).encode()


class Lists(KubeClient):
    """It answers lists with these Tasks, page by page; nobody is asked, and the watch of them never tells anything."""

    def __init__(self, texts: list[bytes]) -> None:
        super().__init__(NOBODY)
        self.texts = texts

    async def page(self, *_args: Any, limit: int = 500, token: str = "", **_options: Any) -> Listing:
        begin = int(token or 0)
        items = [json.loads(one) for one in self.texts[begin : begin + limit]]
        return Listing(items, "2000000", str(begin + limit) if begin + limit < len(self.texts) else "")

    def watch(self, *_args: Any, **_options: Any) -> Any:
        return Silence()


class Silence:
    """A watch that tells nothing."""

    async def __aenter__(self) -> Silence:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        pass

    def __aiter__(self) -> Silence:
        return self

    async def __anext__(self) -> Any:
        await asyncio.Event().wait()


class World:
    """The parts of the daemon that know Tasks, as daemon.py puts them together. No node is there."""

    def __init__(self, client: KubeClient) -> None:
        room = asyncio.Event()
        nodes, quotas, pods = Nodes(client, room.set), Quotas(client, room.set), KubernetesClient(client, 0)
        queues = {("jobs", "shut"): Queue("shut", ceiling={"cpu": 0})}
        usage = Usage(client, 0.1, 60, 15)
        self.tasks = Informer(client, TASK, packing=Kept())
        self.backend = KubernetesTaskSchedulerBackend(pods, nodes, lambda: queues, quotas, Policies(), usage, {})
        self.backend.tasks.at = partial(task_at, self.tasks)
        self.store = PodSnapshotStore(self.backend.allocations.follow, self.backend.tasks.at)
        batches = Batches(client, self.backend)
        metrics = Metrics(CollectorRegistry())
        self.manager = TaskPodsLifecycleManager(
            *(client, pods, self.tasks, batches, self.store, self.backend, metrics, room, 3600.0, 3600.0)
        )
        self.visits: Reconciler[tuple[str, str]] = Reconciler("task", self.manager.reconcile)
        self.manager.listen(self.visits)
        self.store.subscribe("tasks", self.manager.on_snapshot)

    def knows(self, count: int, waits: bool) -> bool:
        """Whether each has had its turn, and was refused a start where it waits."""
        told = self.backend.waiting_by_reason().get(("jobs", "shut", "NeverFits"), 0)
        all_told = self.backend.tasks.by_state().total() == count
        wanting = count if waits else 0
        return all_told and not len(self.visits.queue) and told == wanting == self.backend.waiting

    async def works(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for work in (self.tasks, self.visits, self.store):
                group.create_task(work.run())
            group.create_task(self.manager.rounds())


async def taken(texts: list[bytes], pods: bool, waits: bool) -> int:
    """Bytes, when each Task has had its turn, and has a pod that runs or was refused a start."""
    async with Lists(texts) as client:
        world = World(client)
        gc.collect()
        tracemalloc.start()
        working = asyncio.create_task(world.works())
        try:
            await world.tasks.wait_synced()
            if pods:
                world.store.replace(map(world.store.shared, filter(None, map(read, running(texts)))), 3_000_000)
            async with asyncio.timeout(PATIENCE):
                while not world.knows(len(texts), waits):
                    await asyncio.sleep(0.01)
            world.backend.offered()  # as a round asks, or who reads the metrics
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


def running(texts: list[bytes]) -> Iterator[dict[str, Any]]:
    """A pod of each, as the API server has it."""
    for number, one in enumerate(texts):
        made = manifest(read_task(json.loads(one)), 1)
        made["metadata"] |= {"uid": str(uuid.UUID(int=1 << 127 | number)), "resourceVersion": str(2_000_000 + number)}
        made["spec"]["nodeName"] = f"worker-{number % 100}"
        made["status"] = {"phase": "Running", "startTime": f"2026-11-28T12:{number // 1200:02}:{number // 20 % 60:02}Z"}
        found: dict[str, Any] = json.loads(json.dumps(made))
        yield found


@pytest.mark.parametrize(
    ("status", "own", "most"),
    [(WAITS, False, 520), (WAITS, True, 780), (RUNS, False, 900), (RUNS, True, 1180), (ENDED, False, 460)],
    ids=["waits", "waits-own", "runs", "runs-own", "ended"],
)
def test_what_a_known_task_costs(status: dict[str, Any], own: bool, most: int) -> None:
    """Of those that run, with all that is known of the pod: as many as there is room for in the cluster."""
    texts = [text(number, status, own) for number in range(MANY)]
    few, many = (asyncio.run(taken(some, status is RUNS, status is WAITS)) for some in (texts[:FEW], texts))
    assert (many - few) / (MANY - FEW) < most, "bytes a Task"


def test_the_daemon_takes_no_part_of_the_scheduler_into_its_memory() -> None:
    """Numpy is a third of a second at its start, and ten MB."""
    told = "import sys, berth_tasks.__main__; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    modules = set(found.stdout.split())
    assert "berth_tasks.daemon" in modules
    assert not modules & {"numpy", "berth_core.cluster"}
