"""A StatefulSet over a disk that its host mounts comes under berth, is updated by it, and goes on without it.

Real kubelet, agent and disk; the pod writes a line each time it starts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.adoption import OPERATION as ADOPTION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.observed import ready
from tests.apiserver.app.runner import SPEC, STATUS, run
from tests.daemons.agent.disk_ground import NAMESPACE, Ground
from tests.dev.hosts_help import eventually
from tests.support.agent import install_rights

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise]
HOST, POD, VOLUME, LABELS = "h3", "before-0", "before-berth", {"app": "before"}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "before", "namespace": NAMESPACE},
    "spec": {"clusterIP": "None", "selector": LABELS},
}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "by-hand"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
WHERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": [HOST]}


@pytest.fixture
def ground(dev_cluster: Any) -> Iterator[Ground]:
    install_rights(dev_cluster)
    made = Ground(dev_cluster, HOST)
    yield made
    api = made.agent.api
    for kind in (kinds.STATEFUL_SET, kinds.SERVICE):
        api.delete(kind, "before", NAMESPACE)
    eventually(lambda: api.find(kinds.POD, POD, NAMESPACE) is None, 60, f"{POD} to go")
    api.delete(kinds.PVC, f"data-{POD}", NAMESPACE)
    api.delete(kinds.PV, VOLUME)
    api.delete(kinds.STORAGE_CLASS, "by-hand")
    for name in made.plugged:
        made.agent.here(f"umount /mnt/{name}; rm -rf /mnt/{name}; sed -i '/{name}/d' /etc/fstab", check=False)
    made.clean()


def manifest(says: str) -> dict[str, Any]:
    """The StatefulSet as its owner has written it; ``says`` is what its pod writes when it starts."""
    container = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"echo {says} >> /data/starts; sync; exec sleep 1000000"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "50Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "before", "namespace": NAMESPACE},
        "spec": {
            "serviceName": "before",
            "replicas": 1,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {**claim, "storageClassName": "by-hand"}}],
        },
    }


def given(says: str) -> dict[str, Any]:
    """The same with its Service, as the modules are given it."""
    return {"apiVersion": "v1", "kind": "List", "items": [manifest(says), copy.deepcopy(SERVICE)]}


def by_hand(ground: Ground) -> tuple[str, str]:
    """What was there before berth: a filesystem in the host's fstab, a volume over it, and the pod. (disk, path)"""
    disk = ground.plug()
    device, path = ground.device(disk), f"/mnt/{disk}"
    ground.agent.here(
        f"mkfs.ext4 -q {device} && mkdir -p {path} && echo '{device} {path} ext4 defaults,nofail 0 2' >> /etc/fstab "
        f"&& mount {path}"
    )
    spec = {
        "capacity": {"storage": "64Mi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "by-hand",
        "local": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [WHERE]}]}},
    }
    api = ground.agent.api
    api.create(kinds.PV, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": VOLUME}, "spec": spec})
    api.create(kinds.STORAGE_CLASS, CLASS)
    api.create(kinds.SERVICE, SERVICE)
    api.create(kinds.STATEFUL_SET, manifest("first"))
    eventually(lambda: is_ready(ground), 90, "the pod to be Ready")
    return disk, path


def is_ready(ground: Ground) -> bool:
    return ready(ground.agent.api.find(kinds.POD, POD, NAMESPACE))


def pod_uid(ground: Ground) -> str:
    return str(ground.agent.api.get(kinds.POD, POD, NAMESPACE)["metadata"]["uid"])


def starts(ground: Ground, path: str) -> list[str]:
    return ground.agent.here(f"cat {path}/starts").split()


def done(result: dict[str, Any] | None) -> dict[str, Any]:
    assert result is not None
    assert not result.get("failed"), result
    return result


def test_into_berth_through_an_update_and_out_again(ground: Ground) -> None:
    disk, path = by_hand(ground)
    uid = pod_uid(ground)
    ground.declare(**{disk: {"reserved": True, "storage_class": "by-hand"}})
    ground.agent.start()
    ground.wait(disk, "seen where it is mounted", lambda one: path in one["status"]["observed"].get("mounts", ()))
    assert ground.object(disk)["spec"]["reserved"] is True

    target = {"name": "before", "namespace": NAMESPACE, "kubeconfig": str(ground.cluster.kubeconfig)}
    into = {**target, "state": "adopted", "template": given("first")}
    assert done(run(into, ADOPTION, check=True))["changed"]
    assert "claimRef" not in ground.object(disk)["spec"]
    done(run(into, ADOPTION))
    assert "mounts it" in ground.wait_condition(disk, "Prepared", "True", "MountedByHost")
    ground.wait_phase(disk, "InUse")
    assert (pod_uid(ground), starts(ground, path)) == (uid, ["first"]), "no pod is restarted"

    app = {**target, "template": given("first"), "wait": True, "wait_timeout": 90}
    same = done(run(app))
    assert same["trace"] == [SPEC, STATUS], "it writes the app down, and nothing else"
    assert done(run({**app, "template": given("second")}))["changed"]
    assert starts(ground, path) == ["first", "second"], "the next pod is on the same filesystem"
    assert not ground.object(disk)["spec"].get("reserved"), "the declaration waits while a replica has the disk"
    uid = pod_uid(ground)

    assert done(run({**target, "state": "released"}, ADOPTION))["changed"]
    retained = ground.wait_phase(disk, "Released")["spec"]["retainedFor"]
    assert (retained["volume"], retained["mountPoint"]) == (VOLUME, path)
    assert (pod_uid(ground), starts(ground, path)) == (uid, ["first", "second"])
    assert path in ground.agent.here(f"findmnt -n -o TARGET {ground.device(disk)}").split(), "as its host mounts it"
