"""resource_list_info on a real API server: what there is, what is free, who holds what; five LISTs, no write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.resource_list import OPERATION
from tests.support.small_cluster import Gi, small_cluster

pytestmark = pytest.mark.usefixtures("crds")
Module = Callable[..., dict[str, Any]]


@pytest.fixture
def module(control_plane: Any) -> Module:
    def run(**options: Any) -> dict[str, Any]:
        defaults = {name: spec.get("default") for name, spec in OPERATION.argument_spec().items()}
        params = {**defaults, "kubeconfig": str(control_plane.kubeconfig), **options}
        return execute(OPERATION, Context(params, False, lambda text: None, environ={}))

    return run


@pytest.fixture
def cluster(api: ApiClient, name: str, namespace: str) -> Iterator[str]:
    with small_cluster(api, name, namespace):
        yield name


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
    named = {"namespace": namespace, "app": "db", "ordinal": 0, "claim": "data"}
    assert kept["retained_for"] == {**named, "data_uid": "u", "namespace_uid": None, "pod_uid": None}
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
