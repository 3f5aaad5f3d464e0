"""What others do to tasks that run: a node is lost, a quota shrinks, a task is changed while its pod ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.metrics import charged
from tests.daemons.tasks.world import World, until
from tests.support.tcp import free_port

Start = Callable[..., Any]


def quota(world: World, pods: int) -> None:
    """At most so many pods that have not ended."""
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "most", "namespace": world.name},
        "spec": {"hard": {"pods": str(pods)}},
    }
    world.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))


def test_a_node_is_lost_and_its_task_runs_elsewhere_and_nothing_is_counted(world: World, start: Start) -> None:
    """The Node is deleted; the garbage collector of pods ends those on it as disrupted, and deletes them."""
    lost = world.node("lost")
    port = free_port()
    start("--port", str(port))
    world.submit("job", retries=0)
    assert world.running("job")["spec"]["nodeName"] == lost
    world.node("other")
    world.api.delete(kinds.NODE, lost)
    world.nodes.remove(lost)
    other = until(lambda: elsewhere(world, lost), lambda: f"{world.status('job')} {world.pods_of('job')}")
    world.end(other)
    done = world.ended("job", "Succeeded")
    assert (done["failures"], done["node"]) == (0, f"{world.name}-other")
    world.no_pods("job")
    until(lambda: charged(port) == 0, lambda: charged(port))


def elsewhere(world: World, lost: str) -> dict[str, Any] | None:
    for pod in world.pods_of("job"):
        if pod["spec"].get("nodeName") not in (None, lost) and (pod.get("status") or {}).get("phase") == "Running":
            return pod
    return None


def test_a_quota_that_shrinks_stops_nothing_and_what_waits_says_so(world: World, start: Start) -> None:
    world.node()
    quota(world, 2)
    start()
    for name in ("one", "two"):
        world.submit(name)
    pods = {name: world.running(name) for name in ("one", "two")}
    quota(world, 1)
    world.submit("three")
    until(lambda: world.status("three").get("reason") == "NotAdmitted", lambda: world.status("three"))
    assert "exceeded quota: most" in world.status("three")["message"]
    for name, pod in pods.items():
        assert world.running(name)["metadata"]["uid"] == pod["metadata"]["uid"]
        world.end(pod)
        assert world.ended(name, "Succeeded")["tries"] == 1
    world.end(world.running("three"))
    done = world.ended("three", "Succeeded")
    assert (done["tries"], done["failures"], done["reason"]) == (1, 0, "Completed")


def test_what_pod_security_forbids_fails_and_does_not_wait(world: World, start: Start) -> None:
    world.node()
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    world.api.patch(kinds.NAMESPACE, world.name, None, {"metadata": {"labels": labels}})
    start()
    template = world.template()
    template["spec"]["volumes"] = [{"name": "tree", "hostPath": {"path": "/var/lib/app"}}]
    world.submit("tree", template=template, retries=3)
    done = world.ended("tree", "Failed")
    assert (done["reason"], done["tries"]) == ("TemplateRejected", 1)
    assert 'violates PodSecurity "baseline' in done["message"]
    assert "hostPath volumes" in done["message"]


def test_a_task_that_is_changed_while_its_pod_ends_has_one_end(world: World, start: Start) -> None:
    """The end of the old content counts, or the new one runs: which came first decides; nothing is left of either."""
    world.node(cpu="16")
    port = free_port()
    start("--port", str(port))
    names = [f"t{number}" for number in range(12)]
    for name in names:
        world.submit(name)
    for number, name in enumerate(names):
        pod = world.running(name)
        if number % 2:
            world.end(pod)
        world.change(name, template=world.template(cpu="200m"))
        if not number % 2:
            world.end(pod)
    for name in names:
        until(lambda name=name: over(world, name), lambda name=name: f"{world.status(name)} {world.pods_of(name)}")
        status = world.ended(name, "Succeeded")
        assert status["tries"] in (1, 2), status
        assert (status["failures"], status["exitCode"]) == (0, 0)
        world.no_pods(name)
    until(lambda: charged(port) == 0, lambda: charged(port))


def over(world: World, name: str) -> bool:
    """Whether the task has ended; what runs of the new content is ended."""
    for pod in world.pods_of(name):
        if (pod.get("status") or {}).get("phase") == "Running":
            world.end(pod)
    return world.status(name).get("state") == "Succeeded"
