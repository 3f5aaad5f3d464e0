"""Seconds to a kind cluster that is Ready, beside plain kind's; and of the scenario's converge playbook on it.

All clusters are in one Docker, with the node image in it from the start, and berth's and plain kind's take turns.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from berth_dev.errors import KindError
from berth_dev.hosts import slots
from berth_dev.kind import docker as dockers
from berth_dev.kind import image, programs
from berth_dev.kind.cluster import KindCluster
from berth_dev.kind.docker import Docker
from berth_dev.kind.model import Wish, configuration
from berth_dev.state import ClusterDir

from .figures import Figure, median
from .ground import ROOT, Ground, say

ROUNDS = 3
SCENARIO = ROOT / "extensions" / "molecule" / "kind"


def up(ground: Ground) -> list[Figure]:
    """kind/up: three nodes, berth's until all are Ready with disks, pods' network and ssh."""
    if not _possible("kind/up"):
        return []
    ours, peers = [], []
    with _docker(ground) as docker:
        for number in range(ROUNDS):
            say(f"round {number + 1} of {ROUNDS}")
            ours.append(_ours(f"bench{os.getpid()}"))
            peers.append(_plain(ground.folder, docker, f"plain{os.getpid()}"))
    notes = (
        f"one control plane, two workers, image {image.NAME}; the peer's ends when kind ends:",
        "its nodes have no pods' network (and so are not Ready), no disks, and Ansible does not reach them",
    )
    return [Figure("kind/up", median(ours), median(peers), "s", f"kind {programs.KIND_VERSION} create cluster", notes)]


def converge(ground: Ground) -> list[Figure]:
    """kind/converge: the playbook that the scenario converges with, and the same once more."""
    if not _possible("kind/converge"):
        return []
    with _docker(ground):
        name = f"bench{os.getpid()}"
        try:
            inventory = _inventory(ground.folder, name)
            _playbook(inventory, "create")
            first, _said = _playbook(inventory, "converge")
            again, said = _playbook(inventory, "converge")
        finally:
            KindCluster(name).down()
    assert not re.search(r"changed=[1-9]", said), said
    text = "custom resources, class, every disk of two workers, an application of two replicas until it runs"
    return [
        Figure("kind/converge/first", first, None, "s", None, (text,)),
        Figure("kind/converge/again", again, None, "s", None, ("nothing changes",)),
    ]


def _possible(name: str) -> bool:
    """Whether there is a Docker to start and a node image to start it with: neither is made for a figure."""
    try:
        dockers.check_own()
    except KindError as error:
        say(f"{name}: NOT RUN, {error}")
        return False
    if not image.cached():
        say(f"{name}: NOT RUN, the node image is not cached; make kind-image makes it")
    return image.cached()


@contextlib.contextmanager
def _docker(ground: Ground) -> Iterator[Docker]:
    """A Docker with the node image, which all that runs meanwhile takes for the machine's own."""
    folder = ClusterDir(ground.folder / "docker")
    folder.create()
    try:
        slot = slots.reserve(folder.path, 1)
        say("a Docker with the node image")
        docker = dockers.start(folder, slot.octet, programs.ensure() / "bin/berth-runc")
        with open(image.ensure(), "rb") as stream:
            docker("load", stdin=stream)
        os.environ["DOCKER_HOST"] = docker.host
        yield docker
    finally:
        os.environ.pop("DOCKER_HOST", None)
        dockers.stop(folder)
        slots.release(folder.path)


def _ours(name: str) -> float:
    cluster = KindCluster(name)
    started = time.perf_counter()
    try:
        cluster.up(Wish(name))
        return time.perf_counter() - started
    finally:
        cluster.down()


def _plain(folder: Path, docker: Docker, name: str) -> float:
    """kind as it is, told the same of nodes, kubelets and networks."""
    program, config, kubeconfig = programs.ensure() / "bin/kind", folder / "plain.yaml", folder / "plain.kubeconfig"
    place = ClusterDir(folder / name)
    place.create()
    try:
        config.write_text(configuration(Wish(name), slots.reserve(place.path, 3)))
        argv = ["create", "cluster", "--config", str(config), "--image", image.NAME, "--kubeconfig", str(kubeconfig)]
        started = time.perf_counter()
        dockers.kind(program, docker, name, argv)
        return time.perf_counter() - started
    finally:
        dockers.kind(program, docker, name, ["delete", "cluster", "--name", name, "--kubeconfig", str(kubeconfig)])
        docker("network", "rm", name)
        slots.release(place.path)


def _inventory(folder: Path, name: str) -> Path:
    """What all scenarios and this one say of localhost, for a bench's cluster with no images but those it runs."""
    variables: dict[str, object] = {}
    for file in (SCENARIO.parent / "config.yml", SCENARIO / "molecule.yml"):
        variables |= yaml.safe_load(file.read_text())["provisioner"]["inventory"]["host_vars"]["localhost"]
    variables |= {"kind_cluster_name": name, "kind_cluster_load": ["pause", "busybox"]}
    path = folder / "inventory.yml"
    path.write_text(yaml.safe_dump({"ungrouped": {"hosts": {"localhost": variables}}}))
    return path


def _playbook(inventory: Path, name: str) -> tuple[float, str]:
    """Seconds that it took, and what it said. RuntimeError with its end where it failed."""
    playbook = SCENARIO.parent / "default" / f"{name}.yml"
    argv = [Path(sys.executable).parent / "ansible-playbook", "-i", inventory, playbook]
    started = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{playbook}: {done.stdout[-2000:]}{done.stderr[-500:]}")
    return time.perf_counter() - started, done.stdout
