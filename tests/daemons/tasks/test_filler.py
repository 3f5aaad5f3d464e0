"""Filler tasks on the real API server: they run in what a long-running pod has reserved, and go when it uses that.

What nodes and pods use is what the test writes. kube-scheduler places the pods, and kwok runs them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.filler_load import Load, fillers, running
from tests.daemons.tasks.kubelets import ending
from tests.daemons.tasks.metrics import sums
from tests.daemons.tasks.world import World, until
from tests.support.tcp import free_port

Start = Callable[..., Any]
LOWEST = -(2**31)


@pytest.fixture
def load(world: World) -> Iterator[Load]:
    made = Load(world, world.node(cpu="4"))
    yield made
    made.stop()


def condition(world: World) -> dict[str, Any]:
    status = world.api.get(kinds.TASK_QUEUE, "low", world.name).get("status") or {}
    return next(iter(status.get("conditions") or ()), {})


def reserved(world: World) -> None:
    """A pod that has reserved nearly all of the node, and has run for an hour."""
    world.pod("db", cpu="3700m", schedulerName="default-scheduler")
    until(lambda: world.api.get(kinds.POD, "db", world.name)["status"].get("startTime"), "the pod runs")
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.api.patch(kinds.POD, "db", world.name, {"metadata": {}, "status": {"startTime": hour_ago}}, "status")


@pytest.mark.timeout(600)
def test_they_run_in_what_is_reserved_and_not_used_and_go_when_it_is(world: World, load: Load, start: Start) -> None:
    reserved(world)
    world.queue("low", filler=True)
    world.batch("fill", cpu="1", queue="low", count=4, retries=0)
    port = free_port()
    start("--port", str(port), "--filler-interval", "1", "--filler-rest", "5")
    until(lambda: condition(world).get("reason") == "NoMetrics", lambda: condition(world))
    until(lambda: world.batch_status("fill").get("reason") == "NoMetrics", lambda: world.batch_status("fill"))
    assert not fillers(world)

    load.serve()
    first = load.runs(2)  # 4000 less the margin of 400 and the 1000 that are used
    until(lambda: condition(world)["status"] == "True", lambda: condition(world))
    for pod in fillers(world):
        assert (pod["status"]["qosClass"], pod["spec"]["priority"]) == ("BestEffort", LOWEST)
        assert (pod["spec"]["preemptionPolicy"], pod["spec"]["nodeName"]) == ("Never", load.node)
    load.until(lambda: said(port, world, "filler_running") == 2.0, lambda: said(port, world, "filler_running"))
    assert sums(port, "berth_tasks_filler_room", "resource").get("cpu", 0.0) < 1.0

    world.submit("mine", cpu="200m")  # all that is not reserved: filler tasks have nothing of that
    mine = world.running("mine")

    load.others, load.each = 2300, 400
    (left,) = load.runs(1)
    assert left in first
    load.until(lambda: said(port, world, "filler_ended_total", reason="NoRoom") == 1.0, lambda: "one had to go")
    assert said(port, world, "filler_lost_seconds_total") > 0
    for _each in range(8):  # longer than the node rests
        load.tell()
        assert running(world) == {left}
        time.sleep(1)

    load.others, load.ahead = 1000, timedelta(minutes=30)  # so much later that its peak is forgotten
    assert left in load.runs(2)
    world.end(mine)
    assert world.ended("mine", "Succeeded")["tries"] == 1
    with ending(world, "fill"):
        load.until(lambda: world.batch_status("fill").get("state") == "Succeeded", lambda: world.batch_status("fill"))
    assert world.batch_status("fill")["counts"] == {"succeeded": 4, "failed": 0, "killed": 0, "left": 0, "running": 0}


def said(port: int, world: World, name: str, **chosen: str) -> float:
    return sums(port, f"berth_tasks_{name}", "queue", namespace=world.name, **chosen).get("low", 0.0)


@pytest.mark.timeout(300)
def test_what_cannot_be_filler_work_says_so_and_holds_up_nobody(world: World, load: Load, start: Start) -> None:
    load.serve()
    world.queue("low", filler=True)
    gpu = world.template(resources={"limits": {"example.com/gpu": "1"}})
    world.submit("gpu", queue="low", priority=9, template=gpu)
    world.submit("gang", queue="low", priority=9, gang={"name": "g", "minCount": 2})
    world.submit("plain", queue="low")
    start("--filler-interval", "1", "--filler-rest", "1")
    (uid,) = load.runs(1)
    for name in ("gpu", "gang"):
        load.until(lambda name=name: world.status(name).get("reason") == "NotFiller", world.statuses)
    (pod,) = fillers(world)
    assert pod["metadata"]["uid"] == uid
    world.end(pod, 137, reason="Evicted")  # by the kubelet: the node is short of memory
    world.end(world.running("plain", 2))
    done = world.ended("plain", "Succeeded")
    assert (done["tries"], done["failures"]) == (2, 0)
