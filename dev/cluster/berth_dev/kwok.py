# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake nodes: Node objects that kwok keeps Ready and whose pods it reports as running. `cluster` and `kind.fakes` call
this; `kwok_ready` waits until kwok acts for them.

They carry the label and the taint-free shape of real nodes, and `type: kwok`, by which kwok (and nobody else) cares
for them. Nothing here touches a node without that label.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from .errors import ComponentError, KubeError
from .gomod import KWOK
from .kubeapi import KubeApi
from .state import ClusterDir, write_atomically

SELECTOR = "type%3Dkwok"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_NODES = "/api/v1/nodes"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DELETION_POLICY = "berth-dev-kwok"
# Enough to keep the API server busy; more threads only wait for each other here.
_WORKERS = 8
# kwok does 4 of each at once by default, which is what a thousand nodes then wait for.
CONFIGURATION = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": {"nodePlayStageParallelism": 16, "nodeLeaseParallelism": 16, "podPlayStageParallelism": 16},
}
# kwok's own convention: what is to run on real nodes only never comes to a fake one.
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
# As kwok itself reports a node that it has brought up.
NODE_INFO = {
    **dict.fromkeys(("machineID", "systemUUID", "bootID", "osImage"), ""),
    **dict.fromkeys(
        ("kernelVersion", "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion"),
        f"kwok-{KWOK.removeprefix('v')}",
    ),
    "operatingSystem": "linux",
    "architecture": "amd64",
}
_QUANTITY = re.compile(r"^\d+(\.\d+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")


@dataclass(frozen=True)
class Shape:
    """What a fake node has. Quantities as Kubernetes writes them; `zones` above 0: spread over so many zones;
    `tainted`: only for pods that tolerate it, where there are real nodes too."""

    cpu: str = "32"
    memory: str = "256Gi"
    pods: int = 110
    prefix: str = "fake-"
    labels: Mapping[str, str] = field(default_factory=dict)
    zones: int = 0
    tainted: bool = False

    def __post_init__(self) -> None:
        for name, value in (("cpu", self.cpu), ("memory", self.memory)):
            if not _QUANTITY.match(value):
                raise KubeError(f"{name} {value!r}: expected a quantity like 4, 500m or 16Gi")
        if self.pods < 1:
            raise KubeError(f"pods {self.pods}: expected at least 1")


class Home(Protocol):
    """The cluster that the nodes are in, and where kwok runs for it: a ControlPlane, or a kind cluster's."""

    @property
    def folder(self) -> ClusterDir:
        """Of the cluster: its processes and their logs."""

    def api(self, timeout: float = 30.0) -> KubeApi:
        """A client of the API server as the cluster's administrator."""

    def ensure(self, name: str) -> bool:
        """Start that program if it does not run. False when it did."""

    def failure(self, name: str, what: str) -> ComponentError:
        """The error for a program, with the end of its log."""


def checked_count(count: int) -> int:
    """The number itself. Raises KubeError for one that no cluster can have."""
    if count < 0:
        raise KubeError(f"number of fake nodes {count}: expected 0 or more")
    return count


def conditions(now: str) -> list[dict[str, str]]:
    """What a healthy kubelet says of its node at `now` (RFC 3339)."""
    good = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    said = {"reason": "Fake", "message": "a fake node", "lastHeartbeatTime": now, "lastTransitionTime": now}
    return [{"type": kind, "status": status, **said} for kind, status in good.items()]


def node(shape: Shape, index: int, now: str) -> dict[str, Any]:
    """The Node object number `index` (from 0), made at `now` (RFC 3339)."""
    name = f"{shape.prefix}{index}"
    resources = {"cpu": shape.cpu, "memory": shape.memory, "pods": str(shape.pods), "ephemeral-storage": "1Ti"}
    labels = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **({"topology.kubernetes.io/zone": f"zone-{index % shape.zones}"} if shape.zones else {}),
        **shape.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        **({"spec": {"taints": [TAINT]}} if shape.tainted else {}),
        # Ready from the start: kwok then has no more to do than to renew its lease, and 1,000 nodes come faster.
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "phase": "Running",
            "addresses": [{"type": "Hostname", "address": name}],
            "conditions": conditions(now),
            "nodeInfo": NODE_INFO,
        },
    }


def role() -> dict[str, Any]:
    """What kwok may do, and no more."""
    rules = [
        ([""], ["nodes", "pods"], ["get", "list", "watch", "patch", "update", "delete"]),
        ([""], ["nodes/status", "pods/status"], ["patch", "update"]),
        (["", "events.k8s.io"], ["events"], ["create", "patch", "update"]),
        (["coordination.k8s.io"], ["leases"], ["create", "get", "list", "watch", "patch", "update", "delete"]),
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "berth-dev:kwok"},
        "rules": [{"apiGroups": groups, "resources": resources, "verbs": verbs} for groups, resources, verbs in rules],
    }


def role_binding() -> dict[str, Any]:
    """The role for the user `kwok`, as whom kwok presents itself."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "berth-dev:kwok"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "berth-dev:kwok"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "kwok"}],
    }


def deletion_policy() -> dict[str, Any]:
    """kwok deletes only pods that are being deleted.

    It deletes by name, and hears of a pod that is going more than once: the second time it would end the next pod of
    that name. Only the API server can compare and delete in one step.
    """
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": DELETION_POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "by-kwok", "expression": "request.userInfo.username == 'kwok'"}],
            "validations": [
                {
                    "expression": "has(oldObject.metadata.deletionTimestamp)",
                    "message": "kwok ends a pod that is being deleted, and no later one of its name",
                }
            ],
        },
    }


def deletion_policy_binding() -> dict[str, Any]:
    """The policy is in force everywhere."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": DELETION_POLICY},
        "spec": {"policyName": DELETION_POLICY, "validationActions": ["Deny"]},
    }


def ensure_running(plane: Home, bin_dir: Path) -> bool:
    """Start kwok if it does not run. False when it did."""
    config = plane.folder.path / "data" / "kwok.yaml"
    if not config.exists():
        argv = [str(bin_dir / "kwok-stages")]
        stages = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        documents = [CONFIGURATION, *yaml.safe_load_all(stages)]
        write_atomically(config, yaml.safe_dump_all(documents))
    with plane.api() as api:
        api.create(f"{_RBAC}/clusterroles", role())
        api.create(f"{_RBAC}/clusterrolebindings", role_binding())
        api.create(f"{_ADMISSION}/validatingadmissionpolicies", deletion_policy())
        api.create(f"{_ADMISSION}/validatingadmissionpolicybindings", deletion_policy_binding())
    if not plane.folder.alive("kwok"):
        _delete_leases(plane, names(plane))
    return plane.ensure("kwok")


def add(plane: Home, count: int, shape: Shape) -> int:
    """Make fake nodes until there are `count` more of that prefix than now. Returns how many were made."""
    checked_count(count)
    taken = {name for name in names(plane) if name.startswith(shape.prefix)}
    free = (index for index in range(count + len(taken)) if f"{shape.prefix}{index}" not in taken)
    wanted = list(itertools.islice(free, count))
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    _spread(plane, "POST", ((_NODES, node(shape, index, now)) for index in wanted))
    return len(wanted)


def remove(plane: Home, prefix: str = "") -> int:
    """Delete the fake nodes whose names begin with `prefix`, and nobody else's. Returns how many."""
    gone = [name for name in names(plane) if name.startswith(prefix)]
    _spread(plane, "DELETE", ((f"{_NODES}/{name}", None) for name in gone))
    _delete_leases(plane, gone)
    return len(gone)


def names(plane: Home) -> list[str]:
    """The names of all fake nodes."""
    with plane.api() as api:
        return [item["metadata"]["name"] for item in listed(api)]


def listed(api: KubeApi) -> list[dict[str, Any]]:
    """All fake nodes."""
    items: list[dict[str, Any]] = api.request("GET", f"{_NODES}?labelSelector={SELECTOR}&resourceVersion=0")["items"]
    return items


def _delete_leases(plane: Home, gone: Iterable[str]) -> None:
    """Those of the nodes `gone`. kwok leaves everything alone that another holds, as which it takes itself when it was
    started again, until the lease expires; and a node that is made again would begin with the lease of the old one,
    which the garbage collector takes away under kwok.
    """
    _spread(plane, "DELETE", ((f"{LEASES}/{name}", None) for name in gone))


def _spread(plane: Home, method: str, requests: Iterable[tuple[str, Any]]) -> None:
    """Send requests from a few threads, each with a connection of its own."""
    work = list(requests)

    def send(share: list[tuple[str, Any]]) -> None:
        with plane.api() as api:
            for path, body in share:
                if method == "DELETE":
                    api.delete(path)
                else:
                    api.request(method, path, body)

    shares = [share for share in (work[k::_WORKERS] for k in range(_WORKERS)) if share]
    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(send, shares))
