"""The role node_agent as a DaemonSet of real hosts: a pod on its disk and device, an upgrade that fails, removal.

One story, because each part needs the whole cluster's agents: installing them is most of its time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import yaml

from berth_dev.pytest_plugin import say
from tests.dev.hosts_help import eventually, get, out, ssh
from tests.support.agent import IMAGE, AgentOnHost
from tests.support.hosts import run_plays
from tests.support.kube import install_crds
from tests.support.playbook import Run, changed

HOSTS = ["h1", "h2", "h3"]
ON = "h2"  # where the disk and the device are
NAMESPACE, LABEL = "berth-system", "app.kubernetes.io/name=berth-agent"
#: An image that every host has, and that holds no agent.
LAME = "berth.local/busybox:1"
DESCRIPTIONS = "/var/lib/berth/devices.d"
SHOW = "stat -c %t:%T /dev/acc > /data/seen; cat /data/seen; exec sleep 1000000"
pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]


class Ground(NamedTuple):
    cluster: Any
    folder: Path
    serial: str

    def play(self, *args: str, serial: bool = False, **values: Any) -> Run:
        shared = {
            "node_agent_service_manager": "daemonset",
            "node_agent_kubeconfig": str(self.cluster.kubeconfig),
            "node_agent_image": IMAGE,
            "node_agent_intervals": {"poll": "500ms", "devices": 5},
            "node_agent_metrics": {"port": 0},
            "node_agent_usage": {"store": "none"},
            "node_agent_device_descriptions": DESCRIPTIONS,
            "berth_disks": "{{ [{'serial': '" + self.serial + "', 'storage_class': 'ds'}]"
            " if inventory_hostname == '" + ON + "' else [] }}",
        }
        tasks = [{"name": "role", "ansible.builtin.include_role": {"name": "berth.stateful.node_agent"}}]
        one = {"hosts": ":".join(HOSTS), "gather_facts": False, **({"serial": 1} if serial else {})}
        plays = [{**one, "vars": {**shared, **values}, "tasks": tasks}]
        return run_plays(self.cluster, plays, self.folder, *args, timeout=900)

    def app(self, state: str) -> Run:
        container = {
            "name": "main",
            "image": "berth.local/busybox:1",
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", SHOW],
            "resources": {"claims": [{"name": "acc"}]},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        options = {
            "name": "ds",
            "kubeconfig": str(self.cluster.kubeconfig),
            "state": state,
            "replicas": 1,
            "disks": [{"name": "data", "size": "100Mi", "storage_class": "ds"}],
            "devices": [{"name": "acc", "device_class": "acc"}],
            "template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}},
            "wait": True,
            "wait_timeout": 240,
        }
        tasks = [{"name": "app", "berth.stateful.stateful_app": options}]
        plays = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]
        return run_plays(self.cluster, plays, self.folder, timeout=600)

    def pods(self) -> dict[str, tuple[str, str]]:
        """node -> (uid, image) of the agent's pod."""
        listed = self.cluster.kubectl("get", "pods", "-n", NAMESPACE, "-l", LABEL, "-o", "json")
        living = [one for one in json.loads(listed)["items"] if not one["metadata"].get("deletionTimestamp")]
        return {
            one["spec"]["nodeName"]: (one["metadata"]["uid"], one["spec"]["containers"][0]["image"]) for one in living
        }

    def disk(self) -> dict[str, Any]:
        (found,) = (one for one in get(self.cluster, "ld")["items"] if one["spec"]["identity"]["serial"] == self.serial)
        return dict(found)


@pytest.fixture
def ground(dev_cluster: Any, tmp_path: Path) -> Iterator[Ground]:
    install_crds(dev_cluster.kubeconfig)
    dev_cluster.hosts.load_image("berth", say)
    name = f"d{uuid4().hex[:5]}"
    dev_cluster.hosts.disk_add(ON, name, "320Mi")
    (serial,) = (one["serial"] for one in dev_cluster.hosts.disks(ON) if one["name"] == name)
    described = {"class": "acc", "uuid": "acc-zero", "nodes": [{"path": "/dev/acc-zero", "container_path": "/dev/acc"}]}
    made = f"umask 077; rm -f /dev/acc-zero; mknod /dev/acc-zero c 1 5; mkdir -p {DESCRIPTIONS}"
    ssh(dev_cluster, ON, f"{made}; echo '{json.dumps({'devices': [described]})}' > {DESCRIPTIONS}/acc.yaml")
    storage = {"metadata": {"name": "ds"}, "provisioner": "kubernetes.io/no-provisioner"}
    storage |= {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": "WaitForFirstConsumer"}
    dev_cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(storage))
    it = Ground(dev_cluster, tmp_path, serial)
    yield it
    if get(dev_cluster, "daemonset", "-n", NAMESPACE)["items"]:  # the story has ended before its end
        it.app("absent")
        it.play(node_agent_state="absent", node_agent_force=True).ok()
    dev_cluster.kubectl("delete", "storageclass", "ds", "--ignore-not-found")
    for kind in ("localdevices", "resourceslices"):
        dev_cluster.kubectl("delete", kind, "--all")
    for host in HOSTS:
        agent = AgentOnHost(dev_cluster, host)
        agent.forget()
        agent.here(f"rm -rf {DESCRIPTIONS} /dev/acc-zero")
    dev_cluster.hosts.disk_remove(ON, name)


def wait(test: Callable[[], Any], ground: Ground, seconds: float, what: str) -> Any:
    """Until it is true; else what the agents' pods say."""
    try:
        return eventually(test, seconds, what)
    except AssertionError as exc:
        told = ground.cluster.kubectl("-n", NAMESPACE, "describe", "pods", "-l", LABEL)[-4000:]
        raise AssertionError(f"{exc}\n{told}") from None


def test_install_serve_upgrade_and_remove(ground: Ground) -> None:
    batches = ground.play(serial=True).failed()
    assert "h2, h3 would be left out: take serial off the play" in " ".join(batches["msg"].split())
    planned = ground.play("--check", "--diff", "-e", "ansible_port=1").ok()  # nobody listens there: no host is reached
    assert changed(planned)
    assert ground.pods() == {}

    ground.play().ok()
    assert set(ground.pods()) == set(HOSTS)
    assert changed(ground.play().ok()) == []
    policies = ground.cluster.kubectl("get", "deviceclass,mutatingadmissionpolicy", "-o", "name")
    assert "berth.dev" in policies
    assert "berth-device-claims" in policies

    # A StatefulSet's pod gets the very device that its berth locked, and writes to the disk that the agent made ready.
    wait(lambda: get(ground.cluster, "resourceslices")["items"], ground, 120, "the device is published")
    ground.app("present").ok()
    seen = wait(lambda: ground.cluster.kubectl("logs", "ds-0").split(), ground, 120, "the pod's output")
    assert seen == ["1:5"]
    point = f"/var/lib/berth/disks/{ground.disk()['metadata']['name']}"
    assert out(ground.cluster, ON, f"cat {point}/data/seen") == "1:5"

    # An upgrade that cannot succeed ends at its first node, and says where; the pod on the disk knows nothing of it.
    before = ground.pods()
    pod = get(ground.cluster, "pod", "ds-0")["metadata"]["uid"]
    failed = ground.play(node_agent_image=LAME, node_agent_wait_timeout=5).failed()
    assert "of 3 agents" in failed["msg"]
    assert "not Ready: berth-agent-" in failed["msg"]
    new = {node for node, (_uid, image) in ground.pods().items() if image == LAME}
    assert len(new) == 1, ground.pods()
    kept = {node: one for node, one in ground.pods().items() if node not in new}
    assert kept == {node: one for node, one in before.items() if node not in new}
    ground.play().ok()
    assert {image for _uid, image in ground.pods().values()} == {IMAGE}
    assert get(ground.cluster, "pod", "ds-0")["metadata"]["uid"] == pod
    assert out(ground.cluster, ON, f"cat {point}/data/seen") == "1:5"

    # Not while disks are held.
    refused = ground.play(node_agent_state="absent").failed()
    assert "not removed while disks are held" in refused["msg"]
    assert set(ground.pods()) == set(HOSTS)
    ground.app("absent").ok()
    wait(lambda: "claimRef" not in ground.disk()["spec"], ground, 120, "the disk is released")
    ground.play(node_agent_state="absent").ok()
    assert get(ground.cluster, "daemonset", "-n", NAMESPACE)["items"] == []
