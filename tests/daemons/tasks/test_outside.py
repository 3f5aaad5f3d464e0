"""What others do to tasks that run: a node is lost, a quota shrinks, a task is changed while its pod ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.metrics import charged, sums
from tests.daemons.tasks.world import World, until
from tests.support.tcp import free_port

Start = Callable[..., Any]


def quota(world: World, **hard: str) -> None:
    """At most so much of pods that have not ended."""
    meta = {"name": "most", "namespace": world.name}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}
    world.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))


def refused(port: int) -> dict[str, float]:
    """Requests that the API server has refused the backend, by verb."""
    return sums(port, "berth_api_requests_total", "verb", code="403")


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


def ready(world: World, node: str, status: str) -> None:
    """What the Node says of its kubelet. kwok keeps nodes that have its label, and says that they are Ready."""
    live = world.api.get(kinds.NODE, node)
    conditions = [{**one, "status": status} if one["type"] == "Ready" else one for one in live["status"]["conditions"]]
    world.api.patch(kinds.NODE, node, None, {"metadata": {"labels": {"type": "kwok" if status == "True" else None}}})
    world.api.patch(kinds.NODE, node, None, {"status": {"conditions": conditions}}, "status")


def test_a_task_whose_node_is_silent_says_so_until_it_is_back(world: World, start: Start) -> None:
    """What may go on to run is not run a second time."""
    silent = world.node("silent")
    port = free_port()
    start("--running-after", "0", "--port", str(port))
    world.submit("job")
    world.batch("many", count=2)
    pods = [world.running("job")]
    pods += until(lambda: len(found := world.elements("many", "Running")) == 2 and [*found.values()], "two run")
    until(lambda: world.status("job").get("state") == "Running", lambda: world.status("job"))
    world.node("other")
    ready(world, silent, "Unknown")
    until(lambda: world.status("job").get("reason") == "NodeUnreachable", lambda: world.status("job"))
    told = world.status("job")
    assert (told["state"], told["node"]) == ("Running", silent)
    assert told["message"].startswith(f"node {silent} cannot be reached")
    until(lambda: world.batch_status("many").get("reason") == "NodeUnreachable", lambda: world.batch_status("many"))
    assert world.batch_status("many")["message"].startswith(f"2 of its tasks: node {silent} cannot be reached")
    assert (len(world.pods_of("job")), len(world.elements("many"))) == (1, 2)
    ready(world, silent, "True")
    until(lambda: "reason" not in world.status("job"), lambda: world.status("job"))
    until(lambda: "reason" not in world.batch_status("many"), lambda: world.batch_status("many"))
    assert world.status("job")["state"] == "Running"
    for pod in pods:
        world.end(pod)
    assert (world.ended("job", "Succeeded")["tries"], world.batch_ended("many", "Succeeded")["reasons"]) == (1, [])
    until(lambda: charged(port) == 0, lambda: charged(port))


def test_a_quota_that_shrinks_stops_nothing_and_what_waits_says_so(world: World, start: Start) -> None:
    """The words are the backend's own: a pod that was tried and refused has those of the API server."""
    world.node()
    quota(world, pods="2")
    start()
    for name in ("one", "two"):
        world.submit(name)
    pods = {name: world.running(name) for name in ("one", "two")}
    quota(world, pods="1")
    world.submit("three")
    until(lambda: world.status("three").get("reason") == "ExceededQuota", lambda: world.status("three"))
    assert world.status("three")["message"].startswith("ResourceQuota most: pods: hard ")
    for name, pod in pods.items():
        assert world.running(name)["metadata"]["uid"] == pod["metadata"]["uid"]
        world.end(pod)
        assert world.ended(name, "Succeeded")["tries"] == 1
    world.end(world.running("three"))
    done = world.ended("three", "Succeeded")
    assert (done["tries"], done["failures"], done["reason"]) == (1, 0, "Completed")


def test_a_quota_is_filled_and_pods_are_not_tried_against_it(world: World, start: Start) -> None:
    """Many are given at one time, beside a pod of somebody else; what is raised, or given back, is used at once.

    A backend that does not count has five of the first eight refused. Admission reads a cache of its own: one pod that
    comes before the news of new room is refused there, and is made when it is tried again.
    """
    world.node(cpu="8")
    quota(world, **{"pods": "9", "requests.cpu": "400m"})
    world.api.create(kinds.POD, {"metadata": {"name": "other", "namespace": world.name}, **world.template()})
    port = free_port()
    start("--port", str(port))
    world.batch("many", count=8)

    def run(count: int) -> dict[int, dict[str, Any]]:
        until(lambda: len(world.elements("many", "Running")) == count, lambda: world.batch_status("many"))
        return world.elements("many", "Running")

    pods = run(3)
    until(lambda: world.batch_status("many").get("reason") == "ExceededQuota", lambda: world.batch_status("many"))
    words = "ResourceQuota most: requests.cpu: hard 400m, used 400m, requested 100m"
    until(lambda: world.batch_status("many").get("message") == words, lambda: world.batch_status("many"))
    quota(world, **{"pods": "9", "requests.cpu": "600m"})
    assert run(5).keys() > pods.keys()
    world.end(pods[0])
    until(lambda: 5 in run(5), lambda: world.elements("many").keys())
    world.submit("large", cpu="601m", priority=1)  # before those that wait
    until(lambda: world.status("large").get("reason") == "NeverFits", lambda: world.status("large"))
    assert world.status("large")["message"] == "ResourceQuota most: requests.cpu: hard 600m, requested 601m"
    vain = refused(port)
    assert vain.get("create", 0.0) <= 1, f"{vain} {world.batch_status('many')}"


def test_who_is_refused_by_a_quota_all_the_same_waits_and_has_not_failed(world: World, start: Start) -> None:
    """A LimitRange sets requests that no template has: what a pod counts for is known when it is made."""
    world.node()
    limit = {"type": "Container", "defaultRequest": {"memory": "64Mi"}}
    meta = {"name": "least", "namespace": world.name}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [limit]}}
    world.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))
    quota(world, **{"requests.memory": "100Mi"})
    start()
    world.submit("one", priority=1)
    one = world.running("one")
    world.submit("two")
    until(lambda: world.status("two").get("reason") == "ExceededQuota", lambda: world.status("two"))
    assert "exceeded quota: most, requested: requests.memory=64Mi" in world.status("two")["message"]
    world.end(one)
    world.end(world.running("two"))
    assert world.ended("two", "Succeeded")["failures"] == 0


def test_the_ceiling_of_the_backend_is_named_by_what_it_keeps(world: World, start: Start) -> None:
    world.node()
    start("--ceiling", "pods=2")
    for number in range(3):
        world.submit(f"t{number}", priority=-number)
    first = [world.running(f"t{number}") for number in range(2)]
    until(lambda: world.status("t2").get("reason") == "BackendCeiling", lambda: world.status("t2"))
    told = "all tasks of this backend may have pods 2 (--ceiling): they have 2, asked for 1"
    assert (world.status("t2")["message"], world.pods_of("t2")) == (told, [])
    world.end(first[0])
    world.running("t2")


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


def test_room_that_a_berth_keeps_or_that_is_made_for_a_pod_is_given_to_no_task(world: World, start: Start) -> None:
    node = world.node(cpu="2")
    port = free_port()
    start("--port", str(port))

    def offered() -> float:
        return sums(port, "berth_tasks_offered", "resource")["cpu"]

    empty = offered()
    kind = {"apiVersion": kinds.BERTH.api_version, "kind": kinds.BERTH.kind}
    spec = {"app": "db", "ordinal": 0, "nodeName": node, "requests": {"cpu": "1500m"}}
    world.api.create(kinds.BERTH, {**kind, "metadata": {"name": "db-0", "namespace": world.name}, "spec": spec})
    until(lambda: offered() == empty - 1.5, offered)
    world.submit("beside", "500m")
    world.end(world.running("beside"))
    world.submit("first", "600m")
    until(lambda: waiting(port, world).get("NoRoom") == 1.0, lambda: waiting(port, world))
    assert world.pods_of("first") == []
    world.api.delete(kinds.BERTH, "db-0", world.name)
    world.end(world.running("first"))
    world.no_pods("first")
    until(lambda: offered() == empty, offered)

    template = world.template("1500m")["spec"]
    pod = {"metadata": {"name": "waits", "namespace": world.name}, "spec": {**template, "schedulerName": "nobody"}}
    world.api.create(kinds.POD, pod)
    status = {"metadata": {}, "status": {"nominatedNodeName": node}}
    world.api.patch(kinds.POD, "waits", world.name, status, subresource="status")
    until(lambda: offered() == empty - 1.5, offered)
    world.submit("second", "600m")
    until(lambda: waiting(port, world).get("NoRoom") == 1.0, lambda: waiting(port, world))
    assert world.pods_of("second") == []
    world.api.delete(kinds.POD, "waits", world.name)
    world.running("second")


def waiting(port: int, world: World) -> dict[str, float]:
    """Tasks that wait, by what keeps them."""
    return sums(port, "berth_tasks_waiting", "reason", namespace=world.name)
