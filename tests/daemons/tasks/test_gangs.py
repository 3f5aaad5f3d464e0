"""A gang on the real API server, with berth-scheduler: bound whole or not at all, whatever the backend counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.prepared import started
from tests.daemons.scheduler.world import DEPLOY, Process, kubeconfig
from tests.daemons.tasks.world import World, until

GANG = {"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}


def test_a_gang_is_bound_whole_or_not_at_all(
    world: World, start: Callable[..., Any], plane: Any, tmp_path: Path
) -> None:
    """A taint keeps one member from its node, of which the backend knows nothing: the others are not bound either."""
    plane.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"))
    world.node("open", cpu="200m")
    shut = world.node("shut", cpu="2", taints=[{"key": "it", "value": "shut", "effect": "NoSchedule"}])
    start()
    config = world.configuration(tmp_path / "scheduler.yaml", GANG)
    who = kubeconfig(plane, world.api, tmp_path / "kubeconfig-scheduler")
    scheduler = Process(
        who, tmp_path / "scheduler.log", "--config", str(config), "--no-leader-elect", start=started
    ).works()
    try:
        template = world.template()
        template["spec"]["schedulerName"] = world.name
        world.batch("ring", count=4, gang={"minCount": 3}, template=template)
        pods = until(lambda: len(found := world.elements("ring")) == 3 and found, lambda: world.batch_status("ring"))
        until(lambda: refused(world), lambda: str(world.elements("ring")))
        assert not any(pod["spec"].get("nodeName") for pod in world.elements("ring").values())
        assert sorted(pods) == [0, 1, 2], "the fourth waits until these have their nodes"
        world.api.patch(kinds.NODE, shut, None, {"spec": {"taints": []}})
        until(lambda: len(world.elements("ring", "Running")) == 4, lambda: str(world.elements("ring")))
    finally:
        scheduler.stop()
        print(scheduler.text())


def refused(world: World) -> bool:
    """Whether the scheduler has tried all of them: two have a place, and give it back for the one without.

    That one says why, although it is tried once more where the others were, and told then what held the group back.
    """
    conditions = [(pod.get("status") or {}).get("conditions") or () for pod in world.elements("ring").values()]
    said = [one.get("message", "") for each in conditions for one in each if one["type"] == "PodScheduled"]
    return any("taint" in words for words in said)
