"""Queues on the real API server: what they lend each other, and by which policy each is served."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_tasks.queues import GROUP
from tests.daemons.tasks.kubelets import ending
from tests.daemons.tasks.metrics import sums
from tests.daemons.tasks.world import World, until
from tests.support.outside import installed
from tests.support.tcp import free_port

Start = Callable[..., Any]


def test_what_a_queue_lent_comes_back_by_eviction_and_costs_nobody_a_try(world: World, start: Start) -> None:
    """With the rights that berth-task-runner gives, and no others; the end of what was evicted is no failure."""
    world.node(cpu="4")
    world.queue("owner", ceiling={"cpu": "300m"}, reclaim="Any")
    world.queue("guest", ceiling={"cpu": "100m"}, borrowingLimit={"cpu": "300m"})
    port = free_port()
    start("--port", str(port))
    world.batch("guests", queue="guest", count=5)
    until(lambda: len(world.elements("guests", "Running")) == 4, lambda: str(world.elements("guests").keys()))
    said(port, world, "borrowed", {"guest": 0.3, "owner": 0.0})
    said(port, world, "waiting", {"guest": 1.0})
    before = {pod["metadata"]["uid"] for pod in world.elements("guests").values()}
    world.submit("mine", cpu="200m", queue="owner")
    pod = world.running("mine")
    until(lambda: len(world.elements("guests", "Running")) == 2, lambda: str(world.elements("guests").keys()))
    assert {each["metadata"]["uid"] for each in world.elements("guests").values()} < before
    said(port, world, "used", {"guest": 0.2, "owner": 0.2})
    said(port, world, "reclaimed_total", {"guest": 2.0})
    world.end(pod)
    world.ended("mine", "Succeeded")
    until(lambda: len(world.elements("guests", "Running")) == 4, lambda: str(world.elements("guests").keys()))
    with ending(world, "guests"):
        status = world.batch_ended("guests", "Succeeded")
    assert status["counts"] == {"succeeded": 5, "failed": 0, "killed": 0, "left": 0, "running": 0}
    said(port, world, "start_seconds_count", {"guest": 5.0, "owner": 1.0})
    states = sums(port, "berth_tasks_by_state", "state", namespace=world.name)
    assert states == {"Succeeded": 6.0}


def test_what_a_queue_could_have_on_each_node_is_told_to_a_program(world: World, start: Start, tmp_path: Path) -> None:
    """Of what is free there, no more than its ceiling leaves; a task that starts has it subtracted."""
    nodes = [world.node(str(number), cpu="4") for number in range(2)]
    world.queue("most", ceiling={"cpu": "5"})
    environment = {"BERTH_TOLD": str(tmp_path), "BERTH_SPACE": world.name, "BERTH_QUEUE": f"{world.name}/most"}
    start(module="tests.daemons.tasks.told", environment=environment)

    def offered() -> dict[str, int]:
        path = tmp_path / "offers"
        found = json.loads(path.read_text()) if path.exists() else {}
        return {node: free["cpu"] for node, free in found.items() if node in nodes and "cpu" in free}

    until(lambda: offered() == dict(zip(nodes, (4000, 1000), strict=True)), offered)
    world.submit("job", cpu="3", queue="most")
    pod = world.running("job")
    until(lambda: sum(offered().values()) == 2000, offered)
    left = 1000 if pod["spec"]["nodeName"] == nodes[0] else 2000
    assert offered().get(nodes[0]) == left
    world.submit("more", cpu="2", queue="most")
    until(lambda: offered() == {}, offered)
    for name in ("job", "more"):
        world.end(world.running(name))
    until(lambda: offered() == dict(zip(nodes, (4000, 1000), strict=True)), offered)


def said(port: int, world: World, name: str, expected: dict[str, float]) -> None:
    """Wait until the backend says it: it hears of pods a moment after the test."""
    until(lambda: figures(port, world, name) == expected, lambda: f"{name}: {figures(port, world, name)}")


def figures(port: int, world: World, name: str) -> dict[str, float]:
    """What the backend says of each queue, of cpu where it is of resources."""
    resource = {"resource": "cpu"} if name in ("used", "borrowed") else {}
    return sums(port, f"berth_tasks_{name}", "queue", namespace=world.name, **resource)


def test_a_policy_that_is_not_known_is_told_and_one_of_a_package_serves(
    world: World, start: Start, tmp_path: Path
) -> None:
    world.node()
    world.queue("odd", policy="longest")
    process = start()
    active = until(lambda: condition(world, "odd"), "a condition")
    assert (active["status"], active["reason"]) == ("False", "UnknownPolicy")
    assert "spec.policy is 'longest': expected one of fair, priority" in active["message"]
    world.submit("job", queue="odd")
    until(lambda: world.status("job").get("reason") == "UnknownPolicy", lambda: world.status("job"))
    process.stop()
    start(environment=installed(tmp_path, GROUP, "longest = longest_line:longest"))
    until(lambda: condition(world, "odd")["status"] == "True", lambda: str(condition(world, "odd")))
    world.end(world.running("job"))
    assert world.ended("job", "Succeeded")["reason"] == "Completed"


def condition(world: World, name: str) -> dict[str, Any]:
    """What a queue says of itself."""
    status = world.api.get(kinds.TASK_QUEUE, name, world.name).get("status") or {}
    return next(iter(status.get("conditions") or ()), {})
