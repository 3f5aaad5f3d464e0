"""Pods of the scheduler's name on the real API server: placed, refused with kube-scheduler's words, tried again.

Each test waits for the state that it asserts; what kube-scheduler says of the same pod is compared word by word.
"""

from __future__ import annotations

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.scheduler.world import until

pytestmark = pytest.mark.slow


def test_pods_are_placed_and_told(world, start):
    node = world.node()
    start()
    world.pod("a")
    assert world.placed("a") == [node]
    until(lambda: world.told("a", "Scheduled", f"Successfully assigned {world.name}/a to {node}"), "no event")
    until(lambda: world.get_pod("a")["status"].get("phase") == "Running", "kwok does not run it")


def test_what_does_not_fit_is_told_in_kube_schedulers_words(world, start):
    """The same pod for both schedulers: conditions and events are the same."""
    world.node("0")
    world.node("1", unschedulable=True)
    start()
    world.pod("ours", cpu="64")
    world.pod("theirs", cpu="64", schedulerName="default-scheduler")
    for name in ("ours", "theirs"):
        world.refused(name, "nodes are available")
    until(lambda: world.told("ours", "FailedScheduling"), "no event")

    def same():
        # What preemption could do is told after the first sentence; a node may become known to both at other moments.
        ours, theirs = world.condition("ours"), world.condition("theirs")
        return (*ours[:2], _first(ours[2])) == (*theirs[:2], _first(theirs[2]))

    until(same, lambda: f"{world.condition('ours')} {world.condition('theirs')}")


def test_a_pod_comes_when_room_does(world, start):
    world.node(cpu="1")
    start()
    world.pod("first", cpu="900m")
    world.placed("first")
    world.pod("second", cpu="900m")
    world.refused("second", "Insufficient cpu")
    world.delete(kinds.POD, "first")
    world.placed("second")


def test_a_pod_comes_when_a_node_does(world, start):
    world.node("small", cpu="1")
    start()
    world.pod("large", cpu="3")
    world.refused("large", "Insufficient cpu")
    large = world.node("large", cpu="4")
    assert world.placed("large") == [large]


def test_gates_hold_a_pod_until_the_last_is_gone(world, start):
    world.node()
    start()
    world.pod("gated", schedulingGates=[{"name": "it/one"}, {"name": "it/two"}])
    world.pod("free")
    world.placed("free")
    assert world.where("gated") == ""
    gates = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    world.cluster.kubectl("patch", "pod", "gated", "-n", world.name, "--type=json", "-p", _json(gates))
    world.pod("free-too")
    world.placed("free-too")
    assert world.where("gated") == ""
    world.cluster.kubectl("patch", "pod", "gated", "-n", world.name, "--type=json", "-p", _json(gates))
    world.placed("gated")


def test_priority_decides_who_gets_the_last_room(world, start):
    """Both wait before the scheduler starts: the one that was made later goes first."""
    world.api.create(kinds_priority(), {"metadata": {"name": world.name}, "value": 1000})
    try:
        world.node(cpu="1")
        world.pod("low", cpu="900m")
        world.pod("high", cpu="900m", priorityClassName=world.name)
        start()
        world.placed("high")
        world.refused("low", "Insufficient cpu")
    finally:
        world.api.delete(kinds_priority(), world.name, None)


def test_a_burst_fills_the_nodes_exactly(world, start):
    """Assumed pods count at once: not one too many on any node, though all are decided before the first is told."""
    for number in range(3):
        world.node(str(number), cpu="1")
    for number in range(35):
        world.pod(f"p{number}", cpu="100m")
    start()
    until(lambda: len(_placed(world)) == 30, lambda: f"{len(_placed(world))} of 30 are placed")
    on = [one["spec"]["nodeName"] for one in _placed(world)]
    assert {node: on.count(node) for node in world.nodes} == dict.fromkeys(world.nodes, 10)
    waiting = [one["metadata"]["name"] for one in world.api.list(kinds.POD, world.name) if not _node(one)]
    assert len(waiting) == 5
    for name in waiting:
        world.refused(name, "3 Insufficient cpu")


def test_pods_of_other_names_are_left_alone(world, start):
    world.node()
    start()
    world.pod("theirs", schedulerName=f"{world.name}-other")
    world.pod("ours")
    world.placed("ours")
    assert world.where("theirs") == ""
    assert world.condition("theirs")[0] == ""


def test_a_pod_that_is_made_anew_is_another_pod(world, start):
    world.node(cpu="1")
    start()
    world.pod("same", cpu="8")
    world.refused("same", "Insufficient cpu")
    world.delete(kinds.POD, "same")
    until(lambda: world.get_pod("same") is None, "it does not go")
    world.pod("same", cpu="500m")
    world.placed("same")


def test_a_pod_goes_to_its_berth_and_to_no_other_node(world, start):
    """The berth's node has room for the pod only because the berth keeps it; the other node is empty."""
    kept, empty = world.node("0", cpu="2"), world.node("1", cpu="8")
    spec = {"app": "db", "ordinal": 0, "nodeName": kept, "requests": {"cpu": "1500m"}}
    meta = {"name": "db-0", "namespace": world.name}
    berth = {"apiVersion": "berth.dev/v1alpha1", "kind": "Berth", "metadata": meta, "spec": spec}
    world.api.create(kinds.BERTH, berth)
    start()
    world.pod("stranger", cpu="1500m")
    assert world.placed("stranger") == [empty]
    world.pod("db-0", cpu="1500m")
    assert world.placed("db-0") == [kept]


def _node(pod):
    return pod["spec"].get("nodeName")


def _placed(world):
    return [one for one in world.api.list(kinds.POD, world.name) if _node(one)]


def _first(message):
    return message.partition(". ")[0].rstrip(".")


def _json(value):
    import json

    return json.dumps(value)


def kinds_priority():
    return kinds.Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
