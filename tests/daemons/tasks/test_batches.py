"""TaskBatches on the real API server: arrays and lists, what is written of them, and backends that die meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.task_batch import INFO, OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import InvalidError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.tasks import indexes
from berth_core.tasks.told import stuck
from tests.daemons.tasks.few_wait import FEW
from tests.daemons.tasks.kubelets import Kubelets, ending
from tests.daemons.tasks.metrics import charged, requests
from tests.daemons.tasks.world import World, until
from tests.support.tcp import free_port

Start = Callable[..., Any]
MANY = 60


def env(pod: dict[str, Any]) -> dict[str, str]:
    """The variables of the first container."""
    return {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}


def told(world: World, name: str) -> dict[str, set[int]]:
    """Which elements ended how, by what the shards say."""
    found: dict[str, set[int]] = {}
    for shard in world.api.list(kinds.TASK_BATCH_SHARD, world.name, fields=f"batch={name}"):
        for row in shard["records"]:
            found.setdefault(row["state"], set()).update(indexes.from_text(row["indexes"], "indexes", 100_000))
    return found


def test_an_array_ends_with_far_fewer_writes_than_tasks(world: World, start: Start) -> None:
    world.node(cpu="64")
    port = free_port()
    start("--port", str(port))
    before = requests(port)
    world.batch("many", count=MANY, retries=1, retryExitCodes=[75])
    until(lambda: len(world.elements("many", "Running")) == MANY, lambda: str(world.batch_status("many")))
    until(lambda: world.batch_status("many")["counts"]["running"] == MANY, lambda: str(world.batch_status("many")))
    for index, pod in world.elements("many", "Running").items():
        assert (env(pod)["BERTH_TASK_INDEX"], env(pod)["BERTH_TASK_BATCH"]) == (str(index), "many")
        world.end(pod, 3 if index % 20 == 7 else 0)
    status = world.batch_ended("many", "Failed")
    assert status["counts"] == {"succeeded": MANY - 3, "failed": 3, "killed": 0, "left": 0, "running": 0}
    assert status["reasons"] == [{"reason": "Error", "exitCode": 3, "count": 3, "example": "7"}]
    assert status["startedAt"] <= status["finishedAt"]
    assert told(world, "many") == {"Failed": {7, 27, 47}, "Succeeded": set(range(MANY)) - {7, 27, 47}}
    until(lambda: charged(port) == 0, lambda: str(charged(port)))
    count = {verb: number - before.get(verb, 0) for verb, number in requests(port).items()}
    assert count["create"] <= MANY + 1, count
    assert count["patch"] < MANY, count


def test_more_run_than_wait(world: World, start: Start) -> None:
    """The window counts those that wait, also where an earlier process has begun the others."""
    world.node(cpu="64")
    few = partial(start, module="tests.daemons.tasks.few_wait")
    world.batch("long", count=FEW + 4)
    process = few()
    until(lambda: len(world.elements("long", "Running")) == FEW + 4, lambda: str(world.elements("long").keys()))
    process.stop()
    few()
    pods = world.elements("long")
    for pod in pods.values():
        world.end(pod)
    assert world.batch_ended("long", "Succeeded")["counts"]["succeeded"] == len(pods) == FEW + 4


def test_another_template_takes_over_where_a_task_has_not_ended(world: World, start: Start) -> None:
    """Those that run get new pods, those that wait are made of it, and those that have ended stay as they are."""
    world.node(cpu="2")
    start()
    world.batch("many", cpu="500m", count=4, parallelism=3)
    until(lambda: sorted(world.elements("many", "Running")) == [0, 1, 2], lambda: str(world.elements("many").keys()))
    before = world.elements("many")
    world.end(before[0])
    until(lambda: told(world, "many").get("Succeeded") == {0}, lambda: str(told(world, "many")))
    until(lambda: sorted(world.elements("many", "Running")) == [1, 2, 3], lambda: str(world.elements("many").keys()))
    world.end(world.elements("many")[3])
    until(lambda: told(world, "many").get("Succeeded") == {0, 3}, lambda: str(told(world, "many")))
    world.api.patch(kinds.TASK_BATCH, "many", world.name, {"spec": {"template": world.template(cpu="250m")}})

    def requests_of(pods: dict[int, dict[str, Any]]) -> dict[int, str]:
        return {index: pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for index, pod in pods.items()}

    until(
        lambda: requests_of(world.elements("many", "Running")) == {1: "250m", 2: "250m"},
        lambda: str(requests_of(world.elements("many"))),
    )

    def tries() -> dict[int, str]:
        return {index: pod["metadata"]["labels"]["berth.dev/task-try"] for index, pod in world.elements("many").items()}

    until(lambda: tries() == {1: "2", 2: "2"}, lambda: f"old pods go, those that have ended get no new one: {tries()}")
    after = world.elements("many")
    assert all(after[index]["metadata"]["uid"] != before[index]["metadata"]["uid"] for index in after)
    for pod in after.values():
        world.end(pod)
    status = world.batch_ended("many", "Succeeded")
    assert (status["counts"]["succeeded"], status.get("reasons") or []) == (4, [])


def test_a_list_whose_items_need_others(world: World, start: Start) -> None:
    world.node()
    start()
    items = [
        {"name": "east", "args": ["east"]},
        {"name": "west", "env": {"SIDE": "west"}},
        {"name": "sum", "needs": ["east", "west"]},
        {"name": "bad"},
        {"name": "never", "needs": ["bad"]},
        {"name": "nor-this", "needs": ["never"]},
    ]
    world.batch("report", items=items)
    until(
        lambda: sorted(world.elements("report", "Running")) == [0, 1, 3], lambda: str(world.elements("report").keys())
    )
    pods = world.elements("report", "Running")
    assert pods[0]["spec"]["containers"][0]["args"] == ["east"]
    assert (env(pods[1])["SIDE"], env(pods[1])["BERTH_TASK_NAME"]) == ("west", "west")
    world.end(pods[0])
    world.end(pods[3], 1)
    until(lambda: told(world, "report").get("Failed") == {3, 4, 5}, lambda: str(told(world, "report")))
    assert 2 not in world.elements("report")
    world.end(pods[1])
    until(lambda: 2 in world.elements("report", "Running"), lambda: str(world.elements("report").keys()))
    world.end(world.elements("report")[2])
    status = world.batch_ended("report", "Failed")
    assert [(row["reason"], row["count"], row["example"]) for row in status["reasons"]] == [
        ("NeedFailed", 2, "never"),
        ("Error", 1, "bad"),
    ]


def test_a_batch_that_is_killed_and_one_with_too_many_failures(world: World, start: Start) -> None:
    world.node(cpu="64")
    start()
    world.batch("killed", count=20, parallelism=4)
    until(lambda: len(world.elements("killed", "Running")) == 4, lambda: str(world.elements("killed").keys()))
    world.end(world.elements("killed")[0])
    until(lambda: 4 in world.elements("killed", "Running"), lambda: str(world.elements("killed").keys()))
    assert len(world.elements("killed", "Running")) <= 4
    world.api.patch(kinds.TASK_BATCH, "killed", world.name, {"spec": {"kill": True}})
    counts = world.batch_ended("killed", "Killed")["counts"]
    assert counts == {"succeeded": 1, "failed": 0, "killed": 19, "left": 0, "running": 0}
    # What a leader that was killed had on its way may come last.
    late = {"state": "Running", "counts": {**counts, "killed": 0, "left": 19}}
    world.api.patch(kinds.TASK_BATCH, "killed", world.name, {"status": late}, "status")
    assert world.batch_ended("killed", "Killed")["counts"] == counts

    world.batch("bad", count=40, parallelism=5, maxFailures=2)
    with ending(world, "bad", lambda _index: 1) as ran:
        status = world.batch_ended("bad", "Failed")
    assert status["reason"] == "TooManyFailures"
    assert status["counts"]["left"] == 0
    assert len(ran) < 40


def test_what_never_starts_says_why_once(world: World, start: Start) -> None:
    world.node(cpu="2")
    start()
    world.batch("large", cpu="64", count=3)
    until(lambda: world.batch_status("large").get("reason") == "NeverFits", lambda: str(world.batch_status("large")))
    assert "asks for cpu" in world.batch_status("large")["message"]
    template = world.template()
    template["spec"]["containers"][0]["image"] = ""
    world.batch("wrong", template=template, count=3)
    status = world.batch_ended("wrong", "Failed")
    assert status["reason"] == "TemplateRejected"
    assert "image" in status["message"]
    assert not world.elements("wrong")


def test_a_batch_of_which_no_more_starts_says_so_until_it_goes_on(world: World, start: Start) -> None:
    """Also when those have ended that ran before."""
    world.node(cpu="2")
    world.queue("few", ceiling={"cpu": "100m"})
    start()
    world.batch("many", queue="few", count=3)
    pod = until(lambda: world.elements("many", "Running"), lambda: str(world.batch_status("many")))[0]
    world.api.delete(kinds.TASK_QUEUE, "few", world.name)
    until(lambda: world.batch_status("many").get("reason") == "UnknownQueue", lambda: str(world.batch_status("many")))
    world.end(pod)
    until(lambda: world.batch_status("many")["counts"]["succeeded"] == 1, lambda: str(world.batch_status("many")))
    status = world.batch_status("many")
    assert (status["state"], status["reason"], status["counts"]["running"]) == ("Running", "UnknownQueue", 0)
    assert stuck(status)
    world.queue("few", ceiling={"cpu": "100m"})
    until(lambda: world.elements("many", "Running"), lambda: str(world.batch_status("many")))
    until(lambda: "reason" not in world.batch_status("many"), lambda: str(world.batch_status("many")))
    with ending(world, "many"):
        assert world.batch_ended("many", "Succeeded")["counts"]["succeeded"] == 3


def test_a_list_that_never_starts_is_refused_on_the_object(world: World, start: Start) -> None:
    start()
    world.batch("circle", items=[{"name": "a", "needs": ["b"]}, {"name": "b", "needs": ["a"]}])
    status = world.batch_ended("circle", "Failed")
    assert (status["reason"], "never start: a -> b -> a" in status["message"]) == ("InvalidTask", True)


@pytest.mark.promise
def test_every_element_ends_once_whenever_the_backend_dies(
    world: World, start: Start, kubelets: Kubelets, tmp_path: Path
) -> None:
    """Ends never change, whoever leads; what was recorded is not run again."""
    for number in range(2):
        world.node(number, cpu="64")
    chance, seen = random.Random(7), dict[int, str]()
    world.batch("all", count=120, retries=1, parallelism=30)
    for _life in range(5):
        port = free_port()
        process = start("--port", str(port))
        time.sleep(chance.uniform(0.3, 2.0))
        process.process.kill()
        process.process.wait()
        for state, which in told(world, "all").items():
            for index in which if state in ("Succeeded", "Failed") else ():
                assert seen.setdefault(index, state) == state
    port = free_port()
    start("--port", str(port))
    until(
        lambda: world.batch_status("all").get("state") in ("Succeeded", "Failed"),
        lambda: str(world.batch_status("all")),
    )
    ends = told(world, "all")
    assert sum(len(which) for which in ends.values()) == 120
    assert all(index in ends[state] for index, state in seen.items())
    until(lambda: not world.elements("all"), lambda: str(world.elements("all").keys()))
    until(lambda: charged(port) == 0, lambda: str(charged(port)))


def test_the_module_submits_once_waits_and_tells(world: World, start: Start, module: Any) -> None:
    world.node(cpu="64")
    start()
    options = {"name": "many", "template": world.template(), "count": 8}
    planned = module(OPERATION, check=True, **options)
    assert (planned["changed"], planned["batch"]["indexes"]) == (True, {})
    with ending(world, "many"):
        done = module(OPERATION, **options)
    assert (done["changed"], done["batch"]["state"], done["batch"]["indexes"]) == (
        True,
        "Succeeded",
        {"Succeeded": "0-7"},
    )
    again = module(OPERATION, **options)
    assert (again["changed"], again["diff"], again["batch"]) == (False, [], done["batch"])
    other = module(OPERATION, **{**options, "template": world.template(cpu="200m")})
    assert "is Succeeded, and was of other content" in other["msg"]
    with ending(world, "bad", lambda index: 9 if index == 1 else 0):
        failed = module(OPERATION, **{**options, "name": "bad", "count": None, "items": [{"name": "a"}, {"name": "b"}]})
    assert "is Failed: 1 tasks failed, 0 were killed (1 with Error and exit code 9, as b)" in failed["msg"]
    assert failed["batch"]["failures"][0]["index"] == 1
    assert [one["name"] for one in module(INFO)["batches"]] == ["bad", "many"]
    assert module(OPERATION, name="bad", state="absent")["changed"]
    until(lambda: not world.api.list(kinds.TASK_BATCH_SHARD, world.name, fields="batch=bad"), "the shards go with it")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "either count, an array with an index, or items, a list"),
        ({"count": 1, "items": [{"name": "a"}]}, "either count"),
        ({"count": 0}, r"spec\.count"),
        ({"items": []}, r"spec\.items"),
        ({"count": 1, "parallelism": 0}, r"spec\.parallelism"),
    ],
)
def test_what_the_schema_refuses(world: World, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        world.batch("wrong", **spec)


def test_the_number_of_tasks_does_not_change(world: World) -> None:
    world.batch("fixed", count=2)
    with pytest.raises(InvalidError, match="the number of tasks does not change"):
        world.api.patch(kinds.TASK_BATCH, "fixed", world.name, {"spec": {"count": 3}})
    world.api.patch(kinds.TASK_BATCH, "fixed", world.name, {"spec": {"kill": True}})
    with pytest.raises(InvalidError, match="a killed batch is not brought back"):
        world.api.patch(kinds.TASK_BATCH, "fixed", world.name, {"spec": {"kill": False}})
