# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster was asked to be, kept in its folder as data/cluster.json. `cluster` calls this; it starts nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .build import DEFAULT_VERSION
from .components import Settings
from .errors import StateError
from .state import ClusterDir, write_atomically

DEFAULT_HOSTS = 3
MOST_HOSTS = 20
# Kubernetes waits 50 s. A kubelet or kwok renews every 10 s; two missed renewals are told from a busy machine by this.
DEFAULT_GRACE = 30


@dataclass(frozen=True)
class Spec:
    """`bin`: where its programs are. `gateway`: the hosts' bridge address, or None. `node_grace`: seconds."""

    bin: str = ""
    version: str = DEFAULT_VERSION
    hosts: int = 0
    gateway: str | None = None
    node_grace: int = DEFAULT_GRACE
    ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """The part that the control plane's command lines are made from."""
        return Settings(dict(self.ports), self.gateway, self.node_grace)


def load(folder: ClusterDir) -> Spec | None:
    """What was saved; None when the cluster is not there or died before it could write."""
    try:
        return Spec(**json.loads((folder.path / "data" / "cluster.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def save(folder: ClusterDir, spec: Spec) -> None:
    """Write it down, as one step."""
    write_atomically(folder.path / "data" / "cluster.json", json.dumps(asdict(spec), indent=1))


def lacking(status: Mapping[str, Any], core: Sequence[str], hosts: int, fake_nodes: int) -> list[str]:
    """What a cluster of that status (`Cluster.status`) lacks to be what is asked for, in words."""
    if "components" not in status:
        return ["the cluster"]
    components, have, fakes = status["components"], status["hosts"], status["fake_nodes"] or 0
    wanted = [*core, *(["kwok"] if fakes or fake_nodes else [])]
    missing = [f"component {name}" for name in wanted if not components.get(name, {}).get("alive")]
    if not missing and not status["ready"]:
        missing.append("readiness of the API server")
    missing += [f"power of host {host['name']}" for host in have if host["power"] != "on"]
    missing += [f"{hosts - len(have)} hosts"] if hosts > len(have) else []
    missing += [f"{fake_nodes - fakes} fake nodes"] if fake_nodes > fakes else []
    return missing


def wanted_hosts(asked: int | None, known: Spec | None, root: bool, say: Callable[[str], None]) -> int:
    """How many hosts the cluster is to have. Raises StateError for a number that cannot be had."""
    have = known.hosts if known is not None else 0
    if asked is None:
        if known is None and not root:
            say("not root: no real hosts; the control plane and fake nodes alone (real hosts need root)")
        return have if known is not None else DEFAULT_HOSTS if root else 0
    if not 0 <= asked <= MOST_HOSTS:
        raise StateError(f"number of hosts {asked}: expected 0 to {MOST_HOSTS}")
    if asked and not root:
        raise StateError(f"number of hosts {asked}: real hosts need root; run as root, or ask for 0 and use fake nodes")
    if asked < have:
        raise StateError(f"number of hosts {asked}: the cluster has {have} already; take it down first to have fewer")
    return asked
