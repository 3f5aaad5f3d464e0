"""What a backend that knows many tasks takes, and how soon it acts. Without a peer: Jobs have no such process.

tasks/memory: resident bytes a task known and not yet begun, above the same process without these, for elements of a
TaskBatch and for single Tasks, of which it has had a few before: what it needs to work at all is no Task's. They wait
until others of their queue have ended (``single``), or can never start, which is written into each (``never``).
tasks/in-flight: the pods of BERTH_BENCH_TASKS tasks run on fake nodes. ``recovery``: the backend is killed, and begun
anew, as the container of one pod is; the seconds from then until the pod of a task that was submitted meanwhile is
there. ``final``: pods end one after the other; seconds until the state of the task is final, by one watch. ``memory``:
resident bytes a task with its pod, above the same process with a few of them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from berth_core.model.resources import POD, TASK, TASK_BATCH, TASK_QUEUE
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.informer import Informer
from berth_kube.reading import Obj
from tests.dev.hosts_help import eventually

from .figures import Figure, median
from .ground import Ground, say
from .processes import resident_of
from .task_rate import FINAL, NODES, TASKS, Backend, add_nodes, backend, clients, create, namespace, template

#: Elements of the batch, and single Tasks, whose memory is measured.
ELEMENTS, SINGLE = int(os.environ.get("BERTH_BENCH_KNOWN", "50000")), TASKS
FEW = 500
#: Pods that end one by one, and seconds between them.
ENDS, PAUSE = 400, 0.05
ROUNDS = 3
#: Seconds in which the daemon has read what there is, and the memory of that is given back.
SETTLES = 20.0
PATIENCE = 1800.0
#: The label of a pod that says whose it is.
TASK_LABEL = "berth.dev/task"


def memory(_ground: Ground) -> list[Figure]:
    """tasks/memory: see above."""
    with Ground(1, 0) as ground:
        cluster = ground.cluster
        api, *makers = clients(cluster)
        with backend(cluster, ground.folder) as daemon:
            few, space, never = (namespace(cluster, api, each) for each in ("few", "memory", "never"))
            for where, most in ((few, "100m"), (space, "100m"), (never, "0")):
                api.create(TASK_QUEUE, {**_named(TASK_QUEUE, "full", where), "spec": {"ceiling": {"cpu": most}}})
            create(makers, few, TASK, lambda _index: _task(queue="full"), FEW)
            base = _settled(daemon)
            batch = {"queue": "full", "count": ELEMENTS, "template": template()}
            api.create(TASK_BATCH, {**_named(TASK_BATCH, "many", space), "spec": batch})
            of_batch = _settled(daemon)
            create(makers, space, TASK, lambda _index: _task(queue="full"), SINGLE)
            single = _settled(daemon)
            create(makers, never, TASK, lambda _index: _task(queue="full"), SINGLE)
            of_never = _settled(daemon)
    say(f"tasks/memory: {base:.1f} MB, {of_batch:.1f} with the batch, {single:.1f} and {of_never:.1f} with the Tasks")
    batch_note = (f"{ELEMENTS} elements of one TaskBatch that wait; the process without them has {base:.0f} MB",)
    single_note = (f"{SINGLE} Tasks that wait until others of their queue have ended",)
    never_note = (f"{SINGLE} Tasks more, of which each is told why it never fits",)
    return [
        Figure("tasks/memory/batch", 1e6 * (of_batch - base) / ELEMENTS, None, "bytes/task", None, batch_note),
        Figure("tasks/memory/single", 1e6 * (single - of_batch) / SINGLE, None, "bytes/task", None, single_note),
        Figure("tasks/memory/never", 1e6 * (of_never - single) / SINGLE, None, "bytes/task", None, never_note),
    ]


def _settled(daemon: Backend) -> float:
    time.sleep(SETTLES)
    return resident_of(daemon.process.pid)


def in_flight(_ground: Ground) -> list[Figure]:
    """tasks/in-flight: see above."""
    with Ground(1, 0) as ground:
        cluster = ground.cluster
        add_nodes(cluster)
        api, *makers = clients(cluster)
        few, space = (namespace(cluster, api, each) for each in ("few", "in-flight"))
        with backend(cluster, ground.folder, elect=True) as daemon:
            say(f"tasks/in-flight: {TASKS} tasks on {NODES} nodes")
            _run(api, makers, few, FEW)
            base = _settled(daemon)
            _run(api, makers, space, TASKS)
            memory = _settled(daemon)
            ends = asyncio.run(_ended(ground, space, makers[0]))
            daemon.process.kill()
            daemon.process.wait()
        recovered = [_recovers(ground, api, space, number) for number in range(ROUNDS)]
    left = FEW + TASKS - ENDS
    known = (f"{TASKS} tasks whose pods run; the process with {FEW} has {base:.0f} MB",)
    told = ", ".join(f"{seconds:.2f}" for seconds in recovered)
    return [
        Figure("tasks/in-flight/recovery", median(recovered), None, "s", None, (f"{left} in flight; {told} s",)),
        Figure("tasks/in-flight/memory", 1e6 * (memory - base) / TASKS, None, "bytes/task", None, known),
        Figure("tasks/in-flight/final", ends[int(0.99 * len(ends))], None, "s at p99", None, _spread(ends)),
    ]


def _run(api: ApiClient, makers: list[ApiClient], space: str, count: int) -> None:
    create(makers, space, TASK, lambda _index: _task(), count)
    eventually(lambda: _running(api, space) >= count, PATIENCE, f"{count} pods run")


def _spread(ends: list[float]) -> tuple[str, ...]:
    return (f"{len(ends)} pods that end, {1 / PAUSE:.0f} a second: median {median(ends):.3f} s, most {ends[-1]:.3f} s",)


async def _ended(ground: Ground, space: str, api: ApiClient) -> list[float]:
    """Seconds from the end of each pod to the final state of its task, in rising order."""
    pods = {pod["metadata"]["labels"][TASK_LABEL]: pod["metadata"]["name"] for pod in api.list(POD, space)[:ENDS]}
    final: dict[str, float] = {}

    def told(_old: Obj, task: Obj) -> None:
        if (task.get("status") or {}).get("state") in FINAL:
            final.setdefault(task["metadata"]["name"], time.monotonic())

    async with KubeClient(config.load(str(ground.cluster.kubeconfig))) as client:
        tasks = Informer(client, TASK, space)
        tasks.on(update=told)
        watching = asyncio.ensure_future(tasks.run())
        try:
            await tasks.wait_synced()
            began = await asyncio.to_thread(_end, api, space, pods)
            await _all(lambda: pods.keys() <= final.keys())
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return sorted(final[task] - at for task, at in began.items())


def _end(api: ApiClient, space: str, pods: dict[str, str]) -> dict[str, float]:
    """When the API server had taken each end, by task."""
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    status = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
    told, began = {"metadata": {}, "status": {"phase": "Succeeded", "containerStatuses": [status]}}, {}
    for task, pod in pods.items():
        api.patch(POD, pod, space, told, "status")
        began[task] = time.monotonic()
        time.sleep(PAUSE)
    return began


async def _all(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0.1)


def _recovers(ground: Ground, api: ApiClient, space: str, number: int) -> float:
    """Seconds from the start of the backend until it creates the pod of a Task that was submitted before that."""
    name = f"after{number}"
    api.create(TASK, {**_named(TASK, name, space), **_task()})
    began = time.monotonic()
    with backend(ground.cluster, ground.folder, wait=False, elect=True) as daemon:
        while not api.list(POD, space, labels=f"{TASK_LABEL}={name}"):
            if time.monotonic() > began + PATIENCE:
                raise SystemExit(f"tasks/in-flight: {name} has no pod")
            time.sleep(0.02)  # the resolution of the figure
        seconds = time.monotonic() - began
        daemon.process.kill()
        daemon.process.wait()
    return seconds


def _running(api: ApiClient, space: str) -> int:
    time.sleep(2.0)  # a list of ten thousand is work for the API server, too
    return sum((pod.get("status") or {}).get("phase") == "Running" for pod in api.list(POD, space))


def _task(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": TASK.api_version, "kind": TASK.kind, "spec": {"template": template(ends=False), **spec}}


def _named(resource: Any, name: str, space: str) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": space},
    }
