"""Role berth where the cluster runs all parts: agents as pods, the stock scheduler with the extender.

Installed in one run and removed in one, on a control plane of its own: what another test has left would be needed.

No part leads here, as nodes are pretended. The molecule scenario install has parts that do, with agents on hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_dev.pytest_plugin import temporary_cluster
from tests.support.kube import client_for, world
from tests.support.playbook import LOCALHOST, Run, changed, run_playbook

PEM = dict.fromkeys(("certificate", "key", "client_ca"), "-----BEGIN CERTIFICATE-----\n")
VARIABLES = {
    "berth_image": "registry.example.com/berth:1",
    "berth_agents": "daemonset",
    "berth_scheduling": "extender",
    "berth_tasks": True,
    "task_backend_namespaces": ["default"],
    "berth_wait": False,
    "scheduler_extender_tls": PEM,
}
#: What stands for the parts of which the cluster runs one or more pods.
WORKLOADS = (
    (kinds.DEPLOYMENT, "berth-controller"),
    (kinds.DAEMON_SET, "berth-agent"),
    (kinds.DEPLOYMENT, "berth-scheduler-extender"),
    (kinds.DEPLOYMENT, "berth-tasks"),
)
#: In a namespace; `world` leaves these kinds out.
INSIDE = (kinds.LEASE, kinds.CONFIG_MAP, kinds.SERVICE_ACCOUNT, kinds.SECRET)
CLAIM = {
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "storageClassName": "berth-local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
Play = Callable[..., Run]


@pytest.fixture
def plane() -> Iterator[Any]:
    with temporary_cluster(hosts=0, fake_nodes=2) as cluster:
        yield cluster


@pytest.fixture
def play(plane: Any, tmp_path: Path) -> Play:
    """The role on the cluster's nodes; ``variables`` beside those of this file."""
    nodes = [node["metadata"]["name"] for node in client_for(plane.kubeconfig).list(kinds.NODE)]
    hosts = "".join(LOCALHOST.replace("localhost", name, 1) for name in nodes)

    def run(*arguments: str, **variables: Any) -> Run:
        tasks = [{"ansible.builtin.include_role": {"name": "berth.stateful.berth"}}]
        given = {**VARIABLES, "berth_kubeconfig": str(plane.kubeconfig), **variables}
        return run_playbook(tasks, tmp_path / "play", *arguments, inventory=hosts, vars=given)

    return run


def there(api: ApiClient) -> list[str]:
    """The workloads of WORKLOADS that there are."""
    return [name for kind, name in WORKLOADS if api.find(kind, name, "berth-system") is not None]


def test_parts_that_the_cluster_runs_come_and_go_in_one_run_each(plane: Any, play: Play) -> None:
    api, before = client_for(plane.kubeconfig), world(plane.kubeconfig)
    play("--check", "--diff").ok()
    assert world(plane.kubeconfig) == before
    play().ok()
    assert there(api) == [name for _kind, name in WORKLOADS]
    agents = api.get(kinds.DAEMON_SET, "berth-agent", "berth-system")
    assert agents["spec"]["template"]["spec"]["containers"][0]["image"] == VARIABLES["berth_image"]
    assert changed(play().ok()) == []

    installed = there(api)
    api.create(kinds.PVC, CLAIM)
    refused = play(berth_state="absent").failed()
    assert "default/data" in refused["msg"], refused
    api.delete(kinds.PVC, "data", "default")
    play("--check", "--diff", berth_state="absent").ok()
    assert there(api) == installed
    play(berth_state="absent").ok()
    assert there(api) == []
    assert world(plane.kubeconfig).keys() == before.keys()
    left = {(kind.kind, one["metadata"]["name"]) for kind in INSIDE for one in api.list(kind, "berth-system")}
    assert left == {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
    assert changed(play(berth_state="absent").ok()) == []
