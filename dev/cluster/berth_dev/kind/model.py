# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kind cluster is: its nodes, its configuration for kind, which wishes are refused. Pure."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from ..errors import KindError
from ..hosts.model import MAX_HOSTS, Host, Slot
from . import image, programs

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_PORT = re.compile(r"([0-9]{1,5}):([0-9]{1,5})")
_VERSION = re.compile(r"v?(1\.[0-9]{1,3})(\.[0-9]{1,3})?")


@dataclass(frozen=True)
class Port:
    """A port of this machine (its loopback) that leads to one of the control plane's node."""

    host: int
    node: int

    @staticmethod
    def parse(text: str) -> Port:
        """Of 'HOST:NODE', such as '8080:30080'. KindError for anything else."""
        match = _PORT.fullmatch(text)
        if match is None or not all(0 < int(part) < 65536 for part in match.groups()):
            raise KindError(f"port {text!r}: expected MACHINE:NODE, two numbers of 1 to 65535, such as 8080:30080")
        return Port(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class Wish:
    """What a user asks for. `image` '': the one made here; `kubernetes`: a version or minor, '': that of the image;
    `api_port` 0: a free one."""

    name: str
    workers: int = 2
    image: str = ""
    kubernetes: str = ""
    api_port: int = 0
    ports: tuple[Port, ...] = ()

    def check(self) -> None:
        """KindError naming what is not to be had, before anything is made."""
        if not _NAME.fullmatch(self.name):
            raise KindError(f"name {self.name!r}: expected lower-case letters, digits and '-', at most 40")
        if not 1 <= self.workers < MAX_HOSTS:
            raise KindError(f"workers {self.workers}: expected 1 to {MAX_HOSTS - 1}")
        if not 0 <= self.api_port < 65536:
            raise KindError(f"API server's port {self.api_port}: expected 1 to 65535, or 0 for a free one")
        wanted = [port.host for port in self.ports] + ([self.api_port] if self.api_port else [])
        twice = sorted({port for port in wanted if wanted.count(port) > 1})
        if twice:
            raise KindError(f"port {twice[0]}: is asked for twice")
        if self.kubernetes and not _VERSION.fullmatch(self.kubernetes):
            raise KindError(f"Kubernetes {self.kubernetes!r}: expected a minor version or a release, such as 1.36")
        if not self.image:
            self.check_version(programs.KUBERNETES_VERSION)

    def check_version(self, found: str) -> None:
        """`found`: what the image has, such as v1.36.4. KindError when another was asked for."""
        wanted = self.kubernetes.removeprefix("v")
        if wanted and not f"{found.removeprefix('v')}.".startswith(f"{wanted}."):
            hint = "" if self.image else "; another one needs a registry and kind_cluster_image: kindest/node:vX.Y.Z"
            raise KindError(f"Kubernetes {self.kubernetes}: node image {self.image or image.NAME} has {found}{hint}")

    def facts(self) -> dict[str, Any]:
        """As JSON, to be remembered."""
        return asdict(self)

    @staticmethod
    def of(facts: dict[str, Any]) -> Wish:
        """The reverse."""
        return Wish(**{**facts, "ports": tuple(Port(**port) for port in facts["ports"])})


@dataclass(frozen=True)
class Node(Host):
    """A node as a host of the slot; Docker chooses its address."""

    ip: str = ""

    @property
    def address(self) -> str:
        """Its address on Docker's network."""
        return self.ip

    @property
    def is_control_plane(self) -> bool:
        """The first one; it has no disks."""
        return self.index == 1


def node_names(wish: Wish) -> list[str]:
    """As kind names containers and nodes: the control plane, then the workers."""
    workers = [f"{wish.name}-worker{number if number > 1 else ''}" for number in range(1, wish.workers + 1)]
    return [f"{wish.name}-control-plane", *workers]


def nodes_of(wish: Wish, slot: Slot, addresses: dict[str, str]) -> list[Node]:
    """The nodes with their places in the slot."""
    names = enumerate(node_names(wish), 1)
    return [Node(name, index, slot, addresses.get(name, "")) for index, name in names]


def configuration(wish: Wish, slot: Slot) -> str:
    """kind's own configuration file."""
    kubelet = {"kind": "KubeletConfiguration", "failCgroupV1": False}
    # The connection table's limits are the machine's and stay as they are.
    proxy = {"kind": "KubeProxyConfiguration", "conntrack": {"maxPerCore": 0, "min": 0}}
    mappings = [{"containerPort": p.node, "hostPort": p.host, "listenAddress": "127.0.0.1"} for p in wish.ports]
    config = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": wish.name,
        "networking": {
            # The CNI of kind's own images is in them, and in no module.
            **({} if wish.image else {"disableDefaultCNI": True, "kubeProxyMode": "nftables"}),
            "podSubnet": slot.pod_network,
            **({"apiServerPort": wish.api_port} if wish.api_port else {}),
        },
        "kubeadmConfigPatches": [yaml.safe_dump(kubelet), yaml.safe_dump(proxy)],
        "nodes": [
            {"role": "control-plane", **({"extraPortMappings": mappings} if mappings else {})},
            *[{"role": "worker"}] * wish.workers,
        ],
    }
    return yaml.safe_dump(config, sort_keys=False)
