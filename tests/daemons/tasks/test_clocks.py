"""A wall clock that is set ends nothing early and nothing late: room that is held, and what is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import MIDST
from tests.daemons.tasks.world import World, until

Start = Callable[..., Any]
SECONDS = 4


def test_a_wall_clock_that_jumps_ends_no_hold_and_no_retry_early_or_late(world: World, start: Start) -> None:
    world.node(cpu="2")
    start(module="tests.daemons.tasks.clock_steps")
    world.submit("flaky", retries=1)
    spec = {"requests": {"cpu": "1500m"}, "seconds": SECONDS}
    meta = {"name": "held", "namespace": world.name}
    kind = {"apiVersion": kinds.TASK_OFFER.api_version, "kind": kinds.TASK_OFFER.kind}
    began = time.monotonic()
    world.api.create(kinds.TASK_OFFER, {**kind, "metadata": meta, "spec": spec})

    def held() -> dict[str, Any] | None:
        return world.api.find(kinds.TASK_OFFER, "held", world.name)

    until(lambda: ((held() or {}).get("status") or {}).get("state") == "Held", held)
    given = time.monotonic()
    world.submit("waits", "1500m")
    world.end(world.running("flaky"), 1)
    until(lambda: held() is None, held, longest=MIDST)
    gone = time.monotonic()
    assert gone - began >= SECONDS
    assert gone - given < SECONDS + 10, "and not in an hour"
    world.end(world.running("waits"))
    world.end(world.running("flaky", 2))
    for name in ("waits", "flaky"):
        world.ended(name, "Succeeded")
