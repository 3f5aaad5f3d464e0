"""A claim from nothing to bytes on a real disk and back: controller, agent, stock scheduler, kubelet, a real pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.controller.world import Process, World, install, kubeconfig, until
from tests.support.agent import install_rights
from tests.support.kube import client_for

pytestmark = [pytest.mark.hosts, pytest.mark.slow]
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
    process = Process(config, tmp_path / "log", "--no-leader-elect").works()

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
