"""update/calls-...: filter and score calls of kube-scheduler that an update causes, by its own exact counters.

An app of berth and a plain StatefulSet get another image on one cluster with the stock scheduler. In place no pod is
made, so no scheduler is asked. With same_node each pod is made anew, and names its node: a bare pod as it was written,
a StatefulSet's by the policy berth-node-affinity. So kube-scheduler looks at no other. The plain StatefulSet's
RollingUpdate chooses among all nodes for each pod.
"""

from __future__ import annotations

import copy
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from berth_core.app.observed import ready
from berth_core.model.resources import POD, STATEFUL_SET, Resource

from .figures import Figure
from .ground import OURS, Ground, say, stateful_app

NODES, SIZES = int(os.environ.get("BERTH_BENCH_NODES", "100")), (3, 30)
PEER = "kube-scheduler under a StatefulSet's RollingUpdate"
FILTER, SCORE = "Filter", "Score"
_COUNTED = re.compile(
    r'scheduler_plugin_evaluation_total\{extension_point="(?P<point>\w+)",plugin="(?P<plugin>\w+)",.*\} (?P<value>\S+)'
)
PATIENCE = 600.0
Read = Callable[[], "Counter[tuple[str, str]]"]
IMAGE = "berth.local/busybox:{}"
#: The label that finds the pods of a peer.
PLAIN = "bench.berth.dev/plain"


class Calls(NamedTuple):
    """``looked``: nodes that the first filter of each cycle saw, over all cycles."""

    filters: int
    scores: int
    looked: int


def in_place(_ground: Ground) -> list[Figure]:
    """update/calls-in-place: the default."""
    return _rows("update/calls-in-place", "in_place_only", "StatefulSet")


def same_node(_ground: Ground) -> list[Figure]:
    """update/calls-same-node: each pod is made anew on its node."""
    return _rows("update/calls-same-node", "same_node", "StatefulSet")


def same_node_pods(_ground: Ground) -> list[Figure]:
    """update/calls-same-node-pods: likewise, bare pods."""
    return _rows("update/calls-same-node-pods", "same_node", "Pod")


def _rows(name: str, strategy: str, workload: str) -> list[Figure]:
    with Ground(NODES, 1) as ground:
        return [_row(ground, f"{name}/{replicas}", replicas, strategy, workload) for replicas in SIZES]


def _row(ground: Ground, name: str, replicas: int, strategy: str, workload: str) -> Figure:
    app = f"ours-{replicas}"
    ground.play(OURS, [app_task(app, replicas, 1, strategy, workload)])
    ours = calls_of(ground, lambda: ground.play(OURS, [app_task(app, replicas, 2, strategy, workload)]))
    peer = plain_rolls(ground, replicas)
    made = 0 if strategy == "in_place_only" else replicas
    assert ours.scores == 0, ours
    assert ours.looked == made, ours
    notes = (
        f"{replicas} replicas on {NODES} nodes, {workload}; nodes looked at that are not the replica's own: 0",
        f"berth: {ours.filters} filter calls on {ours.looked} nodes, {ours.scores} score calls",
        f"peer: {peer.filters} filter calls on {peer.looked} nodes, {peer.scores} score calls",
    )
    return Figure(name, ours.filters + ours.scores, peer.filters + peer.scores, "calls", PEER, notes)


def plain_rolls(ground: Ground, replicas: int) -> Calls:
    """What the RollingUpdate of a plain StatefulSet costs."""
    return rolls(ground, STATEFUL_SET, *(plain(f"plain-{replicas}", replicas, image) for image in (1, 2)))


def rolls(ground: Ground, resource: Resource, before: dict[str, Any], after: dict[str, Any]) -> Calls:
    """What it costs that the controller of that kind brings another image to its pods."""
    create(ground, resource, before)
    return calls_of(ground, lambda: roll(ground, resource, after))


def app_task(name: str, replicas: int, image: int, strategy: str, workload: str) -> dict[str, Any]:
    more = {"wait": True, "wait_timeout": int(PATIENCE), "update_strategy": strategy, "workload": workload}
    task = stateful_app(name, replicas, **more)
    task["berth.stateful.stateful_app"]["template"]["spec"]["containers"][0]["image"] = IMAGE.format(image)
    return task


def plain(name: str, replicas: int, image: int) -> dict[str, Any]:
    """A StatefulSet with the container that `app_task` gives to berth's app, and no volume."""
    container = copy.deepcopy(stateful_app(name, 1)["berth.stateful.stateful_app"]["template"]["spec"]["containers"][0])
    del container["volumeMounts"]
    labels = {PLAIN: name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{**container, "image": IMAGE.format(image)}], "terminationGracePeriodSeconds": 1},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "serviceName": name, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"}}
    return {**body, "spec": {**spec, "podManagementPolicy": "Parallel"}}


def create(ground: Ground, resource: Resource, body: dict[str, Any]) -> None:
    ground.api.create(resource, body)
    _updated(ground, body)


def roll(ground: Ground, resource: Resource, body: dict[str, Any]) -> None:
    ground.api.patch(resource, body["metadata"]["name"], "default", {"spec": {"template": body["spec"]["template"]}})
    _updated(ground, body)


def _updated(ground: Ground, body: dict[str, Any]) -> None:
    """Wait until every pod is Ready with the image that the manifest has."""
    name, image = body["metadata"]["name"], body["spec"]["template"]["spec"]["containers"][0]["image"]
    deadline = time.monotonic() + PATIENCE
    while True:
        pods = ground.api.list(POD, "default", labels=f"{PLAIN}={name}")
        done = [pod for pod in pods if ready(pod) and pod["spec"]["containers"][0]["image"] == image]
        if len(done) == body["spec"]["replicas"]:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"update/: {len(done)} of {body['spec']['replicas']} pods of {name} have {image}")
        time.sleep(0.5)


def calls_of(ground: Ground, update: Callable[[], object]) -> Calls:
    before = kube_scheduler(ground)
    update()
    return calls(kube_scheduler(ground) - before)


def calls(found: Counter[tuple[str, str]]) -> Calls:
    """The sums of what was counted."""
    filters = {plugin: count for (point, plugin), count in found.items() if point == FILTER}
    scores = sum(count for (point, _plugin), count in found.items() if point == SCORE)
    made = Calls(sum(filters.values()), scores, max(filters.values(), default=0))
    say(f"{made}; by plugin: {filters}")
    return made


def kube_scheduler(ground: Ground) -> Counter[tuple[str, str]]:
    """What the cluster's own has counted so far."""
    url = f"https://127.0.0.1:{ground.cluster.port('kube-scheduler')}"
    return counted(ground.cluster.kubectl("--server", url, "get", "--raw", "/metrics"))


def counted(metrics: str) -> Counter[tuple[str, str]]:
    """By extension point and plugin."""
    matches = (_COUNTED.match(line) for line in metrics.splitlines())
    return Counter({(one["point"], one["plugin"]): int(float(one["value"])) for one in matches if one})
