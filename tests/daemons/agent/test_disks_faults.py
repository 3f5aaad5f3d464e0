"""Disks that are not as they should be, on a real host: refused, broken, pulled out, swapped. The agent alters none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from berth_core.app.manifests import volume_name
from tests.daemons.agent.disk_ground import Ground
from tests.dev.hosts_help import apply, eventually, get
from tests.support.agent import conditions_of

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise]
HOST = "h3"


@pytest.fixture
def ground(dev_cluster: Any, rights: None) -> Iterator[Ground]:
    made = Ground(dev_cluster, HOST)
    yield made
    made.clean()


def test_what_belongs_to_somebody_is_not_touched(ground: Ground) -> None:
    signed, opened, mounted = ground.plug(), ground.plug(), ground.plug()
    ground.declare()
    ground.agent.start()
    for name in (signed, opened, mounted):
        ground.wait_phase(name, "Available")
    ground.agent.stop()
    ground.agent.here(f"mkfs.ext4 -q {ground.device(signed)}")
    holder = ground.hold(opened)
    ground.agent.here(f"mkfs.ext4 -q {ground.device(mounted)}; mkdir -p /srv/theirs")
    ground.agent.here(f"mount -o ro {ground.device(mounted)} /srv/theirs")
    before = ground.checksum(signed, opened, mounted)
    ground.agent.start(log="second")
    locks = {name: ground.lock(name) for name in (signed, opened)}
    request = ground.ask_wipe(mounted, "zero")

    assert "carries ext4" in ground.wait_condition(signed, "Prepared", "False", "Refused")
    assert "is used by somebody else" in ground.wait_condition(opened, "Prepared", "False", "Refused")
    assert "is mounted at /srv/theirs" in ground.wait_condition(mounted, "Wiped", "False", "Refused")
    assert ground.checksum(signed, opened, mounted) == before

    ground.agent.here(f"kill {holder}; umount /srv/theirs; blkdiscard -fz {ground.device(signed)}")
    for name, lock in locks.items():  # nobody has to tell the agent that the way is free
        ground.wait_mounted(name, lock)
    disk = ground.wait(mounted, "wiped and cleared", lambda disk: "wipe" not in disk["spec"])
    assert disk["status"]["lastWipe"]["requestID"] == request
    assert ground.agent.here(f"tr -d '\\0' < {ground.device(mounted)} | wc -c") == "0"


def test_a_wipe_that_fails_is_recorded_and_not_repeated(ground: Ground) -> None:
    mine = ground.plug()
    ground.declare()
    ground.agent.start(environment=ground.wrapper("wipefs", "echo no such luck >&2; exit 1"))
    ground.wait_phase(mine, "Available")
    before = ground.checksum(mine)
    request = ground.ask_wipe(mine, "auto")
    assert "no such luck" in ground.wait_condition(mine, "Wiped", "False", "Failed")
    disk = ground.object(mine)
    assert disk["spec"]["wipe"]["requestID"] == disk["status"]["lastWipe"]["requestID"] == request
    assert disk["status"]["lastWipe"]["result"] == "Failed"
    assert ground.calls("wipefs") == 1
    assert ground.checksum(mine) == before


def test_a_disk_that_is_swapped_under_its_lock(ground: Ground) -> None:
    mine = ground.plug()
    ground.declare()
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    lock = ground.lock(mine)
    ground.wait_mounted(mine, lock)
    ground.agent.here(f"echo precious > {ground.point(mine)}/data/file; sync")
    ground.agent.stop()
    ground.agent.here(f"umount {ground.point(mine)}")
    was, slot = ground.object_name(mine), ground.device(mine)
    ground.pull(mine)
    other = ground.plug()
    assert ground.device(other) == slot
    before = ground.checksum(other)
    ground.agent.start(log="second")
    assert "expected" in ground.wait_condition(mine, "Matched", "False", "Drift")
    assert ground.object(mine)["status"]["phase"] == "Missing"
    assert ground.object(mine)["spec"]["claimRef"] == lock
    assert ground.checksum(other) == before
    ground.pull(other)
    ground.put_back(mine)
    ground.wait_mounted(mine, lock)
    assert ground.object_name(mine) == was
    assert ground.agent.here(f"cat {ground.point(mine)}/data/file") == "precious"


def run_pod(ground: Ground, name: str, lock: dict[str, Any]) -> str:
    """A real pod that writes to the disk all the time; its name."""
    disk, pod = ground.object_name(name), f"pod-{name}"
    size, volume = "1Mi", volume_name(disk, lock["uid"])
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [HOST]}]}]
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    claim = {"namespace": "default", "name": pod}
    pv = {
        **spec,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": ground.link(name)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim},
    }
    pvc = {**spec, "volumeName": volume, "resources": {"requests": {"storage": size}}}
    pvc.pop("capacity")
    loop = "while true; do date >> /data/log; sync; sleep 0.5; done"
    container = {
        "name": "c",
        "image": "berth.local/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", loop],
    }
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": pod}}]
    apply(
        ground.cluster,
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": pv},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": pvc},
        {"apiVersion": "v1", "kind": "Pod", "metadata": claim, "spec": {
            "nodeName": HOST, "terminationGracePeriodSeconds": 0, "containers": [container], "volumes": volumes,
        }},
    )  # fmt: skip
    eventually(lambda: get(ground.cluster, "pod", pod)["status"]["phase"] == "Running", 90, "the pod")
    return pod


def remove_pod(ground: Ground, pod: str) -> None:
    for kind in ("pod", "pvc"):
        ground.cluster.kubectl("delete", kind, pod, "--ignore-not-found")
    for volume in json.loads(ground.cluster.kubectl("get", "pv", "-o", "json"))["items"]:
        if volume["spec"].get("claimRef", {}).get("name") == pod:
            ground.cluster.kubectl("delete", "pv", volume["metadata"]["name"])


def copies_in_pods(ground: Ground, name: str, lock: dict[str, Any]) -> str:
    """Where pods of the host have the volume of that disk mounted."""
    volume = volume_name(ground.object_name(name), lock["uid"])
    return ground.agent.here(f"findmnt -rno TARGET | grep local-volume/{volume}", check=False)


def told(ground: Ground, pod: str) -> tuple[str, str]:
    found = get(ground.cluster, "pod", pod)["status"].get("conditions") or ()
    return next(
        ((each["status"], each["reason"]) for each in found if each["type"] == "berth.dev/DiskHealthy"), ("", "")
    )


def test_a_disk_that_breaks_under_a_living_filesystem(ground: Ground) -> None:
    mine = ground.plug()
    ground.declare()
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    lock = ground.lock(mine)
    ground.wait_mounted(mine, lock)
    pod = run_pod(ground, mine, lock)
    try:
        ground.agent.here(f"echo precious > {ground.point(mine)}/data/file; sync")
        ground.cluster.hosts.disk_break(HOST, mine)
        disk = ground.wait_phase(mine, "Faulted")
        assert conditions_of(disk)["Healthy"] == ("False", "Faulted")
        why = ("ProbeFailed", "KernelErrors")  # by a write of its own, after the phase
        ground.wait(mine, "the reason", lambda disk: disk["status"]["health"]["reason"] in why)
        eventually(lambda: told(ground, pod)[0] == "False", 60, "the pod is told")
        assert disk["spec"]["claimRef"] == lock
        assert get(ground.cluster, "pod", pod)["status"]["phase"] == "Running"
        eventually(lambda: not ground.agent.here(f"findmnt -no TARGET {ground.point(mine)}", check=False), 60, "gone")
        # a new pod would not get in; what this one has of it stays its own
        assert "/kubelet/pods/" in ground.agent.here(f"findmnt -no TARGET -S {ground.device(mine)}")

        ground.agent.signal("KILL")  # the verdict outlives the agent
        ground.agent.start(log="second")
        eventually(lambda: "is published" in ground.agent.log("second"), 60, "the second agent")
        assert ground.object(mine)["status"]["phase"] == "Faulted"

        ground.cluster.hosts.disk_heal(HOST, mine)
        remove_pod(ground, pod)
        ground.wait(mine, "healed", lambda disk: disk["status"]["health"]["reason"] == "Healed")
        ground.wait_mounted(mine, lock)
        ground.agent.here(f"echo more > {ground.point(mine)}/data/more; sync")
        assert ground.agent.here(f"cat {ground.point(mine)}/data/file") == "precious"
    finally:
        remove_pod(ground, pod)


def test_a_disk_that_is_pulled_out_under_a_living_filesystem_and_comes_back(ground: Ground) -> None:
    mine = ground.plug()
    ground.declare()
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    lock = ground.lock(mine)
    ground.wait_mounted(mine, lock)
    pod = run_pod(ground, mine, lock)
    try:
        ground.agent.here(f"echo precious > {ground.point(mine)}/data/file; sync")
        ground.pull(mine)
        ground.wait_phase(mine, "Missing")
        eventually(lambda: told(ground, pod) == ("False", "Missing"), 60, "the pod is told")
        assert ground.object(mine)["spec"]["claimRef"] == lock
        # no pod that is faster than the disk may begin on the dead filesystem; what this one has of it stays its own
        ground.wait_condition(mine, "Prepared", "False", "Missing")
        assert not ground.agent.here(f"findmnt -no TARGET {ground.point(mine)}", check=False)
        assert copies_in_pods(ground, mine, lock)
        remove_pod(ground, pod)
        ground.put_back(mine)
        ground.wait_mounted(mine, lock)
        assert ground.agent.here(f"cat {ground.point(mine)}/data/file") == "precious"
    finally:
        remove_pod(ground, pod)


def test_a_pod_that_keeps_the_mount_of_a_disk_that_was_away_is_told(ground: Ground) -> None:
    mine = ground.plug()
    ground.declare()
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    lock = ground.lock(mine)
    ground.wait_mounted(mine, lock)
    pod = run_pod(ground, mine, lock)
    try:
        # an open loop device lives on when it is pulled, a real one answers no more
        ground.cluster.hosts.disk_break(HOST, mine)
        ground.wait_phase(mine, "Faulted")
        ground.pull(mine)
        ground.wait_phase(mine, "Missing")
        ground.cluster.hosts.disk_heal(HOST, mine)
        ground.put_back(mine)
        ground.wait_mounted(mine, lock)
        eventually(lambda: told(ground, pod) == ("False", "OldMount"), 90, "the pod is told of its old mount")
        remove_pod(ground, pod)
        run_pod(ground, mine, lock)
        eventually(lambda: ground.agent.here(f"cat {ground.point(mine)}/data/log"), 90, "the next pod writes")
    finally:
        remove_pod(ground, pod)
