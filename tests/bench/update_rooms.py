"""update/rooms: whose room other pods take while an update makes it anew, in a cluster that is full on purpose.

Each node has room for its replica and nobody else, and pods of the same priority wait for just that node. All replicas
of an app are made anew at once on their nodes (same_node). Placed by the stock kube-scheduler with `update_hold` and
without, which is the peer, and by berth's scheduler, which counts the Berth. A room is lost when another pod runs on
the node at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from berth_core.model.resources import BERTH, POD

from .figures import Figure
from .ground import OURS, Ground, say, stateful_app
from .sched_contenders import without_election

NODES, WAITING = 10, 2
#: More than half of what a fake node has.
ROOM = "20"
WAITS = "bench.berth.dev/waits"
STOCK, OWN = "default-scheduler", "berth-scheduler"
PATIENCE, TOGETHER = 240.0, 40
PEER = "kube-scheduler, the same update without update_hold"


def rooms(_ground: Ground) -> list[Figure]:
    """update/rooms."""
    with Ground(NODES, 3) as ground:  # of each app, as its data stays on them
        without = _lost(ground, "without", STOCK, hold=False)
        held = _lost(ground, "held", STOCK, hold=True)
        with without_election(ground.cluster, ground.folder / "own.log"):
            counted = _lost(ground, "counted", OWN, hold=False)
    told = f"{NODES} replicas made anew at once; {WAITING} pods of the same priority wait for each room"
    return [
        Figure("update/rooms/hold", held, without, "rooms lost", PEER, (told, "kube-scheduler with update_hold")),
        Figure("update/rooms/berth-scheduler", counted, without, "rooms lost", PEER, (told, "by berth-scheduler")),
    ]


def _lost(ground: Ground, name: str, scheduler: str, hold: bool) -> int:
    """Of one app, which is there alone with those that wait for its rooms."""
    ground.play(OURS, [_task(name, scheduler, "one", hold, int(PATIENCE))])
    _squat(ground, scheduler)
    # Who loses a room waits for it in vain, and the play fails: what has become of each room is what counts.
    task = {**_task(name, scheduler, "two", hold, TOGETHER), "ignore_errors": True}
    ground.play(OURS, [task])
    took = [pod for pod in _waiting(ground) if pod["spec"].get("nodeName")]
    say(f"update/rooms: {name}: {len(took)} of {NODES} rooms were lost")
    _leave(ground, name)
    return len(took)


def _task(name: str, scheduler: str, command: str, hold: bool, patience: int) -> dict[str, Any]:
    more = {"wait": True, "wait_timeout": patience, "update_strategy": "same_node", "max_unavailable": "100%"}
    task = stateful_app(name, NODES, update_hold=hold, **more)
    spec = task["berth.stateful.stateful_app"]["template"]["spec"]
    spec["schedulerName"] = scheduler
    spec["containers"][0].update(command=["sleep", command], resources={"requests": {"cpu": ROOM}})
    return task


def _squat(ground: Ground, scheduler: str) -> None:
    """Pods for each node, and all have been told that there is no room."""
    container = {"name": "main", "image": "berth.local/busybox:1", "resources": {"requests": {"cpu": ROOM}}}
    for node in ground.cluster.fake_nodes():
        selector = {"kubernetes.io/hostname": node}
        spec = {"containers": [container], "nodeSelector": selector, "schedulerName": scheduler}
        for number in range(WAITING):
            meta = {"name": f"waits-{node}-{number}", "namespace": "default", "labels": {WAITS: "true"}}
            ground.api.create(POD, {"metadata": meta, "spec": {**spec, "terminationGracePeriodSeconds": 0}})
    _until(lambda: all(map(_refused, _waiting(ground))), "the pods that wait to be tried")
    time.sleep(2)  # the pause after a first failed try


def _waiting(ground: Ground) -> list[dict[str, Any]]:
    return ground.api.list(POD, "default", labels=WAITS)


def _refused(pod: dict[str, Any]) -> bool:
    conditions = {one["type"]: one for one in pod["status"].get("conditions") or ()}
    return bool(conditions.get("PodScheduled", {}).get("reason") == "Unschedulable")


def _leave(ground: Ground, name: str) -> None:
    """Nothing of the app, nor of those that wait, is there any more."""
    for pod in _waiting(ground):
        ground.api.delete(POD, pod["metadata"]["name"], "default", grace=0)
    ground.play(OURS, [{"berth.stateful.stateful_app": {"name": name, "state": "absent", "wait": True}}])
    _until(lambda: not ground.api.list(BERTH, "default") and not ground.api.list(POD, "default"), f"{name} to go")


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"update/rooms: waited {PATIENCE:g} s for {what}")
        time.sleep(0.5)
