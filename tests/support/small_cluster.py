"""Two nodes without kubelets; on the first a pod, a Berth without a pod, disks in every state and a shared device.

What the modules and commands that only read are tried on, on a real API server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    BERTH,
    LOCAL_DEVICE,
    LOCAL_DISK,
    NODE,
    POD,
    Resource,
)
from tests.support.kube import forget

Gi = 1 << 30


def put(
    api: ApiClient, kind: Resource, name: str, namespace: str | None = None, status: Any = None, **more: Any
) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {}), **({"namespace": namespace} if namespace else {})}
    made = api.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **more})
    if status is None:
        return made
    return api.patch(kind, name, namespace, {"status": status}, subresource="status")  # controllers write nodes, too


def settled(api: ApiClient, node: str, taints: list[str]) -> None:
    """Wait for the node lifecycle controller: it takes off the taint that admission gives every new node."""
    deadline = time.monotonic() + 60
    while [taint["key"] for taint in (api.get(NODE, node) or {})["spec"].get("taints", [])] != taints:
        assert time.monotonic() < deadline, f"the taints of {node} do not become {taints}"
        time.sleep(0.1)


@contextmanager
def small_cluster(api: ApiClient, name: str, namespace: str) -> Iterator[None]:
    """The nodes ``NAME-a`` (labelled ``test: NAME``) and ``NAME-b``, cordoned; gone afterwards."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10", "ephemeral-storage": "20Gi"}
    nodes = [f"{name}-a", f"{name}-b"]
    for node in nodes:
        ready = {"type": "Ready", "status": "True", "reason": "Made", "message": "by a test"}
        status = {
            "allocatable": allocatable,
            "capacity": allocatable,
            "conditions": [ready],
            "addresses": _addresses(nodes.index(node)),
        }
        put(
            api,
            NODE,
            node,
            status=status,
            metadata={"labels": {"test": name}},
            spec={"unschedulable": node == nodes[1]},
        )
    settled(api, nodes[0], [])
    settled(api, nodes[1], ["node.kubernetes.io/unschedulable"])
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    put(
        api,
        POD,
        "here",
        namespace,
        spec={"nodeName": nodes[0], "containers": [container], "automountServiceAccountToken": False},
    )
    status = {"phase": "Reserved"}
    requests = {"cpu": "1", "memory": "2Gi"}
    put(
        api,
        BERTH,
        "db-0",
        namespace,
        status,
        spec={"app": "db", "ordinal": 0, "nodeName": nodes[0], "requests": requests},
    )
    lock = {
        "namespace": namespace,
        "name": "db-0",
        "uid": "u",
        "app": "db",
        "ordinal": 0,
        "claim": "data",
        "dataUID": "u",
    }
    kept = {key: lock[key] for key in ("namespace", "app", "ordinal", "claim", "dataUID")}
    disks: dict[str, tuple[str, dict[str, Any], str]] = {
        "1-free": (nodes[0], {}, "Available"),
        "2-held": (nodes[0], {"claimRef": lock}, "Locked"),
        "3-kept": (nodes[0], {"retainedFor": kept}, "Released"),
        "4-kept-back": (nodes[0], {"reserved": True}, "Available"),
        "5-broken": (nodes[0], {}, "Faulted"),
        "6-new": (nodes[0], {}, ""),
        "7-other": (nodes[1], {}, "Available"),
    }
    for index, (disk, (node, spec, phase)) in enumerate(disks.items(), 1):
        spec = {
            "nodeName": node,
            "identity": {"serial": f"{name}-{disk}", "size": index * Gi},
            "storageClassName": "fast",
            **spec,
        }
        put(api, LOCAL_DISK, f"{name}-{disk}", status={"phase": phase} if phase else None, spec=spec)
    share = {"namespace": namespace, "name": "db-0", "uid": "u", "claim": "gpu", "shares": 300}
    device = {"nodeName": nodes[0], "deviceClass": "gpu", "uuid": name, "claimRefs": [share]}
    put(api, LOCAL_DEVICE, f"{name}-gpu", status={"phase": "Available"}, spec=device)
    try:
        yield
    finally:
        _remove(api, name, namespace, [*disks], nodes)


def _remove(api: ApiClient, name: str, namespace: str, disks: list[str], nodes: list[str]) -> None:
    for disk in disks:
        forget(api, LOCAL_DISK, f"{name}-{disk}")
    forget(api, LOCAL_DEVICE, f"{name}-gpu")
    api.delete(BERTH, "db-0", namespace)
    for node in nodes:
        api.delete(NODE, node)


def _addresses(index: int) -> list[dict[str, str]]:
    """Of the networks for documentation: nobody is there."""
    return [{"type": "Hostname", "address": f"n{index}"}, {"type": "InternalIP", "address": f"192.0.2.{index + 1}"}]
