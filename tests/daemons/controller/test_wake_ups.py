"""Every kind of change that lets a waiting claim go on wakes it: without one the controller looks at none for an hour.

Which changes of a disk or a node concern whom is decided in berth_core.app.claim_wakes and proved there for all of
them; here each kind comes through the API server, and reaches the claim. Each kind has a class of its own, and is made
and waited for alone, so that no claim is woken by another's change. That no resync had found anything either is looked
at when each controller ends (the fixture `start`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_controller.binder import Binder
from berth_controller.caches import Caches
from berth_controller.reports import Metrics, Reports
from berth_controller.wakes import GAP, ClaimKey, Wakes
from berth_core.errors import BerthError
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.events import Recorder
from berth_kube.exchange import Endpoint
from berth_kube.store import key_of
from tests.core.app.claim_world import claim, disk, node, storage_class
from tests.daemons.controller.world import GI, until

#: Seconds from a change until its claim has a Berth, with room for a machine that has other things to do.
SOON = 5.0
#: No claim is looked at again because time has passed.
ALONE = ("--no-leader-elect", "--resync", "3600")
LOCK = {"namespace": "x", "name": "db-0", "uid": "u", "app": "db", "ordinal": 0, "claim": "d", "dataUID": "u"}
KEPT = {"namespace": "x", "app": "db", "ordinal": 0, "claim": "d", "dataUID": "u"}
WIPE = {"requestID": "r", "requestedBy": "a test"}

#: What the disk is at first -> what is changed of its spec (None: taken off), for every field that claims look at.
SPECS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "freed": ({"claimRef": LOCK}, {"claimRef": None}),
    "data-given-up": ({"retainedFor": KEPT}, {"retainedFor": None}),
    "wiped": ({"retainedFor": KEPT, "wipe": WIPE}, {"retainedFor": None, "wipe": None}),
    "uncordoned": ({"unschedulable": True}, {"unschedulable": None}),
    "unreserved": ({"reserved": True}, {"reserved": False}),
    "of-its-mode": ({"volumeMode": "Block"}, {"volumeMode": "Filesystem"}),
}
#: What the agent says of the disk at first.
PHASES = ("Pending", "Missing", "Faulted", "InUse", "Locked")


def prepare(world: Any, node: str, kind: str, **spec: Any) -> str:
    """A class and a disk for that kind of change."""
    made = world.storage_class(suffix=f"-{kind}")
    return str(world.disk(node, kind, storageClassName=made, **spec))


def patch(world: Any, name: str, body: dict[str, Any]) -> None:
    world.api.patch(kinds.LOCAL_DISK, name, None, body)


def cover(world: Any, disk: str) -> str:
    """A volume that was made for a berth whose lock somebody has taken off the disk."""
    labels = {"app.kubernetes.io/managed-by": "berth", "berth.dev/app": "db", "berth.dev/namespace": "x"}
    meta = {"name": f"{disk}-01234567", "labels": labels, "annotations": {"berth.dev/berth-uid": "0123456789"}}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "none",
        "hostPath": {"path": f"/tmp/{disk}"},
        "claimRef": {"namespace": "x", "name": "data-db-0"},
    }
    made = world.api.create(kinds.PV, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec})
    return str(made["metadata"]["name"])


def wait(world: Any, *names: str) -> None:
    """Claims of those names and classes, until each was told that there is no disk."""
    for name in names:
        world.claim(name, storage_class=f"{world.name}-{name}")
    for name in names:
        until(lambda name=name: world.told(name, "NoDisk"), lambda name=name: world.story(name))


def test_a_disk_that_can_be_given_now_is_given_at_once(world: Any, start: Any, nodes: list[str]) -> None:
    changes: dict[str, Callable[[], None]] = {}
    for kind, (before, after) in SPECS.items():
        first = dict(before)
        if "wipe" in first:
            identity = {"serial": f"S-{world.name}-{nodes[0]}-{kind}", "size": 2 * GI}
            first["wipe"] = {**WIPE, "identity": identity}
        made = prepare(world, nodes[0], kind, **first)
        changes[kind] = lambda made=made, after=after: patch(world, made, {"spec": after})  # type: ignore[misc]
    for phase in PHASES:
        made = prepare(world, nodes[1], phase.lower(), phase=phase)
        changes[phase.lower()] = lambda made=made: world.observe(made, "Available")  # type: ignore[misc]
    ill, well = ({"status": {"observed": {"health": word}}} for word in ("Failing", "Healthy"))
    sick = prepare(world, nodes[1], "healthy")
    world.api.patch(kinds.LOCAL_DISK, sick, None, ill, "status")
    changes["healthy"] = lambda: world.api.patch(kinds.LOCAL_DISK, sick, None, well, "status")
    moved = prepare(world, nodes[2], "of-its-class")
    patch(world, moved, {"spec": {"storageClassName": f"{world.name}-none"}})
    changes["of-its-class"] = lambda: patch(world, moved, {"spec": {"storageClassName": f"{world.name}-of-its-class"}})
    below = prepare(world, nodes[2], "uncovered")
    left = cover(world, below)
    changes["uncovered"] = lambda: world.delete(kinds.PV, left)
    world.storage_class(suffix="-added")
    changes["added"] = lambda: world.disk(nodes[2], "added", storageClassName=f"{world.name}-added")
    # What is on a broken disk is the claim's own: it gets another one when that is forgotten.
    owner = {"app": "pvc.forgotten", "ordinal": 0, "claim": "forgotten", "dataUID": "u-7", "namespace": world.name}
    lost = prepare(world, nodes[2], "forgotten", phase="Faulted", retainedFor=owner)
    world.disk(nodes[3], "forgotten", storageClassName=f"{world.name}-forgotten")
    changes["forgotten"] = lambda: world.delete(kinds.LOCAL_DISK, lost)
    start(*ALONE)
    wait(world, *changes)
    give(world, changes)


def give(world: Any, changes: dict[str, Callable[[], Any]]) -> None:
    """Each change gives the claim of its name a Berth at once. They are all Bound in the end."""
    for name, change in changes.items():
        berth = f"pvc-{world.get_claim(name)['metadata']['uid']}"
        assert berth not in world.berths(), f"{name} did not wait for the change"
        change()
        until(lambda berth=berth: berth in world.berths(), lambda name=name: world.story(name), SOON)
    world.wait_bound(*changes)


def test_what_another_claim_and_a_class_give_is_given_at_once(world: Any, start: Any, nodes: list[str]) -> None:
    """The disk of a claim that is gone is there when its agent has wiped it; a class that is made or changed is looked
    at for its claims alone.
    """
    made = world.storage_class(policy="Delete", suffix="-second")
    held = world.disk(nodes[0], "second", storageClassName=made, reclaimPolicy="Delete")
    world.storage_class(waits=True, suffix="-at-once")
    world.disk(nodes[1], "at-once", storageClassName=f"{world.name}-at-once")
    world.disk(nodes[2], "made", storageClassName=f"{world.name}-made")
    start(*ALONE)
    world.claim("first", storage_class=made)
    world.wait_bound("first")
    wait(world, "second")
    for name in ("at-once", "made"):
        world.claim(name, storage_class=f"{world.name}-{name}")
    until(lambda: world.told("at-once", "WaitForFirstConsumer"), lambda: world.story("at-once"))

    world.delete(kinds.STORAGE_CLASS, f"{world.name}-at-once")

    def first_goes() -> None:
        world.delete(kinds.PVC, "first")
        until(lambda: "wipe" in world.disks()[held]["spec"], "no wipe is asked for", SOON)
        patch(world, held, {"spec": {"retainedFor": None, "wipe": None}})

    changes: dict[str, Callable[[], Any]] = {
        "second": first_goes,
        "at-once": lambda: world.storage_class(suffix="-at-once"),
        "made": lambda: world.storage_class(suffix="-made"),
    }
    give(world, changes)


def test_a_disk_with_the_labels_that_a_claim_selects_is_given_at_once(world: Any, start: Any, nodes: list[str]) -> None:
    world.storage_class()
    made = world.disk(nodes[0], 0)
    start(*ALONE)
    world.claim("data", selector={"matchLabels": {"tier": "log"}})
    until(lambda: world.told("data", "NoDisk", "1 not selected by label"), lambda: world.story("data"))
    give(world, {"data": lambda: patch(world, made, {"metadata": {"labels": {"tier": "log"}}})})


@pytest.fixture
def own_node(world: Any) -> Iterator[str]:
    """The name of a node that nobody but the test makes, or the beginning of several such names."""
    name = f"{world.name}-node"
    yield name
    for one in world.api.list(kinds.NODE):
        if one["metadata"]["name"].startswith(name):
            world.delete(kinds.NODE, one["metadata"]["name"])


def add_node(world: Any, name: str, ready: bool = True, **spec: Any) -> None:
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    world.api.create(kinds.NODE, {"metadata": meta, "spec": spec})
    if ready:
        set_ready(world, name)


def set_ready(world: Any, name: str) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]}
    world.api.patch(kinds.NODE, name, None, {"metadata": {}, "status": status}, "status")


def take_pods(world: Any, name: str) -> None:
    """The node is Ready, and neither cordoned nor tainted: the taint of a new node Kubernetes would take off later."""
    set_ready(world, name)
    world.api.patch(kinds.NODE, name, None, {"spec": {"unschedulable": None, "taints": None}})


#: Change of a node -> what a claim is told of it before.
AWAY = {"back": "gone", "ready": "not Ready", "uncordoned": "cordoned", "untainted": "tainted"}


def test_a_node_that_takes_pods_again_gives_its_disks_at_once(world: Any, start: Any, own_node: str) -> None:
    made = {kind: f"{own_node}-{kind}" for kind in AWAY}
    for kind, name in made.items():
        prepare(world, name, kind)
    add_node(world, made["ready"], ready=False)
    add_node(world, made["uncordoned"], unschedulable=True)
    add_node(world, made["untainted"], taints=[{"key": "test", "effect": "NoSchedule"}])
    start(*ALONE)
    wait(world, *AWAY)
    for kind, words in AWAY.items():
        until(lambda k=kind, w=words: world.told(k, "NoDisk", f"on a node that is {w}"), lambda k=kind: world.story(k))
    add_node(world, made["back"], ready=False)
    until(lambda: world.told("back", "NoDisk", "on a node that is not Ready"), lambda: world.story("back"))
    give(world, {kind: lambda name=name: take_pods(world, name) for kind, name in made.items()})


def test_a_claim_whose_node_comes_back_gets_its_volume_back(
    world: Any, start: Any, nodes: list[str], own_node: str
) -> None:
    """Its volume was deleted by hand, too: only the node tells to what the new one is tied."""
    world.storage_class()
    add_node(world, own_node)
    world.disk(own_node, 0)
    start(*ALONE)
    world.claim("data")
    volume = world.wait_bound("data")[0]["spec"]["volumeName"]
    world.delete(kinds.NODE, own_node)
    world.claim("other")  # tells that the controller knows of it
    until(lambda: world.told("other", "NoDisk", "1 on a node that is gone"), lambda: world.story("other"))
    world.delete(kinds.PV, volume)
    world.api.patch(kinds.PV, volume, None, {"metadata": {"finalizers": None}})
    until(lambda: world.told("data", "NodeGone"), lambda: world.story("data"))
    assert not world.volumes()
    add_node(world, own_node)
    until(lambda: set(world.volumes()) == {volume}, lambda: world.story("data"))


def test_a_claim_follows_what_becomes_of_its_own_disk_and_volume(world: Any, start: Any, nodes: list[str]) -> None:
    """Who holds the disk now is no claim of berth-controller, and does not name this one."""
    world.storage_class()
    made = world.disk(nodes[0], 0)
    start(*ALONE)
    world.claim("data")
    volume = world.wait_bound("data")[0]["spec"]["volumeName"]
    world.delete(kinds.LOCAL_DISK, made)
    until(lambda: world.told("data", "DiskGone"), lambda: world.story("data"))
    world.disk(nodes[0], 0)
    until(lambda: world.told("data", "LockLost", "held by nobody"), lambda: world.story("data"))
    patch(world, made, {"spec": {"claimRef": LOCK}})
    until(lambda: world.told("data", "LockLost", "held by x/db-0"), lambda: world.story("data"))
    assert set(world.volumes()) == {volume}


@pytest.mark.parametrize("waits", [True, False])
def test_a_claim_gets_its_own_data_as_soon_as_an_earlier_claim_gives_it_up(
    world: Any, start: Any, nodes: list[str], waits: bool
) -> None:
    """No scheduler is waited for, whatever the class says: the data is where it is."""
    world.storage_class(waits=waits)
    owner = {"app": "pvc.data", "ordinal": 0, "claim": "data", "dataUID": "u-7", "namespace": world.name}
    made = world.disk(nodes[0], 0, claimRef={**owner, "name": "pvc-u", "uid": "u-7"})
    start(*ALONE)
    world.claim("data")
    until(lambda: world.told("data", "EarlierClaim", made), lambda: world.story("data"))
    give(world, {"data": lambda: patch(world, made, {"spec": {"claimRef": None, "retainedFor": owner}})})
    assert world.locks()[made]["dataUID"] == "u-7"


def test_a_claim_gets_another_disk_as_soon_as_its_own_data_is_given_up(
    world: Any, start: Any, nodes: list[str]
) -> None:
    world.storage_class()
    owner = {"app": "pvc.data", "ordinal": 0, "claim": "data", "dataUID": "u-7", "namespace": world.name}
    broken, free = world.disk(nodes[0], 0, phase="Faulted", retainedFor=owner), world.disk(nodes[1], 1)
    start(*ALONE)
    world.claim("data")
    words = f"LocalDisk {broken} on node {nodes[0]}: Faulted"
    until(lambda: world.told("data", "NoDisk", words), lambda: world.story("data"))
    give(world, {"data": lambda: patch(world, broken, {"spec": {"retainedFor": None}})})
    assert set(world.locks()) == {free}


def test_a_pod_that_waits_for_its_data_starts_elsewhere_as_soon_as_that_disk_is_forgotten(
    world: Any, start: Any, nodes: list[str]
) -> None:
    """With the stock scheduler, which had chosen a node with room for it."""
    world.storage_class(waits=True)
    owner = {"app": "pvc.data", "ordinal": 0, "claim": "data", "dataUID": "u-7", "namespace": world.name}
    broken, free = world.disk(nodes[0], 0, phase="Faulted", retainedFor=owner), world.disk(nodes[1], 1)
    start(*ALONE)
    world.claim("data")
    world.pod("pod", "data")
    words = f"ansible localhost -m berth.stateful.local_disk -a 'name={broken} state=released force_retained=true'"
    until(lambda: world.told("data", "NoDisk", words), lambda: world.story("data"))
    give(world, {"data": lambda: world.delete(kinds.LOCAL_DISK, broken)})
    assert set(world.locks()) == {free}


def handed_to(world: Any, name: str) -> str:
    """The provisioner that Kubernetes' own controller waits for."""
    notes = world.get_claim(name)["metadata"].get("annotations") or {}
    return str(notes.get("volume.kubernetes.io/storage-provisioner", ""))


def test_a_class_that_becomes_another_provisioners_is_told(world: Any, start: Any, nodes: list[str]) -> None:
    """Or the other provisioner has the claim already, by Kubernetes' own word: then berth-controller says nothing."""
    world.storage_class()
    start(*ALONE)
    world.claim("data")
    until(lambda: world.told("data", "NoDisk"), lambda: world.story("data"))
    other = {"metadata": {"name": world.name}, "provisioner": "x.example.com", "volumeBindingMode": "Immediate"}
    world.delete(kinds.STORAGE_CLASS, world.name)
    world.api.create(kinds.STORAGE_CLASS, other)
    until(
        lambda: world.told("data", "ClassGone") or handed_to(world, "data") == "x.example.com",
        lambda: world.story("data"),
    )
    world.delete(kinds.STORAGE_CLASS, world.name)
    world.storage_class()
    world.disk(nodes[0], 0)
    world.wait_bound("data")


def test_a_volume_that_came_and_went_while_nobody_watched_is_told(world: Any, plane: Any) -> None:
    """As when etcd was restored: a visit made it, another one waits for its end, and the list does not have it."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/nowhere"},
        "storageClassName": world.name,
    }
    name, gone = f"{world.name}-gone", []
    meta = {"name": name, "labels": {"berth.dev/namespace": world.name}}
    made = world.api.create(kinds.PV, {"metadata": meta, "spec": spec})
    world.delete(kinds.PV, name)
    until(lambda: name not in world.volumes(), "the volume does not go")

    async def story() -> None:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            caches = Caches(client, world.name)
            caches.volumes.on(delete=lambda volume: gone.append(volume["metadata"]["name"]))
            caches.wrote(kinds.PV, made)
            watching = asyncio.ensure_future(caches.volumes.run())
            await asyncio.wait_for(caches.volumes.wait_synced(), 60)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            assert caches.get(kinds.PV, name) is None

    asyncio.run(story())
    assert gone == [name]


def test_a_disk_that_was_chosen_and_not_locked_is_there_for_the_next() -> None:
    """The first claim's Berth cannot be written, as nobody listens: who waits meanwhile is looked at."""
    first, second = ClaimKey("default", "c-1"), ClaimKey("default", "c-2")
    visits: list[ClaimKey] = []

    async def story() -> None:
        nobody = Config(Endpoint("127.0.0.1", 1, tls=False), None, Static({}), "a test", "default")
        async with KubeClient(nobody) as client:
            caches, wakes = Caches(client, "berth-system"), Wakes(visits.append)
            filled = ((caches.classes, storage_class()), (caches.nodes, node()), (caches.disks, disk()))
            for informer, item in (*filled, (caches.claims, claim("one", "c-1")), (caches.claims, claim("two", "c-2"))):
                informer.store.put(key_of(item), item)
            reports = Reports(client, Recorder(client, "berth.dev/controller", "test"), Metrics(CollectorRegistry()))
            binder = Binder(client, caches, reports, wakes, "/mnt", 3600.0)
            wakes.put(second, "fast")  # as after a visit that found the disk chosen for the other
            rounds = asyncio.ensure_future(wakes.run())
            with pytest.raises(BerthError):
                await binder.reconcile(first)
            await asyncio.sleep(2 * GAP)
            rounds.cancel()
            await asyncio.gather(rounds, return_exceptions=True)

    asyncio.run(story())
    assert visits == [second]
