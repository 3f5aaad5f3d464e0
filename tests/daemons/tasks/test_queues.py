"""Queues on the real API server: what they lend each other, and by which policy each is served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.daemons.tasks.kubelets import ending
from tests.daemons.tasks.world import World, until

Start = Callable[..., Any]


def test_what_a_queue_lent_comes_back_by_eviction_and_costs_nobody_a_try(world: World, start: Start) -> None:
    """With the rights that berth-task-runner gives, and no others; the end of what was evicted is no failure."""
    world.node(cpu="4")
    world.queue("owner", ceiling={"cpu": "300m"}, reclaim="Any")
    world.queue("guest", ceiling={"cpu": "100m"}, borrowingLimit={"cpu": "300m"})
    start()
    world.batch("guests", queue="guest", count=5)
    until(lambda: len(world.elements("guests", "Running")) == 4, lambda: str(world.elements("guests").keys()))
    before = {pod["metadata"]["uid"] for pod in world.elements("guests").values()}
    world.submit("mine", cpu="200m", queue="owner")
    pod = world.running("mine")
    until(lambda: len(world.elements("guests", "Running")) == 2, lambda: str(world.elements("guests").keys()))
    assert {each["metadata"]["uid"] for each in world.elements("guests").values()} < before
    world.end(pod)
    world.ended("mine", "Succeeded")
    until(lambda: len(world.elements("guests", "Running")) == 4, lambda: str(world.elements("guests").keys()))
    with ending(world, "guests"):
        status = world.batch_ended("guests", "Succeeded")
    assert status["counts"] == {"succeeded": 5, "failed": 0, "killed": 0, "left": 0}
