"""update/calls-...: filter and score calls of kube-scheduler that an update causes, by its own exact counters.

An app of berth and a plain StatefulSet get another image on one cluster with the stock scheduler. In place no pod is
made, so no scheduler is asked. With same_node each pod is made anew, and names its node: a bare pod as it was written,
a StatefulSet's by the policy berth-node-affinity. So kube-scheduler looks at no other. The plain StatefulSet's
RollingUpdate chooses among all nodes for each pod.

A row counts filter calls on nodes that are not the replica's own, and all score calls. Counters name no node. Whose own
node was looked at is told by the pods: as many as were made anew and came back to the node on which they had been. A
cycle that binds a pod has asked each plugin about that node once; whatever is counted beyond that is of other nodes, or
of tries that failed, and is not taken off.
"""

from __future__ import annotations

import copy
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from berth_core.app.observed import ready
from berth_core.app.wanted import APP_LABEL
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
    """``looked``: nodes that the first filter of each cycle saw, over all cycles. ``plugins``: filter calls of each."""

    filters: int
    scores: int
    looked: int
    plugins: tuple[int, ...] = ()

    def on_own(self, own: int) -> int:
        """Filter calls on the own nodes of pods, all of one template, of which ``own`` cycles looked at those."""
        return sum(min(count, own) for count in self.plugins)

    def elsewhere(self, own: int) -> int:
        """What a row counts: filter calls on other nodes, and every score call."""
        return self.filters - self.on_own(own) + self.scores


#: Pod -> (uid, node).
Places = Mapping[str, tuple[str, str]]


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
    before = places(ground, app)
    ours = calls_of(ground, lambda: ground.play(OURS, [app_task(app, replicas, 2, strategy, workload)]))
    home = came_home(before, places(ground, app))
    peer = plain_rolls(ground, replicas)
    assert home == (0 if strategy == "in_place_only" else replicas), home
    assert (ours.scores, ours.looked) == (0, home), ours
    notes = (f"{replicas} replicas on {NODES} nodes, {workload}", told([ours], home), told_of_peer(peer, replicas))
    return Figure(name, ours.elsewhere(home), peer.elsewhere(replicas), "calls", PEER, notes)


def told(found: Sequence[Calls], home: int) -> str:
    """What berth's update cost ``found``, each scheduler that was asked; ``home``: pods made anew in their place."""
    own, scores = sum(one.on_own(home) for one in found), sum(one.scores for one in found)
    others = sum(one.elsewhere(home) for one in found) - scores
    return (
        f"berth: {scores} score calls, {others} filter calls on other nodes than the replica's own; and {own} on that "
        f"({home} pods came back to it, and {sum(one.looked for one in found)} nodes were looked at for them)"
    )


def told_of_peer(peer: Calls, made: int) -> str:
    """Each of its ``made`` pods may have been asked about its former node once: that is taken off, at most too much."""
    return (
        f"peer: {peer.filters} filter calls on {peer.looked} nodes, {peer.scores} score calls; not counted: "
        f"{peer.on_own(made)}, the most that can have been on the pods' former nodes"
    )


def places(ground: Ground, app: str) -> Places:
    """Where the pods of an app of berth's are."""
    pods = ground.api.list(POD, "default", labels=f"{APP_LABEL}={app}")
    return {pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"]["nodeName"]) for pod in pods}


def came_home(before: Places, after: Places) -> int:
    """How many pods were made anew and are on the node on which they were."""
    both = before.keys() & after.keys()
    return sum(before[name][0] != after[name][0] and before[name][1] == after[name][1] for name in both)


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
    asked = tuple(filters.values())
    made = Calls(sum(asked), scores, max(asked, default=0), asked)
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
