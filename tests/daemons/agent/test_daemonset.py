"""The agent as a DaemonSet of the real cluster: the manifest that is shipped, the image that is built, real pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from berth_dev.pytest_plugin import say
from tests.daemons.agent.disk_ground import Ground
from tests.dev.hosts_help import eventually, out
from tests.support.agent import NAMESPACE, ROOT, AgentOnHost, daemonset, install_rights

pytestmark = pytest.mark.hosts
HOST = "h2"
SETTINGS = {
    "disk_selectors": [{"query": "[?model == 'BERTH_DEV_DISK']", "storage_class": "fast"}],
    "intervals": {"poll": 0.5, "debounce": 0.1},
    "metrics": {"port": 0},
}


def pods(cluster: Any) -> str:
    """What an error shows of them."""
    return str(cluster.kubectl("-n", NAMESPACE, "describe", "pods", "-l", "app.kubernetes.io/name=berth-agent"))[-5000:]


def log(cluster: Any) -> str:
    return str(
        cluster.kubectl("-n", NAMESPACE, "logs", "-l", "app.kubernetes.io/name=berth-agent", "--tail", "40", "--prefix")
    )


def test_every_node_is_published_and_a_lock_is_carried_out(dev_cluster: Any) -> None:
    install_rights(dev_cluster)
    dev_cluster.hosts.load_image("berth", say)
    config = {
        "metadata": {"name": "berth-agent", "namespace": NAMESPACE},
        "data": {"default.yaml": yaml.safe_dump(SETTINGS)},
    }
    dev_cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "ConfigMap", **config}))
    dev_cluster.kubectl("apply", "-f", "-", stdin=json.dumps(daemonset()))
    agents = [AgentOnHost(dev_cluster, host) for host in ("h1", "h2", "h3")]
    ground = Ground(dev_cluster, HOST)
    point = ""
    try:
        try:
            for agent in agents:
                eventually(lambda one=agent: set(one.phases().values()) == {"Available"}, 240, f"disks of {agent.node}")
                eventually(
                    lambda one=agent: one.conditions()["Ready"]["status"] == "True", 60, f"agent of {agent.node}"
                )
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{pods(dev_cluster)}\n{log(dev_cluster)}") from None
        disk = dev_cluster.hosts.disks(HOST)[0]
        ground.plugged["d"] = disk
        lock = ground.lock("d")
        point = ground.point("d")
        try:
            # on the host itself, not only in the pod: the kubelet and other pods have to see it
            eventually(lambda: out(dev_cluster, HOST, f"findmnt -no UUID {point}"), 120, "the mount on the host")
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{ground.object('d')}\n{log(dev_cluster)}") from None
        assert out(dev_cluster, HOST, f"findmnt -no UUID {point}") == ground.uuid("d", lock)
        assert out(dev_cluster, HOST, f"readlink -f {ground.link('d')}") == f"{point}/data"
        assert ground.agent.phases()[disk["serial"]] in ("Locked", "InUse")
        dev_cluster.kubectl(
            "patch", "ld", ground.object_name("d"), "--type=merge", "-p", '{"spec": {"claimRef": null}}'
        )
    finally:
        dev_cluster.kubectl("delete", "-f", str(ROOT / "deploy/agent/daemonset.yaml"), "--wait=true")
        dev_cluster.kubectl("delete", "configmap", "berth-agent", "-n", NAMESPACE)
        for berth in ground.berths:
            dev_cluster.kubectl("delete", "berths.berth.dev", berth, "-n", "default")
        for agent in agents:
            agent.forget()
        if point:
            device = dev_cluster.hosts.disks(HOST)[0]["device"]
            out(dev_cluster, HOST, f"wipefs -qa {device}; blkdiscard -fz {device}")
