"""agent/idle as a DaemonSet: the shipped manifest, the image that is built, as many disks as a real host has slots.

The pod's process is looked at from the host, so the figures are those of `agent.py` for the zipapp.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from berth_dev.cluster import Cluster
from tests.dev.hosts_help import eventually, out
from tests.support.agent import NAMESPACE, AgentOnHost, daemonset, install_rights

from .agent import PORT, at_rest
from .figures import Figure
from .ground import Ground, say
from .processes import cpu_seconds, resident

HOST = "h1"
#: As many disks as a host of the development cluster can have.
DISKS = 23
_READ = f"from urllib.request import urlopen; print(urlopen('http://127.0.0.1:{PORT}/metrics').read().decode())"


def idle(_ground: Ground) -> list[Figure]:
    """Memory, CPU and writes of the agent's pod at rest."""
    if os.geteuid() != 0:
        say("agent/idle-pod needs a real host, and that needs root: left out")
        return []
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        cluster = Cluster(Path(folder) / f"a{Path(folder).name[-6:]}")
        try:
            cluster.up(hosts=1)
            return at_rest(_started(cluster), "agent/idle-pod")
        finally:
            cluster.down()


class _Pod:
    """The agent's process on its host."""

    def __init__(self, cluster: Cluster, pid: str) -> None:
        self.cluster, self.pid = cluster, pid

    def cpu(self) -> float:
        return cpu_seconds(out(self.cluster, HOST, f"cat /proc/{self.pid}/stat"))

    def memory(self) -> float:
        return resident(out(self.cluster, HOST, f"cat /proc/{self.pid}/status"))

    def figures(self) -> str:
        return out(self.cluster, HOST, f'/usr/bin/python3 -c "{_READ}"')


def _started(cluster: Cluster) -> _Pod:
    """The disks, and the DaemonSet, until it has published them all."""
    install_rights(cluster)
    cluster.hosts.load_image("berth", say)
    for number in range(len(cluster.hosts.disks(HOST)), DISKS):
        cluster.hosts.disk_add(HOST, f"idle{number}", "320Mi")
    settings: dict[str, Any] = {
        "disk_selectors": [{"query": "[?model == 'BERTH_DEV_DISK']", "storage_class": "fast"}],
        "metrics": {"port": PORT},
    }
    named = {"name": "berth-agent", "namespace": NAMESPACE}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": named,
        "data": {"default.yaml": yaml.safe_dump(settings)},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(config))
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(daemonset()))
    agent = AgentOnHost(cluster, HOST)
    eventually(lambda: list(agent.phases().values()) == ["Available"] * DISKS, 300, "published disks")
    eventually(lambda: agent.conditions()["Ready"]["status"] == "True", 120, "an agent that is Ready")
    return _Pod(cluster, out(cluster, HOST, "pgrep -of '^/usr/bin/python3 -I /opt/berth/agent run'"))
