"""The modules task and task_info beside the backend: submitted once, waited for, changed, killed, removed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.task import INFO
from tests.daemons.tasks.world import World

Module = Callable[..., dict[str, Any]]


def ending(world: World, name: str, *codes: int) -> threading.Thread:
    """Ends the tries of a task, one after the other, with these exit codes."""

    def end() -> None:
        for number, code in enumerate(codes, 1):
            world.end(world.running(name, number), code)

    thread = threading.Thread(target=end)
    thread.start()
    return thread


def test_submitted_once_and_waited_for(world: World, start: Callable[..., Any], module: Module) -> None:
    world.node()
    start()
    options = {"name": "job", "template": world.template(), "retries": 1}
    planned = module(check=True, **options)
    assert (planned["changed"], world.statuses()) == (True, {})
    acting = ending(world, "job", 1, 0)
    done = module(**options)
    acting.join(60)
    assert (done["changed"], done.get("failed")) == (True, None), done
    assert (done["task"]["state"], done["task"]["exit_code"], done["task"]["tries"]) == ("Succeeded", 0, 2)
    assert done["diff"] == planned["diff"]
    again = module(**options)
    assert (again["changed"], again["diff"], again["task"]) == (False, [], done["task"])
    other = module(**{**options, "template": world.template(cpu="200m")})
    assert "is Succeeded, and was of other content: remove it first (state: absent)" in other["msg"]
    shown = module(INFO, states=["Succeeded"])
    assert ([one["name"] for one in shown["tasks"]], shown["counts"]["Succeeded"]) == (["job"], 1)
    assert module(INFO, name="none")["tasks"] == []
    gone = [module(name="job", state="absent", check=check)["changed"] for check in (True, False, False)]
    assert (gone, world.statuses()) == ([True, True, False], {})


def test_a_task_that_fails_fails_the_module_and_one_is_killed(
    world: World, start: Callable[..., Any], module: Module
) -> None:
    world.node()
    start()
    acting = ending(world, "bad", 3)
    failed = module(name="bad", template=world.template())
    acting.join(60)
    assert (failed["failed"], failed["changed"], failed["task"]["exit_code"]) == (True, True, 3)
    assert "is Failed after 1 tries: try 1 failed with exit code 3" in failed["msg"]
    rerun = module(name="bad", template=world.template())
    assert (rerun["failed"], rerun["changed"]) == (True, False), "the same once more: nothing is written"

    unknown = module(name="nobody", state="killed")
    assert "is not there, and cannot be killed" in unknown["msg"]
    module(name="long", template=world.template(), wait=False)
    world.running("long")
    late = module(name="long", template=world.template(), wait_timeout=0)
    assert "waited 0 s for" in late["msg"]
    killed = [module(name="long", state="killed") for _time in range(2)]
    assert [one["changed"] for one in killed] == [True, False]
    assert killed[1]["task"]["state"] == "Killed"
    world.no_pods("long")
