"""Two task backends in one cluster: the second one refuses to work, and says which is the first."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.world import DEPLOY, World, until

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
    alone = start("--namespace", world.name, wait=False)
    assert second.ended() == 1
    words = "leads a task backend of this cluster, and there can be one: remove that one, or run this one with"
    assert f"{words} --namespace berth-system" in second.text()
    assert alone.ended() == 1
    assert f"{words} --namespace berth-system and --leader-elect" in alone.text()
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


def test_a_container_that_is_started_again_goes_on_with_the_lease_of_its_pod(world: World, start: Start) -> None:
    """As deploy/tasks names it: after its end nobody waits the Lease out, neither it nor the tasks."""
    world.node()
    pod = "berth-tasks-5d8f_0b7a6a6e"
    first = start("--identity", pod, elect=True)
    waiting = start(elect=True, wait=False)
    until(lambda: f"{pod} leads" in waiting.text(), waiting.text)
    world.submit("job")
    running = world.running("job")
    first.signal(signal.SIGKILL)
    first.process.wait()
    world.submit("next")
    before = world.api.get(kinds.LEASE, "berth-tasks", "berth-system")["spec"]
    began = time.monotonic()
    again = start("--identity", pod, elect=True)
    world.running("next")
    took = time.monotonic() - began
    after = world.api.get(kinds.LEASE, "berth-tasks", "berth-system")["spec"]
    assert took < before["leaseDurationSeconds"], again.text()
    assert "leads, " not in again.text(), "it has waited for nobody"
    assert " works as " not in waiting.text()
    assert [after[key] for key in ("holderIdentity", "leaseTransitions", "acquireTime")] == [
        before[key] for key in ("holderIdentity", "leaseTransitions", "acquireTime")
    ]
    world.end(running)
    world.end(world.running("next"))
    for name in ("job", "next"):
        assert world.ended(name, "Succeeded")["tries"] == 1
        world.no_pods(name)


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
