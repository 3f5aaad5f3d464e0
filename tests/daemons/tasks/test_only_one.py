"""Two task backends in one cluster: the second one refuses to work, and says which is the first."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.world import DEPLOY, World

pytestmark = pytest.mark.promise
Start = Callable[..., Any]


def allow_lease(world: World) -> None:
    """As in the backend's own namespace, in that of the world."""
    for document in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()):
        for item in document["items"]:
            if item["kind"] in ("Role", "RoleBinding"):
                item["metadata"]["namespace"] = world.name
                world.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(item))


def test_a_second_backend_refuses_to_work_beside_the_first_and_follows_it(world: World, start: Start) -> None:
    world.node()
    allow_lease(world)
    first = start(elect=True)
    second = start("--namespace", world.name, elect=True, wait=False)
    assert second.ended() == 1
    words = "leads a task backend of this cluster, and there can be one: remove that one, or run this one with"
    assert f"{words} --namespace berth-system" in second.text()
    world.submit("job")
    pod = world.running("job")
    first.stop()
    # One that has died without giving its Lease back is waited for, as long as that lasts.
    meta = {"name": "berth-tasks", "namespace": "default"}
    dead = {"holderIdentity": "dead_1", "leaseDurationSeconds": 3}
    world.api.create(kinds.LEASE, {"metadata": meta, "spec": dead})
    try:
        third = start("--namespace", world.name, elect=True)
    finally:
        world.api.delete(kinds.LEASE, "berth-tasks", "default")
    assert "Lease default/berth-tasks: dead_1 holds it" in third.text()
    world.end(pod)
    assert world.ended("job", "Succeeded")["tries"] == 1


def test_the_replica_that_waits_takes_over_from_a_leader_that_is_killed(world: World, start: Start) -> None:
    """Its task runs on meanwhile, and its end, which nobody watched, is recorded once."""
    world.node()
    first = start(elect=True)
    second = start(elect=True, wait=False)
    world.submit("job")
    pod = world.running("job")
    assert " works as " not in second.text()
    first.signal(signal.SIGKILL)
    world.end(pod)
    second.works()
    assert world.ended("job", "Succeeded")["tries"] == 1
    world.no_pods("job")
