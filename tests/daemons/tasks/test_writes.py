"""What a task costs the API server: its pod, its end, a part of a deletion. Counted by the backend's own metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_tasks.pod_cleanup import GATHER, MOST
from tests.daemons.controller.world import MIDST
from tests.daemons.tasks.metrics import requests
from tests.daemons.tasks.world import World, until
from tests.support.tcp import free_port

Start = Callable[..., Any]
MANY = 60


def test_two_writes_a_task_and_one_deletion_for_many(world: World, start: Start) -> None:
    """There is one deletion a pause at most, whatever the machine's speed: that is counted, and no seconds."""
    world.node(cpu="64")
    port = free_port()
    start("--port", str(port), "--running-after", "3600")
    before = requests(port)
    names = [f"t{number}" for number in range(MANY)]
    for name in names:
        world.submit(name)
    until(lambda: len(running(world)) == MANY, lambda: len(running(world)))
    began = time.monotonic()
    for pod in running(world):
        world.end(pod)
    for name in names:
        assert world.ended(name, "Succeeded")["tries"] == 1
    until(lambda: not world.api.list(kinds.POD, world.name), "the pods go", longest=MIDST)
    pauses = int((time.monotonic() - began) / GATHER) + 1
    told = {verb: count - before.get(verb, 0) for verb, count in requests(port).items()}
    assert (told["create"], told["patch"]) == (MANY, MANY), told
    assert 1 <= told["deletecollection"] + told.get("delete", 0) <= min(pauses * (MANY // MOST + 1), MANY), told
    assert told["deletecollection"], told


def test_a_single_pod_and_one_that_runs_go_by_their_uid(world: World, start: Start) -> None:
    world.node()
    port = free_port()
    start("--port", str(port), "--running-after", "3600")
    before = requests(port)
    world.submit("ends")
    world.end(world.running("ends"))
    world.no_pods("ends")
    world.submit("runs")
    world.running("runs")
    world.change("runs", kill=True)
    world.no_pods("runs")

    def writes() -> dict[str, int]:
        told = {verb: count - before.get(verb, 0) for verb, count in requests(port).items()}
        return {verb: told[verb] for verb in ("create", "patch", "delete", "deletecollection") if told.get(verb)}

    # A request counts when its answer has come, which may be after the pod is gone.
    until(lambda: writes().get("delete", 0) >= 2, writes)
    assert writes() == {"create": 2, "patch": 2, "delete": 2}


def test_only_what_has_ended_and_is_of_that_task_goes_with_others(world: World, start: Start) -> None:
    """A pod that somebody has taken away from its task, by the label, stays."""
    world.node()
    start()
    for name in ("one", "two", "three"):
        world.submit(name)
    pods = {name: world.running(name) for name in ("one", "two", "three")}
    kept = pods["three"]["metadata"]["name"]
    world.api.patch(kinds.POD, kept, world.name, {"metadata": {"labels": {"berth.dev/task-uid": None}}})
    for pod in pods.values():
        world.end(pod)
    for name in ("one", "two"):
        world.ended(name, "Succeeded")
        world.no_pods(name)
    assert world.api.get(kinds.POD, kept, world.name)["status"]["phase"] == "Succeeded"
    world.api.delete(kinds.POD, kept, world.name)


def running(world: World) -> list[dict[str, Any]]:
    return [pod for pod in world.api.list(kinds.POD, world.name) if (pod.get("status") or {}).get("phase") == "Running"]
