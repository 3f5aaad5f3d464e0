# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind cluster on this machine, and everything that belongs to it. `kind_cli` calls this.

    <folder>/kubeconfig       the administrator's
    <folder>/data/kind.json   the wish that it was made of
    <folder>/data/hosts/…     its workers' disks
    <folder>/data/docker      the files of a Docker of its own

Refused wishes are refused before anything is made. The network, the loop devices and the inotify limit come from the
machine's register (`hosts.slots`), so that clusters of both kinds run side by side.
"""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .. import build, images, kwok
from ..cluster import run_kubectl
from ..errors import KindError
from ..hosts import commands, inventory, loops, slots, ssh
from ..hosts.disks import Drawer
from ..hosts.model import Slot
from ..state import ClusterDir, default_folder, write_atomically
from . import docker as dockers
from . import fakes, image, nodes, programs
from .docker import Docker
from .model import Node, Wish, configuration, node_names, nodes_of

CONTROL_PLANES = "berth_control_planes"


class KindCluster:
    """The kind cluster of that name; touches nothing until it is asked to."""

    def __init__(self, name: str) -> None:
        self.name, self.folder = name, ClusterDir(default_folder(f"kind-{name}"))

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder.path / "kubeconfig"

    def wish(self) -> Wish | None:
        """What it was made of; None without a cluster."""
        try:
            return Wish.of(json.loads((self.folder.path / "data/kind.json").read_text()))
        except FileNotFoundError:
            return None

    def lacks(self, wish: Wish, fake_nodes: int = 0) -> list[str]:
        """What `up` would make, a line each; nothing: it is there. KindError for what it would refuse."""
        wish.check()
        known, more = self.wish(), [f"{fake_nodes} fake nodes"] if kwok.checked_count(fake_nodes) else []
        if known is None:
            if self.folder.exists():
                raise KindError(f"kind cluster {self.name}: is half-made, its making was cut short; {self._mend}")
            self._check_machine(wish)
            made = f"kind cluster {wish.name}: 1 control plane, {wish.workers} workers"
            return [made, *more, *self._lacks_image(wish)]
        if known != wish:
            raise KindError(
                f"kind cluster {self.name}: is there with {_said(known)}, and was asked for with {_said(wish)}; "
                "take it down first"
            )
        docker = self._docker()
        if docker is None:
            return [f"Docker of kind cluster {self.name}", *more]
        self._check_whole(docker, known)
        down = [f"node {name}" for name, state in docker.nodes(self.name).items() if state != "running"]
        return [*down, *(more if down else self._fakes(docker).lacks(fake_nodes))]

    def status(self) -> dict[str, Any]:
        """Whether it exists, its nodes with their states, disks and addresses, its kubeconfig."""
        wish = self.wish()
        docker = self._docker() if wish else None
        if wish is None or docker is None:
            return {"exists": self.folder.exists(), "kubeconfig": str(self.kubeconfig)}
        states = docker.nodes(self.name)
        slot = self._slot()
        return {
            "exists": True,
            "kubeconfig": str(self.kubeconfig),
            "kubectl": str(build.ensure_binaries() / "kubectl"),
            "docker_host": docker.host,
            "hosts": [
                {"name": node.name, "state": states.get(node.name, "missing"), "disks": self._disks(node)}
                for node in nodes_of(wish, slot, {})
            ],
        }

    def inventory(self) -> dict[str, Any]:
        """An Ansible inventory: the workers in berth_hosts, the control plane in berth_control_planes."""
        wish, docker = self._known()
        if wish.image:
            return self._docker_inventory(wish, docker)
        made = self._nodes(wish, docker)
        keys = self._keys()
        keys.prepare(made)
        control = keys.control_folder(self._slot())
        workers = inventory.build([node for node in made if not node.is_control_plane], keys, control)
        planes = inventory.build([node for node in made if node.is_control_plane], keys, control)
        return {**workers, CONTROL_PLANES: planes[inventory.GROUP]}

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as the administrator."""
        return run_kubectl(build.ensure_binaries() / "kubectl", self.kubeconfig, arguments, None)

    # -- changing --------------------------------------------------------------------------------------------------

    def up(self, wish: Wish, progress: build.Progress = build.quiet, fake_nodes: int = 0) -> None:
        """Make it, or start what is not running of it, with at least so many fake nodes. All nodes are Ready then."""
        with self.folder.lock():
            if not self.lacks(wish, fake_nodes):
                return
            commands.check_machine()
            self.folder.create()
            slot = self._reserve(wish)
            docker = self._docker() or dockers.start(self.folder, slot.octet, self._runtime(progress))
            if self.wish() is None:
                try:
                    self._make(wish, slot, docker, progress)
                except BaseException:
                    self.down()
                    raise
            for name, state in docker.nodes(self.name).items():
                if state != "running":
                    self.start_node(name)
            self._wait_ready(wish, progress)
            if fake_nodes:
                self._fakes(docker).fill(fake_nodes)
                progress(f"{fake_nodes} fake nodes are Ready")

    def down(self) -> None:
        """Remove it with its disks, its data and everything that it put on the machine. Twice is fine."""
        with self.folder.lock():
            if not self.folder.exists():
                self.folder.remove()
                return
            fakes.stop(self.folder)
            slot = slots.held(self.folder.path)
            docker = self._docker()
            if docker is None and slot is not None and self.folder.recorded("docker"):
                docker = dockers.start(self.folder, slot.octet, self._runtime(build.quiet))
            if docker is not None and self.folder.recorded("docker"):
                # What they have goes with its files, all of them at a time; it would remove one after the other.
                docker.kill_nodes(self.name)
            elif docker is not None:
                docker.remove_nodes(self.name)
                if docker("network", "ls", "--quiet", "--filter", f"name=^{self._network}$").strip():
                    docker("network", "rm", self._network)
            dockers.stop(self.folder)
            if slot is not None:
                ssh.close_connections(self._keys().control_folder(slot))
                loops.remove_all(slot.loops, self.folder.path)
            slots.release(self.folder.path)
            self.folder.remove()

    def stop_node(self, name: str) -> None:
        """As `docker stop`: the node goes down in order."""
        self._known()[1]("stop", "--time", "30", self._checked(name))

    def start_node(self, name: str) -> None:
        """As `docker start`; the kernel keeps foreign disks from it again."""
        wish, docker = self._known()
        docker("start", self._checked(name))
        if not wish.image:
            nodes.guard(docker, next(node for node in self._nodes(wish, docker) if node.name == name))

    def load(self, names: list[str], progress: build.Progress = build.quiet) -> None:
        """Give images of this project (short names, as `berth-dev image`) to every node, to all of them at a time."""
        wish, docker = self._known()
        archives = [images.ensure(name, build.ensure_binaries(progress=progress), progress) for name in names]

        def give(node: str) -> None:
            for archive in archives:
                with open(archive, "rb") as stream:
                    docker("exec", "-i", node, "ctr", "-n", "k8s.io", "images", "import", "--local", "-", stdin=stream)

        with ThreadPoolExecutor() as pool:
            list(pool.map(give, node_names(wish)))

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _mend(self) -> str:
        return f"remove it (state absent, or berth-dev --name {self.name} kind down) and make it anew"

    @property
    def _network(self) -> str:
        return f"berth-kind-{self.name}"

    def _make(self, wish: Wish, slot: Slot, docker: Docker, progress: build.Progress) -> None:
        name = self._image(wish, docker, progress)
        progress("making the nodes")
        options = ["--subnet", f"10.{slot.octet}.0.0/17", "--gateway", slot.gateway]
        options += ["--opt", f"com.docker.network.bridge.name={dockers.bridge(slot.octet)}"]
        docker("network", "create", *options, self._network)
        config = self.folder.path / "kind.yaml"
        write_atomically(config, configuration(wish, slot))
        argv = ["create", "cluster", "--config", str(config), "--image", name, "--kubeconfig", str(self.kubeconfig)]
        dockers.kind(programs.ensure(progress) / "bin/kind", docker, self._network, argv)
        self._check_whole(docker, wish)
        progress("disks, network and ssh of the nodes")
        made = self._nodes(wish, docker)
        keys = self._keys()
        keys.prepare(made)
        drawers = {node.name: self._drawer(node) for node in made if not node.is_control_plane}
        for node in made:
            if drawer := drawers.get(node.name):
                drawer.folder.mkdir(parents=True, exist_ok=True)
                drawer.fill()
                for disk in drawer.plugged():
                    drawer.attach(disk)
                for number in node.spare_loops:
                    loops.detach_ours(number, self.folder.path, node.loops)

        def settle(node: Node) -> None:
            nodes.settle(docker, node, nodes.files(node, made, drawers.get(node.name), keys), not wish.image)
            nodes.guard(docker, node)

        # systemd in each takes its time.
        with ThreadPoolExecutor() as pool:
            list(pool.map(settle, made))
        write_atomically(self.folder.path / "data/kind.json", json.dumps(wish.facts()))

    def _image(self, wish: Wish, docker: Docker, progress: build.Progress) -> str:
        """The node image, in Docker and of the wished version; Docker may run what nodes need."""
        name = wish.image or image.NAME
        if not wish.image and not docker.has_image(name):
            archive = image.ensure(progress)
            progress("loading the node image")
            with open(archive, "rb") as stream:
                docker("load", stdin=stream)
        elif not docker.has_image(name):
            docker("pull", name)
        try:
            found = docker("run", "--rm", "--privileged", "--net=none", "--entrypoint=cat", name, "/kind/version")
        except KindError as error:
            raise KindError(f"Docker may not run node image {name} as kind does (privileged): {error}") from error
        wish.check_version(found.strip())
        return name

    def _lacks_image(self, wish: Wish) -> list[str]:
        return [] if wish.image or image.cached() else [f"node image {image.NAME}, built in minutes"]

    def _check_machine(self, wish: Wish) -> None:
        """What can be known before anything is made."""
        docker = dockers.machines()
        if docker is None:
            dockers.check_own()
        elif others := docker.nodes(self.name):
            raise KindError(
                f"kind cluster {self.name}: Docker has its nodes {', '.join(others)}, which berth-dev did not make; "
                f"take another name, or: kind delete cluster --name {self.name}"
            )
        for port in [*(port.host for port in wish.ports), *([wish.api_port] if wish.api_port else [])]:
            with socket.socket() as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    trial.bind(("127.0.0.1", port))
                except OSError as error:
                    raise KindError(f"port {port} of 127.0.0.1: {error.strerror}; choose another") from None

    def _check_whole(self, docker: Docker, wish: Wish) -> None:
        """kind may say that all is well with nodes missing: KindError naming them."""
        missing = [name for name in node_names(wish) if name not in docker.nodes(self.name)]
        if missing:
            raise KindError(f"kind cluster {self.name}: is half-made, without {', '.join(missing)}; {self._mend}")

    def _reserve(self, wish: Wish) -> Slot:
        count = wish.workers + 1
        self.folder.record("slot", str(self.folder.path), hosts=count)
        return slots.reserve(self.folder.path, count)

    def _slot(self) -> Slot:
        slot = slots.held(self.folder.path)
        if slot is None:
            raise KindError(f"kind cluster {self.name}: the machine was restarted since it was made; take it down")
        return slot

    def _docker(self) -> Docker | None:
        slot = slots.held(self.folder.path)
        mine = dockers.own(self.folder, slot.octet) if slot is not None else None
        return mine or (None if self.folder.recorded("docker") else dockers.machines())

    def _known(self) -> tuple[Wish, Docker]:
        wish, docker = self.wish(), self._docker()
        if wish is None or docker is None:
            raise KindError(f"kind cluster {self.name}: does not run; berth-dev --name {self.name} kind up")
        return wish, docker

    def _nodes(self, wish: Wish, docker: Docker) -> list[Node]:
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        addresses = {name: docker.inspect(name, template) for name in node_names(wish)}
        return nodes_of(wish, self._slot(), addresses)

    def _checked(self, name: str) -> str:
        names = node_names(self._known()[0])
        if name not in names:
            raise KindError(f"node {name}: expected one of {', '.join(names)}")
        return name

    def _fakes(self, docker: Docker) -> fakes.Fakes:
        return fakes.Fakes(self.folder, docker, f"{self.name}-control-plane")

    def _keys(self) -> ssh.Keys:
        return ssh.Keys(self.folder.path / "ssh")

    def _drawer(self, node: Node) -> Drawer:
        return Drawer(node, self.folder.path / "data/hosts" / node.name, self.name, self.folder.tag.partition("=")[2])

    def _disks(self, node: Node) -> list[dict[str, Any]]:
        disks = [] if node.is_control_plane else self._drawer(node).all().values()
        return [{"name": disk.name, "serial": disk.serial, "wwn": disk.wwn, "size": disk.size} for disk in disks]

    @staticmethod
    def _runtime(progress: build.Progress) -> Path:
        return programs.ensure(progress) / "bin/berth-runc"

    @staticmethod
    def _docker_inventory(wish: Wish, docker: Docker) -> dict[str, Any]:
        """kind's own images have no sshd: the connection of community.docker."""
        variables = {"ansible_connection": "community.docker.docker"}
        if docker.host:
            variables["ansible_docker_docker_host"] = docker.host
        names = node_names(wish)
        groups = {inventory.GROUP: names[1:], CONTROL_PLANES: names[:1]}
        return {
            group: {
                "hosts": {name: {"ansible_host": name, "berth_node_name": name} for name in members},
                "vars": variables,
            }
            for group, members in groups.items()
        }

    def _wait_ready(self, wish: Wish, progress: build.Progress, seconds: float = 180.0) -> None:
        began = time.monotonic()
        path = '{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
        while True:
            rows = self.kubectl("get", "nodes", "-o", f"jsonpath={path}").splitlines()
            ready = {row.split()[0] for row in rows if row.endswith(" True")}
            late = [name for name in node_names(wish) if name not in ready]
            if not late:
                progress(f"{len(ready)} nodes are Ready ({time.monotonic() - began:.1f} s)")
                return
            if time.monotonic() - began > seconds:
                raise KindError(
                    f"nodes {', '.join(late)}: not Ready within {seconds:.0f} s; docker logs NODE says more"
                )
            time.sleep(0.2)


def _said(wish: Wish) -> str:
    port = wish.api_port or "a free one"
    ports = ", ".join(f"{p.host}:{p.node}" for p in wish.ports) or "none"
    return f"{wish.workers} workers, image {wish.image or image.NAME}, API server's port {port}, ports {ports}"
