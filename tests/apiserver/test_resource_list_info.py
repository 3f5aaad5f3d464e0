"""resource_list_info on a real API server: what there is, what is free, who holds what; five LISTs, no write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.resource_list import OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    BERTH,
    LOCAL_DEVICE,
    LOCAL_DISK,
    NODE,
    POD,
    Resource,
)

pytestmark = pytest.mark.usefixtures("crds")
Gi, Mi = 1 << 30, 1 << 20
Module = Callable[..., dict[str, Any]]


@pytest.fixture
def module(control_plane: Any) -> Module:
    def run(**options: Any) -> dict[str, Any]:
        defaults = {name: spec.get("default") for name, spec in OPERATION.argument_spec().items()}
        params = {**defaults, "kubeconfig": str(control_plane.kubeconfig), **options}
        return execute(OPERATION, Context(params, False, lambda text: None, environ={}))

    return run


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


@pytest.fixture
def cluster(api: ApiClient, name: str, namespace: str) -> Iterator[str]:
    """Two nodes; on the first a pod, a berth without a pod, disks in every state and a shared device."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10", "ephemeral-storage": "20Gi"}
    nodes = [f"{name}-a", f"{name}-b"]
    for node in nodes:
        ready = {"type": "Ready", "status": "True", "reason": "Made", "message": "by a test"}
        status = {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready]}
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
    yield name
    for disk in disks:
        api.delete(LOCAL_DISK, f"{name}-{disk}")
    api.delete(LOCAL_DEVICE, f"{name}-gpu")
    api.delete(BERTH, "db-0", namespace)
    for node in nodes:
        api.delete(NODE, node)


def test_everything(module: Module, cluster: str, namespace: str, world: Callable[[], dict[str, str]]) -> None:
    before = world()
    result = module(label_selectors=[f"test={cluster}"])
    assert not result.get("failed"), result
    assert (result["changed"], result["requests"]) == (False, {"list": 5})
    assert world() == before
    found = result["resources"]

    first, second = found["nodes"]
    assert (first["name"], first["schedulable"], second["schedulable"]) == (f"{cluster}-a", True, False)
    assert first["allocatable"] == {"cpu": 4000, "memory": 8 * Gi, "pods": 10, "ephemeral-storage": 20 * Gi}
    assert first["requested"] == {"cpu": 1500, "memory": 3 * Gi, "pods": 2, "ephemeral-storage": 0}, (
        "the berth has no pod yet"
    )
    assert first["free"] == {"cpu": 2500, "memory": 5 * Gi, "pods": 8, "ephemeral-storage": 20 * Gi}
    assert first["berths"] == [f"{namespace}/db-0"]
    assert first["disks"] == {"total": 6, "free": 1, "held": 1, "retained": 1, "bytes": 21 * Gi, "free_bytes": Gi}
    assert second["requested"]["cpu"] == 0

    states = {disk["name"].split("-", 1)[1]: disk["why_not_free"] for disk in found["disks"]}
    assert states == {
        "1-free": None,
        "2-held": "held",
        "3-kept": "retained",
        "4-kept-back": "reserved",
        "5-broken": "faulted",
        "6-new": "pending",
        "7-other": None,
    }
    held, kept = found["disks"][1], found["disks"][2]
    assert held["holder"] == {"namespace": namespace, "berth": "db-0", "app": "db", "ordinal": 0, "claim": "data"}
    assert kept["retained_for"] == {"namespace": namespace, "app": "db", "ordinal": 0, "claim": "data"}
    (device,) = found["devices"]
    assert (device["shares"], device["free_shares"], device["free"]) == (1000, 700, True)
    assert device["holders"] == [{"namespace": namespace, "berth": "db-0", "claim": "gpu", "shares": 300}]
    assert found["totals"]["schedulable_nodes"] == 1
    assert found["totals"]["disks"]["free_bytes"] == 8 * Gi
    assert module(label_selectors=[f"test={cluster}"])["resources"] == found, "stable"


def test_filters_and_query(module: Module, cluster: str) -> None:
    result = module(nodes=[f"{cluster}-b"], query="disks[?free].{disk: name, bytes: size}")
    assert result["result"] == [{"disk": f"{cluster}-7-other", "bytes": 7 * Gi}]
    assert [node["name"] for node in result["resources"]["nodes"]] == [f"{cluster}-b"]
    assert result["resources"]["devices"] == []
    nobody = module(label_selectors=["test=nobody-at-all"])["resources"]
    assert (nobody["nodes"], nobody["disks"], nobody["totals"]["disks"]["total"]) == ([], [], 0)
    everything = module()["resources"]
    assert f"{cluster}-2-held" in [disk["name"] for disk in everything["disks"]]


def test_wrong_questions(module: Module, cluster: str) -> None:
    result = module(nodes=[f"{cluster}-a", "no-such-node"])
    assert result["failed"]
    assert "the cluster has no node no-such-node" in result["msg"]
    result = module(query="disks[?")
    assert result["failed"]
    assert "disks[?" in result["msg"]
    result = module(label_selectors=["a in b in c"])
    assert (result["failed"], result["status"]) == (True, 400)


def test_as_a_user_runs_it(playbook: Callable[..., Any], cluster: str) -> None:
    task = {"berth.stateful.resource_list_info": {"label_selectors": [f"test={cluster}"], "query": "totals.disks.free"}}
    run = playbook([task, {**task, "async": 60, "poll": 1}]).ok()
    first, last = run.tasks[0].result, run.last
    assert (first["result"], last["result"]) == (2, 2)
    assert first["resources"] == last["resources"]
