"""placement_info on a real API server: verdicts and scores for a pod and an app; one LIST a kind, no write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.placement_info import OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    DEVICE_CLASS,
    LOCAL_DISK,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    STORAGE_CLASS,
)
from tests.support.kube import forget

pytestmark = pytest.mark.usefixtures("crds")
GI = 1 << 30
Module = Callable[..., dict[str, Any]]


@pytest.fixture
def module(control_plane: Any) -> Module:
    def run(**options: Any) -> dict[str, Any]:
        defaults = {name: spec.get("default") for name, spec in OPERATION.argument_spec().items()}
        params = {**defaults, "kubeconfig": str(control_plane.kubeconfig), **options}
        return execute(OPERATION, Context(params, False, lambda text: None, environ={}))

    return run


@pytest.fixture
def cluster(api: ApiClient, name: str) -> Iterator[str]:
    """Two nodes of one label, a disk of one class on the second."""
    for suffix, cpu in (("a", "8"), ("b", "4")):
        _node(api, name, f"{name}-{suffix}", cpu)
    api.create(
        STORAGE_CLASS,
        {"metadata": {"name": name}, "provisioner": "local.berth.dev", "volumeBindingMode": "WaitForFirstConsumer"},
    )
    identity = {"serial": name, "size": 2 * GI}
    spec = {"nodeName": f"{name}-b", "identity": identity, "storageClassName": name, "fsType": "ext4"}
    api.create(LOCAL_DISK, {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", "metadata": {"name": name}, "spec": spec})  # fmt: skip # noqa: E501
    api.patch(LOCAL_DISK, name, None, {"status": {"phase": "Available"}}, subresource="status")
    yield name
    forget(api, LOCAL_DISK, name)
    api.delete(STORAGE_CLASS, name)
    for suffix in "ab":
        api.delete(NODE, f"{name}-{suffix}")


def _node(api: ApiClient, test: str, name: str, cpu: str) -> None:
    labels = {"test": test, "kubernetes.io/hostname": name}
    api.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    room = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    ready = {"type": "Ready", "status": "True", "reason": "Made", "message": "by a test"}
    api.patch(NODE, name, None, {"status": {"allocatable": room, "capacity": room, "conditions": [ready]}}, "status")
    deadline = time.monotonic() + 120
    while api.get(NODE, name)["spec"].get("taints"):  # of a new node; the node lifecycle controller takes it off
        assert time.monotonic() < deadline, f"{name} keeps its taints"
        time.sleep(0.1)


def pod(test: str, name: str = "p", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "nodeSelector": {"test": test}, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def claim(test: str) -> dict[str, Any]:
    spec = {"storageClassName": test, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "data"}, "spec": spec}


def test_a_pod_and_its_claim_that_are_not_there(
    module: Module, cluster: str, namespace: str, world: Callable[[], dict[str, str]]
) -> None:
    before = world()
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    result = module(pod=pod(cluster, volumes=volumes), namespace=namespace, claims=[claim(cluster)])
    assert not result.get("failed"), result
    assert world() == before
    assert (result["changed"], result["fits"], result["requests"]) == (False, True, {"list": 16})
    (row,) = result["placements"]
    first, second = f"{cluster}-a", f"{cluster}-b"
    assert (row["node"], row["disks"], row["best_nodes"]) == (second, {"v": cluster}, [second])
    assert row["nodes"][first]["reasons"] == ["node(s) didn't have a free local disk for v"]
    verdict = row["nodes"][second]
    assert verdict["total"] == sum(one["weighted"] for one in verdict["scores"].values())
    assert verdict["scores"]["LocalDiskFit"] == {"raw": 50, "normalized": 50, "weight": 3, "weighted": 150}


def test_why_a_pod_waits_and_what_would_help(module: Module, api: ApiClient, cluster: str, namespace: str) -> None:
    # Of a scheduler that nobody runs: it stays as it is.
    wanted = pod(cluster, cpu="16", schedulerName="nobody", automountServiceAccountToken=False)
    api.create(POD, {**wanted, "metadata": {"name": "p", "namespace": namespace}})
    result = module(pod_name="p", namespace=namespace)
    (row,) = result["placements"]
    assert (result["fits"], row["node"]) == (False, None)
    for node in (f"{cluster}-a", f"{cluster}-b"):
        assert (row["nodes"][node]["plugin"], row["nodes"][node]["reasons"]) == ("NodeResourcesFit", ["Insufficient cpu"])  # fmt: skip # noqa: E501
    assert any(f"{cluster}-a" in hint and "cpu" in hint for hint in row["hints"]), row["hints"]
    assert "no pod" in module(pod_name="q", namespace=namespace)["msg"]


def test_profiles_of_a_configuration(module: Module, cluster: str, namespace: str) -> None:
    def profile(name: str, strategy: str) -> dict[str, Any]:
        fit = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
        only = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity"}, {"name": "NodeResourcesFit"}, {"name": "PrioritySort"}, {"name": "DefaultBinder"}]}}  # fmt: skip # noqa: E501
        return {"schedulerName": name, "plugins": only, "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}]}

    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile("spread", "LeastAllocated"), profile("packed", "MostAllocated")],
    }
    chosen = {}
    for name in ("spread", "packed"):
        result = module(pod=pod(cluster), namespace=namespace, configuration=document, scheduler_name=name)
        assert result.get("placements"), result
        chosen[name] = result["placements"][0]["node"]
    assert chosen == {"spread": f"{cluster}-a", "packed": f"{cluster}-b"}
    wrong = module(pod=pod(cluster), configuration=document, scheduler_name="third")
    assert "expected a profile of configuration: spread, packed" in wrong["msg"]


@pytest.fixture
def gpu(api: ApiClient, cluster: str) -> Iterator[str]:
    """A class with one device, on the first node."""
    driver, node = f"{cluster}.example.com", f"{cluster}-a"
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    api.create(DEVICE_CLASS, {"metadata": {"name": cluster}, "spec": {"selectors": [selector]}})
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": [{"name": "gpu-0"}]}
    api.create(RESOURCE_SLICE, {"metadata": {"name": cluster}, "spec": spec})
    yield cluster
    api.delete(RESOURCE_SLICE, cluster)
    api.delete(DEVICE_CLASS, cluster)


def test_devices_of_resource_claims(
    module: Module, api: ApiClient, gpu: str, namespace: str, world: Callable[[], dict[str, str]]
) -> None:
    """They are listed for a pod that asks for them, with a profile that allocates them; nothing is written."""
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    for name, count in (("one", 1), ("two", 2)):
        exactly = {"deviceClassName": gpu, "count": count}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        api.create(RESOURCE_CLAIM, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
    before = world()

    def row(claim: str) -> dict[str, Any]:
        asks = [{"name": "c", "resourceClaimName": claim}]
        result = module(pod=pod(gpu, resourceClaims=asks), namespace=namespace, configuration=document)
        assert result.get("requests") == {"list": 19}, result
        return result["placements"][0]

    fits, none = row("one"), row("two")
    assert (fits["node"], fits["best_nodes"]) == (f"{gpu}-a", [f"{gpu}-a"])
    assert none["node"] is None
    refused = {fits["nodes"][f"{gpu}-b"]["plugin"], *(none["nodes"][f"{gpu}-{one}"]["plugin"] for one in "ab")}
    assert refused == {"DynamicResources"}
    assert none["nodes"][f"{gpu}-a"]["reasons"] == ["cannot allocate all claims"]
    assert world() == before


def test_an_app(module: Module, cluster: str, namespace: str) -> None:
    container = {"name": "c", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    disk = {"name": "data", "size": "1Gi", "storage_class": cluster, "volume_mode": "Filesystem"}
    options = {"name": "db", "namespace": namespace, "disks": [disk], "template": {"spec": {"containers": [container]}}}
    one = module(**options)
    assert (one["fits"], one["placements"][0]["disks"]) == (True, {"data": cluster})
    spec = {"replicas": 2, "template": options["template"], "updateStrategy": {"type": "OnDelete"}}
    two = module(**{**options, "template": {"kind": "StatefulSet", "spec": spec}})  # stateful_app wants to know more
    assert (two["fits"], two["fitting"]) == (False, 1)
    assert two["placements"][1]["hints"]
    assert "does not exist" in module(**{**options, "disks": [{**disk, "storage_class": "nowhere-at-all"}]})["msg"]
    assert "name is missing" in module(**{**options, "name": None})["msg"]


def test_as_a_user_runs_it(playbook: Callable[..., Any], cluster: str, namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod(cluster)))
    task = {"berth.stateful.placement_info": {"src": str(file), "namespace": namespace, "replicas": 2}}
    run = playbook([task, {"berth.stateful.placement_info": {}}])
    found = run.tasks[0].result
    assert [row["node"] for row in found["placements"]] == [f"{cluster}-a", f"{cluster}-a"]
    assert "one of the following is required" in run.failed()["msg"]
