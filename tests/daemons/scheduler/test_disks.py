"""Claims of berth's classes: the scheduler locks the disk, makes the volume and binds the pod.

No controller runs unless the test says so: what the scheduler promises, it keeps alone.
"""

from __future__ import annotations

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import GI
from tests.daemons.scheduler.world import POOL, until
from tests.support.playbook import run_playbook

pytestmark = [pytest.mark.slow, pytest.mark.promise]


def ground(world, *disks_of_nodes: int) -> list[str]:
    """Nodes with so many disks each, and a class of them."""
    world.storage_class(waits=True)
    nodes = []
    for number, count in enumerate(disks_of_nodes):
        nodes.append(world.node(str(number)))
        for index in range(count):
            world.disk(nodes[-1], index, size=(2 + index) * GI)
    return nodes


def test_a_pod_gets_the_smallest_disks_of_one_node_for_all_its_claims(world, start):
    """Two claims, and only the second node has two disks: each gets its own, bound, before the pod is."""
    nodes = ground(world, 1, 2)
    start()
    world.claim("small", "1Gi")
    world.claim("large", "3Gi")
    world.pod("db", "small", "large")
    assert world.placed("db") == [nodes[1]]
    small, large = world.wait_bound("small", "large")
    locks = world.locks()
    assert {name: lock["claim"] for name, lock in locks.items()} == {
        f"{world.name}-{nodes[1]}-0": "small",
        f"{world.name}-{nodes[1]}-1": "large",
    }
    assert small["spec"]["volumeName"] != large["spec"]["volumeName"]
    world.check()


def test_no_disk_is_given_twice_and_who_finds_none_waits_for_one(world, start):
    nodes = ground(world, 2, 1)
    start()
    for number in range(4):
        world.claim(f"c{number}")
        world.pod(f"p{number}", f"c{number}")
    until(lambda: len(world.locks()) == 3, lambda: str(world.locks()))
    waiting = until(
        lambda: [f"p{number}" for number in range(4) if world.condition(f"p{number}")[1] == "Unschedulable"],
        "nobody waits",
    )
    assert len(waiting) == 1
    world.refused(waiting[0], "node(s) didn't have a free local disk for v0")
    world.check()
    world.disk(nodes[0], "late")
    world.placed(waiting[0])
    world.wait_bound(*(f"c{number}" for number in range(4)))
    world.check()


def test_a_claim_that_cannot_be_served_is_told(world, start):
    ground(world, 1)
    start()
    world.claim("shared", accessModes=["ReadWriteMany"])
    world.pod("db", "shared")
    world.refused("db", "accessModes ReadWriteMany")
    assert world.locks() == {}


def test_a_namespace_made_anew_does_not_get_the_data_of_the_earlier_one(world, start):
    nodes = ground(world, 0, 0)
    kept = {"namespace": world.name, "namespaceUID": "earlier", "app": "pvc.data", "ordinal": 0, "claim": "data",
            "dataUID": "u-0"}  # fmt: skip
    left = world.disk(nodes[0], 0, phase="Released", retainedFor=kept)
    start()
    world.claim("data")
    world.pod("db", "data")
    world.refused("db", f"LocalDisk {left} keeps the data of {world.name}/pvc.data-0 of an earlier namespace")
    world.refused("db", f"-a 'name={left} state=released force_retained=true'")
    free = world.disk(nodes[1], 0)
    assert world.placed("db") == [nodes[1]]
    ((locked, lock),) = world.locks().items()
    today = world.api.get(kinds.NAMESPACE, world.name)["metadata"]["uid"]
    assert (locked, lock["namespaceUID"]) == (free, today)
    assert world.disks()[left]["spec"]["retainedFor"] == kept


def test_two_schedulers_want_the_last_disk(world, start, tmp_path):
    """Both choose it, one gets the lock; the other's pod is told, and gets the next disk that comes."""
    (node,) = ground(world, 1)
    start()
    other = world.configuration(tmp_path / "other.yaml", {"schedulerName": f"{world.name}-b"})
    start(config=other)
    for name, scheduler in (("a", world.name), ("b", f"{world.name}-b")):
        world.claim(name)
        world.pod(name, name, schedulerName=scheduler)
    until(lambda: world.where("a") or world.where("b"), "neither is placed")
    loser = "b" if world.where("a") else "a"
    until(lambda: world.condition(loser)[0] == "False", lambda: world.story_of(loser))
    assert len(world.locks()) == 1
    world.check()
    world.disk(node, "second")
    world.placed(loser)
    world.wait_bound("a", "b")
    world.check()


def test_the_disk_of_a_statefulsets_claim_is_exchanged_and_no_other_disk_is_chosen_meanwhile(world, start, tmp_path):
    """A free disk of the other node would do for the new claim, which nobody but the scheduler binds."""
    ground(world, 1, 1)
    start()
    labels = {"app": "web"}
    pod = {
        "schedulerName": world.name,
        "nodeSelector": {POOL: world.name},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    }
    asks = {"storageClassName": world.name, "accessModes": ["ReadWriteOnce"]}
    spec = {
        "serviceName": "web",
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {**asks, "resources": {"requests": {"storage": "1Gi"}}}}
        ],
    }
    world.api.create(kinds.STATEFUL_SET, {"metadata": {"name": "web", "namespace": world.name}, "spec": spec})
    try:
        until(lambda: world.where("web-0"), "the pod is not placed")
        (old,) = world.locks()
        node = world.where("web-0")
        new = world.disk(node, "new")
        options = {
            "name": old,
            "new": {"name": new, "identity": {"serial": f"S-{new}", "size": 2 * GI}},
            "kubeconfig": str(world.cluster.kubeconfig),
            "wait_timeout": 60,
        }
        task = {"name": "replace", "berth.stateful.disk_replace": options}
        assert run_playbook([task], tmp_path / "play").ok().last["changed"]
        assert set(world.locks()) == {new}
        assert world.where("web-0") == node
        assert world.disks()[old]["spec"]["retainedFor"]["claim"] == "data-web-0"
        world.check()
    finally:
        world.delete(kinds.STATEFUL_SET, "web")


def test_ordinary_volumes_are_tied_to_the_claims_that_wait(world, start):
    """A claim without a provisioner: the smallest volume that the node reaches, bound before the pod is."""
    node = world.node()
    body = {
        "metadata": {"name": world.name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    world.api.create(kinds.STORAGE_CLASS, body)
    for name, size in (("small", "1Gi"), ("fits", "2Gi"), ("large", "9Gi")):
        world.api.create(kinds.PV, _volume(world, f"{world.name}-{name}", size, node))
    start()
    world.claim("data", "2Gi")
    world.pod("db", "data")
    assert world.placed("db") == [node]
    (claim,) = world.wait_bound("data")
    assert claim["spec"]["volumeName"] == f"{world.name}-fits"


def _volume(world, name, size, node):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"berth.dev/namespace": world.name}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": world.name,
            "local": {"path": "/nowhere"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }
