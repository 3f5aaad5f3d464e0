"""A claim from nothing to bytes on a real disk and back: controller, agent, stock scheduler, kubelet, a real pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.next_commands import replace_disk
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.replacing import PARTS
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.controller.prepared import started
from tests.daemons.controller.world import Process, World, install, kubeconfig, until
from tests.support.agent import install_rights
from tests.support.hosts import run_plays
from tests.support.kube import client_for

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise]
HOST = "h2"


class Stage(NamedTuple):
    ground: Ground
    world: World
    run: Callable[[str, str], None]


@pytest.fixture
def stage(dev_cluster: Any, tmp_path: Path) -> Iterator[Stage]:
    install_rights(dev_cluster)
    install(dev_cluster)
    ground = Ground(dev_cluster, HOST)
    world = World(client_for(dev_cluster.kubeconfig, warn=lambda _text: None), f"c{uuid4().hex[:8]}")
    config = kubeconfig(dev_cluster, world.api, tmp_path / "kubeconfig")
    process = Process(config, tmp_path / "log", "--no-leader-elect", start=started).works()

    def run(claim: str, script: str) -> None:
        """Run a shell script in a pod that has the claim at /data, to its end."""
        container = {
            "name": "main",
            "image": "berth.local/busybox:1",
            "command": ["sh", "-ec", script],
            "volumeMounts": [{"name": "v0", "mountPath": "/data"}],
        }
        name = f"p{uuid4().hex[:6]}"
        world.pod(name, claim, containers=[container], restartPolicy="Never")

        def phase() -> str:
            return str(world.api.get(kinds.POD, name, world.name)["status"].get("phase"))

        until(lambda: phase() in ("Succeeded", "Failed"), lambda: f"{world.story(claim)} {world.events(name)}")
        assert phase() == "Succeeded"
        world.delete(kinds.POD, name)
        until(lambda: not world.api.list(kinds.POD, world.name), "the pod does not go")

    try:
        yield Stage(ground, world, run)
    finally:
        world.clear()
        process.stop()
        print(process.text())
        ground.clean()
    assert process.rescued() == []


def test_a_claim_gets_a_filesystem_keeps_its_data_and_is_wiped_only_when_both_policies_say_so(stage):
    ground, world, run = stage
    kept, wiped = ground.plug(), ground.plug()
    retain, delete = f"{world.name}-r", f"{world.name}-d"
    world.storage_class(waits=True, suffix="-r")
    world.storage_class(policy="Delete", suffix="-d")
    ground.declare(**{kept: {"storage_class": retain}, wiped: {"storage_class": delete, "reclaim_policy": "Delete"}})
    ground.agent.start()
    for name in (kept, wiped):
        ground.wait_phase(name, "Available")

    world.claim("data", "32Mi", storage_class=retain)
    run("data", "echo precious > /data/file; sync")
    first = ground.object(kept)["spec"]["claimRef"]["dataUID"]
    world.delete(kinds.PVC, "data")
    disk = ground.wait_phase(kept, "Released")
    assert disk["spec"]["retainedFor"]["dataUID"] == first
    world.claim("data", "32Mi", storage_class=retain)
    world.wait_bound("data")
    run("data", "grep -q precious /data/file")
    assert ground.object(kept)["spec"]["claimRef"]["dataUID"] == first

    world.claim("scratch", "32Mi", storage_class=delete)
    run("scratch", "echo secret > /data/file; sync")
    world.delete(kinds.PVC, "scratch")
    disk = ground.wait(wiped, "wiped and free", lambda disk: disk["status"].get("phase") == "Available")
    assert disk["spec"].keys() & {"claimRef", "retainedFor", "wipe"} == set()
    assert disk["status"]["lastWipe"]["requestedBy"] == f"PersistentVolumeClaim {world.name}/scratch"
    assert ground.agent.here(f"blkid -p {ground.device(wiped)}", check=False) == ""
    run("data", "grep -q precious /data/file")


def stateful_set(world: World, name: str, storage_class: str) -> dict[str, Any]:
    """One replica with one claim, which writes its name into it when it starts."""
    container = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "command": ["sh", "-ec", "echo $HOSTNAME >> /data/starts; sync; exec sleep 1000000"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "32Mi"}},
        },
    }
    labels = {"app": name}
    spec = {
        "serviceName": name,
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
        },
        "volumeClaimTemplates": [template],
    }
    return world.api.create(kinds.STATEFUL_SET, {"metadata": {"name": name, "namespace": world.name}, "spec": spec})


def wait_told(world: World, name: str, words: str) -> None:
    until(lambda: any(words in note for _reason, note in world.events(name)), lambda: str(world.events(name)))


def test_the_broken_disk_of_a_statefulsets_claim_is_replaced_by_one_task(stage, dev_cluster, tmp_path):
    ground, world, _run = stage
    mine = ground.plug()
    fast = world.storage_class(waits=True)
    ground.declare(**{mine: {"storage_class": fast}})
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    old = ground.object_name(mine)

    def pod() -> dict[str, Any] | None:
        return world.api.find(kinds.POD, "web-0", world.name)

    stateful_set(world, "web", fast)
    try:
        until(lambda: ready(pod()), lambda: f"{world.events('data-web-0')} {world.events('web-0')}")
        first = world.get_claim("data-web-0")["metadata"]["uid"]
        dev_cluster.hosts.disk_break(HOST, mine)
        ground.wait_phase(mine, "Faulted")
        words = f"LocalDisk {old} of node {HOST}"
        for name in ("web-0", "data-web-0"):
            wait_told(world, name, words)
            assert any(words in note and replace_disk(old) in note for _reason, note in world.events(name))
        new = ground.plug()
        identity = {"serial": ground.plugged[new]["serial"], "size": "96Mi"}
        options = {"name": old, "new": {"identity": identity}, "wait_timeout": 90}
        task = {"berth.stateful.disk_replace": {**options, "kubeconfig": str(dev_cluster.kubeconfig)}}
        tasks = [{"name": "plan", "check_mode": True, **task}, {"name": "replace", **task}, {"name": "again", **task}]
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
        planned, done, again = (each.result for each in run_plays(dev_cluster, [play], tmp_path).ok().tasks)
        assert [each["step"] for each in planned["steps"]] == list(PARTS)
        assert set(PARTS) - set(done["done"]) <= {"lock", "bind"}, "the controller may be faster with these"
        assert (again["changed"], again["steps"]) == (False, [])
        claim = world.bound("data-web-0")
        assert claim is not None
        assert claim["metadata"]["uid"] != first
        assert ready(pod())
        held = ground.object(new)
        assert held["spec"]["claimRef"]["name"] == f"pvc-{claim['metadata']['uid']}"
        assert ground.agent.here(f"cat {ground.point(new)}/data/starts") == "web-0", "the new disk came up empty"
        kept = ground.object(mine)["spec"]
        assert (kept["unschedulable"], kept["retainedFor"]["claim"]) == (True, "data-web-0")
        assert list(world.berths()) == [held["spec"]["claimRef"]["name"]]
    finally:
        dev_cluster.hosts.disk_heal(HOST, mine)
        world.delete(kinds.STATEFUL_SET, "web")
