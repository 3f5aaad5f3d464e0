"""tasks/rate: work that runs to completion on fake nodes, from the first object that is made to the last that is final.

Beside Tasks and one TaskBatch, in the same cluster one after the other: a Job for each task and one Indexed Job, each
with its controller's default limits and with raised ones, and bare pods, the floor that the API server and the
scheduler give: left behind as a Job leaves them, and deleted as berth-tasks does it. kube-scheduler places the pods of
all of them, kwok starts and ends them, and as many clients make the objects. kwok has no logs, so that berth-tasks
reads none. Pods of tasks and bare pods are also placed by berth-scheduler. BERTH_BENCH_TASK_PEERS names the peers
beside bare pods: `raised`, `default`, `berth-scheduler`; all three where nothing does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from berth_core.model.resources import NAMESPACE, POD, TASK, TASK_BATCH, Resource
from berth_dev.cluster import Cluster
from berth_dev.kwok import Shape
from berth_kube import config
from berth_kube.client import KubeClient
from berth_tasks.pod_cleanup import ENDED
from tests.daemons.tasks.metrics import requests
from tests.dev.hosts_help import eventually
from tests.support.kube import client_for
from tests.support.tcp import free_port

from . import kubelet
from .figures import Figure
from .ground import Ground, say
from .processes import cpu_of
from .sched_contenders import OURS as SCHEDULER
from .sched_contenders import program, ready, without_election

#: With four clients it is they who limit the fastest.
TASKS, CLIENTS = int(os.environ.get("BERTH_BENCH_TASKS", "2000")), 16
NODES = max(100, TASKS // 10)
#: How many the Job controller gets under its default limits, which make it as slow for a thousand as for ten thousand.
FEW = min(TASKS, 1000)
PEERS = frozenset(os.environ.get("BERTH_BENCH_TASK_PEERS", "berth-scheduler,raised,default").split(","))
PATIENCE = 3600.0
#: Seconds between two looks at what has ended: a list of ten thousand is work for the API server, too.
LOOK = TASKS / 2000
WRITES = ("create", "update", "patch", "apply", "delete", "deletecollection")
JOB = Resource("batch", "v1", "jobs", "Job", True)
ENDS = "bench.berth.dev/ends"
FINAL = ("Succeeded", "Failed", "Killed")
MANAGER = "kube-controller-manager"
#: What lets the Job controller do as much at one time as berth-tasks does.
RAISED = ("--concurrent-job-syncs=64", "--kube-api-qps=5000", "--kube-api-burst=5000")
DEFAULTS = ("--concurrent-job-syncs=5", "--kube-api-qps=20", "--kube-api-burst=30")


class Contender(NamedTuple):
    """``make(index)``: an object each, one for all where ``single``; ``left(api, space)``: how many are not final."""

    name: str
    resource: Resource
    make: Callable[[int], dict[str, Any]]
    left: Callable[[ApiClient, str], int]
    single: bool = False


class Result(NamedTuple):
    """Seconds for ``count`` tasks, the CPU seconds of whoever cares for them, and the writes of berth-tasks."""

    count: int
    seconds: float
    cpu: float
    writes: int = 0

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.count / self.seconds


class Backend(NamedTuple):
    """berth-tasks, and where it tells its figures."""

    process: Popen[bytes]
    port: int

    def writes(self) -> int:
        """Requests so far that change something."""
        return sum(count for verb, count in requests(self.port).items() if verb in WRITES)


def rate(ground: Ground) -> list[Figure]:
    """tasks/rate: see above; BERTH_BENCH_TASKS says how many, 2000 where nothing does."""
    cluster = ground.cluster
    folder = ground.folder / "tasks"
    folder.mkdir()
    _pods_end(cluster)
    add_nodes(cluster)
    bare = _measure(cluster, "bare", _BARE, [])
    cleared = _measure(cluster, "cleared", _cleared(cluster), [])
    ours = [_ours(cluster, folder, f"ours-{number}", one) for number, one in enumerate(_OURS)]
    figures = _figures("bare pods", ours, bare) + _figures("bare pods, deleted when they have ended", ours, cleared)
    name = SCHEDULER.scheduler
    if name in PEERS:
        with without_election(cluster, folder / "berth-scheduler.log"):
            placed = _measure(cluster, "bare-berth", _by(_BARE, name), [])
            own = [_ours(cluster, folder, f"berth-{number}", _by(one, name)) for number, one in enumerate(_OURS)]
            figures += _figures(f"bare pods, both placed by {name}", own, placed)
    for told, flags, count in (("raised", RAISED, TASKS), ("default", DEFAULTS, FEW)):
        if told not in PEERS:
            continue
        with _controllers(cluster, folder, flags) as manager:
            for space, contender in ((f"jobs-{told}", _JOBS), (f"indexed-{told}", _indexed(count))):
                found = _measure(cluster, space, contender, [manager.pid], count)
                figures += _figures(f"{contender.name}, {told} limits", ours, found)
    return figures


def _figures(peer_name: str, ours: list[Result], peer: Result) -> list[Figure]:
    """Of Tasks, and of the TaskBatch."""
    rows = zip(("tasks/rate", "tasks/rate/batch"), ours, strict=True)
    return [_figure(row, peer_name, result, peer) for row, result in rows]


def _figure(row: str, name: str, ours: Result, peer: Result) -> Figure:
    speed = f"{ours.rate:.0f} tasks/s, the peer {peer.rate:.0f}"
    if peer.count < ours.count:
        speed += f" (of {peer.count})"
    controllers = f"the peer's controller manager {1000 * peer.cpu / peer.count:.1f}"
    cpu = f"CPU ms a task: {1000 * ours.cpu / ours.count:.1f}, {controllers}"
    writes = f"writes of berth-tasks a task: {ours.writes / ours.count:.2f}"
    notes = (f"{ours.count} tasks on {NODES} fake nodes: {speed}; {cpu}; {writes}",)
    return Figure(row, 1000 / ours.rate, 1000 / peer.rate, "ms/task", name, notes)


def _ours(cluster: Cluster, folder: Path, space: str, contender: Contender) -> Result:
    with backend(cluster, folder) as daemon:
        before = daemon.writes()
        found = _measure(cluster, space, contender, [daemon.process.pid])
        return found._replace(writes=daemon.writes() - before)


def _by(contender: Contender, scheduler: str) -> Contender:
    """Likewise, placed by that scheduler."""

    def make(index: int) -> dict[str, Any]:
        body = contender.make(index)
        spec = body["spec"] if body["kind"] == POD.kind else body["spec"]["template"]["spec"]
        spec["schedulerName"] = scheduler
        return body

    return contender._replace(make=make)


def add_nodes(cluster: Cluster) -> None:
    """Those that `template` wants."""
    cluster.add_nodes(NODES, Shape(prefix="tasks-", pods=250, labels={"pool": "tasks"}))


def _measure(cluster: Cluster, space: str, contender: Contender, pids: list[int], count: int = TASKS) -> Result:
    say(f"tasks/rate: {count} as {contender.name}")
    # A client belongs to one thread.
    api, *makers = clients(cluster)
    name = namespace(cluster, api, space)
    spent, began = cpu_of(*pids), time.monotonic()
    create(makers, name, contender.resource, contender.make, 1 if contender.single else count)

    def ended() -> bool:
        time.sleep(LOOK)
        return contender.left(api, name) == 0

    eventually(ended, PATIENCE, f"{contender.name}: all have ended")
    result = Result(count, time.monotonic() - began, cpu_of(*pids) - spent)
    say(f"tasks/rate: {result.rate:.0f} a second")
    cluster.kubectl("delete", "namespace", name, "--timeout=600s")
    return result


def clients(cluster: Cluster) -> list[ApiClient]:
    """One that asks, and those that make."""
    return [client_for(cluster.kubeconfig) for _each in range(1 + CLIENTS)]


def namespace(cluster: Cluster, api: ApiClient, space: str) -> str:
    """A namespace in which pods can be made."""
    name = f"bench-tasks-{space}"
    api.create(NAMESPACE, {"metadata": {"name": name}})
    eventually(lambda: _has_account(cluster, name), 60, f"{name} has a service account")
    return name


def create(
    makers: list[ApiClient], space: str, resource: Resource, make: Callable[[int], dict[str, Any]], count: int
) -> None:
    """That many objects, by as many clients as there are."""

    def some(maker: ApiClient, indexes: range) -> None:
        for index in indexes:
            body = make(index)
            named = {**body.get("metadata", {}), "name": f"t{index}", "namespace": space}
            maker.create(resource, {**body, "metadata": named})

    with ThreadPoolExecutor(len(makers)) as pool:
        shares = [range(number, count, len(makers)) for number in range(len(makers))]
        list(pool.map(some, makers, shares))


def _has_account(cluster: Cluster, space: str) -> bool:
    return "default" in cluster.kubectl("--namespace", space, "get", "serviceaccounts", "--output=name")


def template(ends: bool = True) -> dict[str, Any]:
    """Of a pod on those nodes; ``ends``: kwok lets it end."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    spec = {"containers": [container], "nodeSelector": {"pool": "tasks"}, "restartPolicy": "Never"}
    return {"metadata": {"labels": {ENDS: "yes"} if ends else {}}, "spec": spec}


def _task(_index: int) -> dict[str, Any]:
    return {"apiVersion": TASK.api_version, "kind": TASK.kind, "spec": {"template": template()}}


def _batch(count: int) -> dict[str, Any]:
    spec = {"count": count, "template": template()}
    return {"apiVersion": TASK_BATCH.api_version, "kind": TASK_BATCH.kind, "spec": spec}


def _job(count: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": template(), "backoffLimit": 0, "parallelism": count, "completions": count}
    if count > 1:
        spec["completionMode"] = "Indexed"
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, "spec": spec}


def _pod(_index: int) -> dict[str, Any]:
    return {"apiVersion": POD.api_version, "kind": POD.kind, **template()}


def _left_of(resource: Resource) -> Callable[[ApiClient, str], int]:
    def left(api: ApiClient, space: str) -> int:
        return sum((one.get("status") or {}).get("state") not in FINAL for one in api.list(resource, space))

    return left


def _left_jobs(api: ApiClient, space: str) -> int:
    ends = ("Complete", "Failed")
    return sum(not any(each["type"] in ends for each in _conditions(one)) for one in api.list(JOB, space))


def _left_pods(api: ApiClient, space: str) -> int:
    return sum((one.get("status") or {}).get("phase") not in FINAL for one in api.list(POD, space))


def _cleared(cluster: Cluster) -> Contender:
    """The same, and what has ended is deleted, many by one request."""

    async def clear(space: str) -> None:
        async with KubeClient(config.load(str(cluster.kubeconfig))) as client:
            await client.delete_selected(POD, space, labels=ENDS, fields=ENDED, timeout=PATIENCE)

    def left(api: ApiClient, space: str) -> int:
        asyncio.run(clear(space))
        return len(api.list(POD, space))

    return Contender("bare pods, deleted when they have ended", POD, _pod, left)


def _conditions(job: dict[str, Any]) -> list[dict[str, Any]]:
    return (job.get("status") or {}).get("conditions") or []


_OURS = (
    Contender("Tasks", TASK, _task, _left_of(TASK)),
    Contender("one TaskBatch", TASK_BATCH, lambda _index: _batch(TASKS), _left_of(TASK_BATCH), single=True),
)
_BARE = Contender("bare pods", POD, _pod, _left_pods)
_JOBS = Contender("a Job each", JOB, lambda _index: _job(1), _left_jobs)


def _indexed(count: int) -> Contender:
    return Contender("one Indexed Job", JOB, lambda _index: _job(count), _left_jobs, single=True)


def _pods_end(cluster: Cluster) -> None:
    """kwok ends the pods of this bench when they run, whoever has made them."""

    def marked(stages: kubelet.Stages) -> kubelet.Stages:
        complete = next(one for one in stages if one.get("metadata", {}).get("name") == "pod-complete")
        asked = complete["spec"]["selector"]["matchExpressions"]
        owner = next(one for one in asked if "ownerReferences" in one["key"])
        asked[asked.index(owner)] = {"key": f'.metadata.labels["{ENDS}"]', "operator": "Exists"}
        return stages

    kubelet.rewrite(cluster, marked)


@contextmanager
def backend(cluster: Cluster, folder: Path, wait: bool = True, elect: bool = False) -> Iterator[Backend]:
    """berth-tasks, as it is installed but for the logs that kwok has not; ``wait``: until it works.

    ``elect``: with the Lease, too, as a container that is started again and again in one pod.
    """
    lease = ("--namespace", "default", "--identity", "bench_1") if elect else ("--no-leader-elect",)
    argv = [sys.executable, "-m", "berth_tasks", "--kubeconfig", str(cluster.kubeconfig), *lease]
    port = free_port()
    flags = ["--port", str(port), "--log-lines", "0", "--log-level", "warning", "--store", str(folder / "tasks.db")]
    with program([*argv, *flags], folder / "berth-tasks.log") as process:
        if wait:
            eventually(lambda: ready(port), 60, "berth-tasks is ready")
        yield Backend(process, port)


@contextmanager
def _controllers(cluster: Cluster, folder: Path, flags: tuple[str, ...]) -> Iterator[Popen[bytes]]:
    """The cluster's controller manager with other limits."""
    argv = json.loads((cluster.folder.path / "data" / f"{MANAGER}.argv.json").read_text())
    cluster.stop_component(MANAGER)
    kept = [each for each in argv if each.split("=")[0] not in {flag.split("=")[0] for flag in flags}]
    try:
        with program([*kept, *flags], folder / f"{MANAGER}.log") as process:
            yield process
    finally:
        cluster.start_component(MANAGER)
