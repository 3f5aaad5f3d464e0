"""Seconds that a task costs, berth's and kubernetes.core's, in the same cluster and the same minute.

berth's and the peer's plays take turns, so that a busy moment of the machine meets both; medians are taken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .figures import Figure, median
from .ground import OURS, PEER, Ground, peer_name, say, stateful_app
from .objects import definitions, k8s

ROUNDS, MANY = 3, 20
Sides = dict[Path, dict[str, Any]]


def rerun(ground: Ground) -> list[Figure]:
    """task/rerun: an application that is as it should be, against the same objects kept by k8s."""
    app = stateful_app("rerun", 3)
    ground.play(OURS, [app])
    peer = k8s(definitions(ground, "rerun"))
    ground.play(PEER, [peer])
    notes = ("seconds for each further task of a play; the peer keeps the same volumes, claims, Service, StatefulSet",)
    return [_per_task(ground, "task/rerun", {OURS: app, PEER: peer}, peer_name("k8s"), notes)]


def info(ground: Ground) -> list[Figure]:
    """task/info: all LocalDisks read."""
    notes = ("seconds for each further task of a play",)
    return [_per_task(ground, "task/info", _info_tasks(), peer_name("k8s_info"), notes)]


def twenty(ground: Ground) -> list[Figure]:
    """task/20: a whole play of 20 tasks, as a user waits for it."""
    times = _measure(ground, _info_tasks(), [{"count": MANY}])
    ours, peer = (median(times[side][0]) / MANY for side in (OURS, PEER))
    notes = (f"a whole play of {MANY} tasks, its start included, by {MANY}",)
    return [Figure("task/20", ours, peer, "s/task", peer_name("k8s_info"), notes)]


def hosts20(ground: Ground) -> list[Figure]:
    """task/hosts20: one task over 20 hosts, Ansible's 5 forks."""
    times = _measure(ground, _info_tasks(), [{"count": 1}, {"count": 1, "hosts": MANY}])
    ours, peer = (_slope(times[side]) for side in (OURS, PEER))
    notes = ("seconds for each further host of a task, 5 forks",)
    return [Figure("task/hosts20", ours, peer, "s/host", peer_name("k8s_info"), notes)]


def _info_tasks() -> Sides:
    query = {"api_version": "berth.dev/v1alpha1", "kind": "LocalDisk"}
    return {OURS: {"berth.stateful.local_disk_info": {}}, PEER: {"kubernetes.core.k8s_info": query}}


def _per_task(ground: Ground, name: str, tasks: Sides, peer: str, notes: tuple[str, ...]) -> Figure:
    times = _measure(ground, tasks, [{"count": 1}, {"count": MANY}])
    return Figure(name, _slope(times[OURS]), _slope(times[PEER]), "s/task", peer, notes)


def _measure(ground: Ground, tasks: Sides, shapes: list[dict[str, int]]) -> dict[Path, list[list[float]]]:
    """Seconds by side and shape, one for each round; nothing may have changed or failed in any."""
    times: dict[Path, list[list[float]]] = {side: [[] for _shape in shapes] for side in tasks}
    for side, task in tasks.items():  # discovery caches, byte code and the disk's cache are warm for both
        ground.play(side, [task])
    for number in range(ROUNDS):
        say(f"round {number + 1} of {ROUNDS}")
        for side, task in tasks.items():
            for index, shape in enumerate(shapes):
                seconds, run = ground.play(side, [task] * shape["count"], hosts=shape.get("hosts", 1))
                assert len(run.tasks) == shape["count"] * shape.get("hosts", 1), run.output
                assert not any(done.result.get("changed") for done in run.tasks), run.output
                times[side][index].append(seconds)
    return times


def _slope(times: list[list[float]]) -> float:
    """Seconds for each of the 19 that are more."""
    return max(median(times[1]) - median(times[0]), 0.0) / (MANY - 1)
