"""A raw disk that is given up under a living user, told as a story as those of one_by_one.

Called by test_chaos.
"""

from __future__ import annotations

import random
import re
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.chaos.apps import shell
from tests.daemons.chaos.ground import BY_SERVICE, ChaosGround
from tests.daemons.chaos.one_by_one import with_more
from tests.daemons.controller.world import until
from tests.dev.hosts_help import apply
from tests.support.kube import forget_disks

#: Keeps the disk open for as long as it lives.
USING = "exec 3<>/dev/raw; echo precious >&3; sync; while true; do sleep 1; done"


def raw_disk_under_a_living_user(ground: ChaosGround, _chance: random.Random) -> None:
    """Its kubelet hangs, its pod is deleted by force and its claim after it: no wipe and no new holder while the
    container lives. The kubelet comes back and ends it: the wipe is carried out, and the next claim gets the disk."""
    room, world = ground.rooms[BY_SERVICE], ground.world
    lent = world.storage_class(policy="Delete", suffix="-lent")
    name = room.plug("40Mi")
    settings = {"volume_mode": "Block", "storage_class": lent, "reclaim_policy": "Delete", "wipe_method": "zero"}
    room.agent.configure(**with_more(ground, name, **settings))
    room.wait_phase(name, "Available")
    claim(ground, "first", lent)
    world.wait_bound("first")
    apply(ground.cluster, user(world.name))
    until(lambda: _running(ground), ground.story)
    before = room.checksum(name)
    kubelet = room.agent.here("pgrep -x kubelet")
    room.agent.here(f"kill -STOP {kubelet}")
    try:
        ground.cluster.kubectl("delete", "pod", "user", "-n", world.name, "--grace-period=0", "--force")
        world.delete(kinds.PVC, "first")
        claim(ground, "second", lent)
        message = room.wait_condition(name, "Wiped", "False", "Refused")
        # the kubelet keeps a loop device over a raw volume
        assert re.search(r"is open for writing by (loop\d+ \(loop device\), )*sh \(\d+\)", message), message
        spec = room.object(name)["spec"]
        assert "claimRef" not in spec
        assert spec["wipe"]["requestedBy"] == f"PersistentVolumeClaim {world.name}/first"
        assert not world.bound("second")
        assert room.checksum(name) == before
        assert room.agent.here(f"head -c 8 {room.device(name)}") == "precious"
    finally:
        room.agent.here(f"kill -CONT {kubelet}")
    world.wait_bound("second")
    disk = room.wait_condition(name, "Prepared", "True", "Raw") and room.object(name)
    assert disk["spec"]["claimRef"]["claim"] == "second"
    assert disk["status"]["lastWipe"]["result"] == "Succeeded"
    assert room.agent.here(f"tr -d '\\0' < {room.device(name)} | wc -c") == "0"
    world.delete(kinds.PVC, "second")
    room.wait_phase(name, "Available")
    room.agent.configure(**with_more(ground))
    forget_disks(ground.api, room.object_name(name))
    room.pull(name)


def claim(ground: ChaosGround, name: str, storage_class: str) -> None:
    """For a raw volume."""
    ground.world.claim(name, "16Mi", storage_class, volumeMode="Block")


def user(namespace: str) -> dict[str, Any]:
    """A pod with the raw disk of the first claim."""
    container = shell(USING, volumeDevices=[{"name": "raw", "devicePath": "/dev/raw"}])
    volumes = [{"name": "raw", "persistentVolumeClaim": {"claimName": "first"}}]
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user", "namespace": namespace}, "spec": spec}


def _running(ground: ChaosGround) -> bool:
    found = ground.api.get(kinds.POD, "user", ground.world.name)
    return bool(found["status"].get("phase") == "Running")
