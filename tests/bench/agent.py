"""The node agent: how soon a node is published, and what an agent costs while nothing happens.

A real agent process (the zipapp, with its own node's token) against the real API server. Its disks are those of a
made-up tree of /sys and udev's database: 256 disks are nowhere at hand, and the same code reads them. At rest it is
measured as a DaemonSet too (agent_pod.py), on a real host with 24 loop devices.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.request import urlopen

import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import LOCAL_DISK
from tests.support.agent import install_rights, kubeconfig, token, zipapp
from tests.support.kube import client_for
from tests.unit.host import trees

from .figures import Figure
from .ground import Ground, say
from .processes import cpu_of, resident_of

COUNTS = (3, 24, 256)
IDLE_DISKS = 24
#: After the first round of every check, whose results are written once; then for two rounds of each.
WARM_SECONDS, IDLE_SECONDS = 100, 130
PORT = 19818


def publish(ground: Ground) -> list[Figure]:
    """From the agent's start to the status of every disk at the API server."""
    figures = []
    for at, count in enumerate(COUNTS):
        node = f"bench-{at}"
        with _agent(ground, node, count) as agent:
            seconds = agent.wait_published()
        figures.append(Figure(f"agent/publish/{count}", seconds, None, "s", None))
    return figures


def idle(ground: Ground) -> list[Figure]:
    """Memory, CPU and writes of an agent with 24 disks at rest: the zipapp as a process of its own."""
    with _agent(ground, "bench-3", IDLE_DISKS) as agent:
        agent.wait_published()
        return at_rest(agent, "agent/idle")


def at_rest(agent: Watched, name: str) -> list[Figure]:
    """What an agent takes while nothing happens, from a while after it has published everything."""
    time.sleep(WARM_SECONDS)
    say(f"watching an idle agent for {IDLE_SECONDS} s")
    cpu, before, began = agent.cpu(), agent.figures(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    seconds = time.monotonic() - began
    share, memory, after = 100 * (agent.cpu() - cpu) / seconds, agent.memory(), agent.figures()
    done, renewed = ((_writes(after, whose) - _writes(before, whose)) * 3600 / seconds for whose in ("api", "lease"))
    note = (f"besides {renewed:.0f} renewals of the Lease",)
    return [
        Figure(f"{name}/memory", memory, None, "MB", None, ("resident; the aim is below 40",)),
        Figure(f"{name}/cpu", share, None, "% of a core", None, ("the aim is below 0.5",)),
        Figure(f"{name}/writes", done, None, "writes an hour", None, note),
    ]


def _writes(figures: str, whose: str) -> float:
    """Writes so far, as the agent's own figures tell."""
    lines = re.findall(rf'^berth_agent_{whose}_requests_total{{verb="(\w+)"}} (\S+)$', figures, re.MULTILINE)
    return sum(float(value) for verb, value in lines if verb in ("create", "replace", "apply", "patch", "delete"))


class Watched(Protocol):
    """An agent that is measured."""

    def cpu(self) -> float:
        """Seconds of processor time since it began."""

    def memory(self) -> float:
        """Resident memory in MB (10^6)."""

    def figures(self) -> str:
        """What /metrics answers."""


class _Agent:
    """One process, and what it says."""

    def __init__(self, ground: Ground, node: str, disks: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.ground, self.node, self.disks, self.process, self.log = ground, node, disks, process, log
        self.began = time.monotonic()

    def wait_published(self) -> float:
        """Seconds until every disk has a phase at the API server."""
        while b"everything that was seen is published" not in self.log.read_bytes():
            if self.process.poll() is not None or time.monotonic() - self.began > 300:
                raise RuntimeError(f"the agent did not publish:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.01)
        seconds = time.monotonic() - self.began
        api = client_for(self.ground.cluster.kubeconfig)
        found = [
            disk for disk in api.list(LOCAL_DISK) if disk["spec"]["nodeName"] == self.node and "made-up" in str(disk)
        ]
        phases = [(disk.get("status") or {}).get("phase") for disk in found]
        if phases != ["Available"] * self.disks:
            raise RuntimeError(f"published are {phases}, expected {self.disks} disks")
        return seconds

    def cpu(self) -> float:
        return cpu_of(self.process.pid)

    def memory(self) -> float:
        return resident_of(self.process.pid)

    def figures(self) -> str:
        with urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10) as answer:
            return str(answer.read().decode())


@contextmanager
def _agent(ground: Ground, node: str, disks: int) -> Iterator[_Agent]:
    """An agent of a fake node whose disks are those of a made-up tree."""
    install_rights(ground.cluster)
    folder = ground.folder / f"agent-{node}"
    _tree(folder / "tree", disks)
    (folder / "agent.pyz").write_bytes(zipapp())
    (folder / "token").write_text(token(ground.cluster, node))
    (folder / "kubeconfig").write_text(kubeconfig(ground.cluster, ground.cluster.api_url, str(folder / "token")))
    settings = {
        "node": node,
        "disk_selectors": [{"query": "[?model == 'made-up']", "storage_class": "made-up"}],
        "policies": {"devices": False},
        "usage": {"store": "none"},
        "metrics": {"port": PORT},
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(settings))
    (folder / "cache").mkdir()
    command = [sys.executable, "-I", str(folder / "agent.pyz"), "run", "--tree", str(folder / "tree")]
    for option, path in (("config", "agent.yaml"), ("kubeconfig", "kubeconfig"), ("state-directory", "state")):
        command += [f"--{option}", str(folder / path)]
    log = folder / "log"
    environment = {**os.environ, "CACHE_DIRECTORY": str(folder / "cache")}
    # an agent is unpacked once for each version, and started many times
    subprocess.run([*command[:4], "--help"], env=environment, check=True, stdout=subprocess.DEVNULL)
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)
    try:
        yield _Agent(ground, node, disks, process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        shutil.rmtree(folder)


def _tree(root: Path, count: int) -> None:
    for at in range(count):
        udev = f"E:ID_SERIAL_SHORT=MADE-UP-{root.parent.name}-{at}\nE:ID_MODEL=made-up\nS:disk/by-id/made-up-{at}"
        trees.disk(root, f"sd{at}", f"{8 + at // 16}:{at % 16 * 16}", 1 << 30, udev, device__state="running")
    trees.mounts(root, "0:25 / / - tmpfs none rw")
