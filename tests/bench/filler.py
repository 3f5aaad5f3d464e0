"""tasks/filler: how much of a cluster of long-running pods lies idle, without filler tasks and with them.

A pod on each fake node has reserved most of it and uses a part that rises and falls, each node at another time. The
waves are of a quarter of an hour where a cluster's are of a day: others' peaks are remembered for a larger part of
them, so that less is filled. kwok runs the pods; what they use is written as a metrics-server would tell it.
"""

from __future__ import annotations

import math
import random
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from berth_core.errors import NotFoundError
from berth_core.model.resources import (
    CRD,
    NAMESPACE,
    NODE_METRICS,
    POD,
    POD_METRICS,
    ROLE_BINDING,
    TASK_BATCH,
    TASK_QUEUE,
)
from berth_core.tasks.filler import FILLER_LABEL
from berth_dev.cluster import Cluster
from berth_dev.kwok import Shape
from tests.daemons.tasks.metrics import sums
from tests.dev.hosts_help import eventually
from tests.support.kube import client_for
from tests.support.metrics_api import KINDS, definition
from tests.support.tcp import free_port

from .figures import Figure
from .ground import Ground, say
from .sched_contenders import program, ready

SPACE = "bench-filler"
NODES, CPU, RESERVED = 20, 32_000, 28_000
#: Seconds of the whole, of a wave, and of a task; thousandths of a core that a task asks for and uses.
SECONDS, WAVE, TASK, EACH = 1020.0, 900.0, 20.0, 2_000
DEPLOY = "deploy/tasks/rbac.yaml"


class Load(threading.Thread):
    """The nodes' use, told every two seconds; ends the tasks that have run for long enough."""

    def __init__(self, api: ApiClient, nodes: list[str]) -> None:
        super().__init__(daemon=True)
        self._api, self._nodes, self._over = api, nodes, threading.Event()
        self._chance, self._began = random.Random(63), time.monotonic()
        self._seen: dict[str, float] = {}
        #: Shares of the cluster that others used, and all together, look by look; tasks that are done.
        self.others: list[float] = []
        self.total: list[float] = []
        self.done = 0

    def run(self) -> None:
        while not self._over.wait(2.0):
            pods = self._api.list(POD, SPACE, labels=FILLER_LABEL)
            running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
            self._tell(running)
            self._end(running)

    def stop(self) -> None:
        self._over.set()
        self.join(60)

    def _tell(self, running: list[dict[str, Any]]) -> None:
        on: dict[str, int] = {}
        for pod in running:
            on[pod["spec"]["nodeName"]] = on.get(pod["spec"]["nodeName"], 0) + EACH
            if pod["metadata"]["name"] not in self._seen:
                metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}
                self._write(POD_METRICS, metadata, containers=[{"name": "main", "usage": _usage(EACH)}])
        others = {node: self._of(index) for index, node in enumerate(self._nodes)}
        for node, cpu in others.items():
            self._write(NODE_METRICS, {"name": node}, usage=_usage(cpu + on.get(node, 0)))
        whole = CPU * len(self._nodes)
        self.others.append(sum(others.values()) / whole)
        self.total.append((sum(others.values()) + sum(on.values())) / whole)

    def _of(self, index: int) -> int:
        at = (time.monotonic() - self._began) / WAVE + index / len(self._nodes)
        return int(RESERVED * (0.5 + 0.25 * math.sin(2 * math.pi * at) + self._chance.uniform(-0.03, 0.03)))

    def _write(self, kind: Any, metadata: dict[str, Any], **told: Any) -> None:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._api.apply(kind, {"metadata": metadata, "timestamp": at, "window": "2s", **told})

    def _end(self, running: list[dict[str, Any]]) -> None:
        now = time.monotonic()
        before, self._seen = self._seen, {}
        for pod in running:
            name = pod["metadata"]["name"]
            self._seen[name] = before.get(name, now)
            if now - self._seen[name] >= TASK:
                self.done += _ended(self._api, name)
        for name in before.keys() - self._seen.keys():
            self._api.delete(POD_METRICS, name, SPACE)


def filler(ground: Ground) -> list[Figure]:
    """tasks/filler: see above."""
    cluster, api = ground.cluster, client_for(ground.cluster.kubeconfig)
    nodes = _prepare(cluster, api)
    load, port = Load(client_for(cluster.kubeconfig), nodes), free_port()
    argv = [sys.executable, "-m", "berth_tasks", "--kubeconfig", str(cluster.kubeconfig), "--no-leader-elect"]
    flags = ["--port", str(port), "--log-lines", "0", "--log-level", "warning"]
    quick = ["--filler-interval", "2", "--filler-rest", "8"]
    load.start()
    try:
        with program([*argv, *flags, *quick], ground.folder / "berth-tasks-filler.log"):
            eventually(lambda: ready(port), 60, "berth-tasks is ready")
            say(f"tasks/filler: {SECONDS:.0f} s of waves on {NODES} nodes")
            time.sleep(SECONDS)
            lost = sums(port, "berth_tasks_filler_lost_seconds_total").get("", 0.0)
            went = sums(port, "berth_tasks_filler_ended_total").get("", 0.0)
    finally:
        load.stop()
        cluster.kubectl("delete", "namespace", SPACE, "--timeout=600s")
        for kind in KINDS:
            api.delete(CRD, kind.definition)
    # In the first minute the pods count with what they reserve; the second one fills the nodes.
    others, total = (100 * sum(part[60:]) / len(part[60:]) for part in (load.others, load.total))
    kept = load.done * TASK
    notes = (
        f"use of {NODES} nodes with {100 * RESERVED // CPU} % reserved: {others:.0f} % without, {total:.0f} % with",
        f"{load.done} tasks of {TASK:.0f} s done, {went:.0f} tries had to go: {100 * lost / (lost + kept):.1f} % lost",
    )
    return [Figure("tasks/filler", 100 - total, 100 - others, "% idle", "without filler tasks", notes)]


def _prepare(cluster: Cluster, api: ApiClient) -> list[str]:
    cluster.kubectl("apply", "-f", DEPLOY)
    cluster.add_nodes(NODES, Shape(cpu=str(CPU // 1000), prefix="filler-", labels={"pool": "filler"}))
    for kind in KINDS:
        api.create(CRD, definition(kind))
    api.create(NAMESPACE, {"metadata": {"name": SPACE}})
    ref = {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": "berth-task-runner"}
    subjects = [{"kind": "ServiceAccount", "name": "berth-tasks", "namespace": "berth-system"}]
    meta = {"name": "tasks", "namespace": SPACE}
    api.create(ROLE_BINDING, {"metadata": meta, "roleRef": ref, "subjects": subjects})
    eventually(
        lambda: "default" in cluster.kubectl("--namespace", SPACE, "get", "serviceaccounts", "--output=name"),
        60,
        "the namespace has a service account",
    )
    listed = cluster.kubectl("get", "nodes", "--selector=pool=filler", "--output=name").split()
    nodes = sorted(each.partition("/")[2] for each in listed)
    for index in range(len(nodes)):
        body = {"metadata": {"name": f"db-{index}", "namespace": SPACE}, "spec": _spec(RESERVED)}
        api.create(POD, {"apiVersion": "v1", "kind": "Pod", **body})
    queue = {"metadata": {"name": "low", "namespace": SPACE}, "spec": {"filler": True}}
    api.create(TASK_QUEUE, {"apiVersion": TASK_QUEUE.api_version, "kind": TASK_QUEUE.kind, **queue})
    spec = {"count": 20_000, "queue": "low", "template": {"spec": _spec(EACH)}}
    batch = {"metadata": {"name": "low", "namespace": SPACE}, "spec": spec}
    api.create(TASK_BATCH, {"apiVersion": TASK_BATCH.api_version, "kind": TASK_BATCH.kind, **batch})
    return nodes


def _spec(cpu: int) -> dict[str, Any]:
    requests = {"cpu": f"{cpu}m", "memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return {"containers": [container], "nodeSelector": {"pool": "filler"}, "terminationGracePeriodSeconds": 0}


def _usage(cpu: int) -> dict[str, str]:
    return {"cpu": f"{cpu}m", "memory": "64Mi"}


def _ended(api: ApiClient, name: str) -> int:
    try:
        api.patch(POD, name, SPACE, {"metadata": {}, "status": {"phase": "Succeeded"}}, "status")
    except NotFoundError:  # it had to go meanwhile
        return 0
    return 1
