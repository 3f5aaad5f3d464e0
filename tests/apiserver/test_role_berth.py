"""Role berth where the cluster runs all parts: agents as pods, the stock scheduler with the extender.

Installed in one run and removed in one, on a control plane of its own: what another test has left would be needed. Runs
that are killed half-way are continued by the next one.

No part leads here, as nodes are pretended. The molecule scenario install has parts that do, with agents on hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import Resource
from berth_dev.pytest_plugin import temporary_cluster
from tests.support.kube import client_for, world
from tests.support.playbook import LOCALHOST, Run, changed, kill_playbook, run_playbook

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
TASKS = [{"ansible.builtin.include_role": {"name": "berth.stateful.berth"}}]


class Plays:
    """The role on the nodes of a cluster, by playbooks with the variables of this file and others."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.api, self.folder = client_for(kubeconfig), folder
        nodes = [node["metadata"]["name"] for node in self.api.list(kinds.NODE)]
        self.hosts = "".join(LOCALHOST.replace("localhost", name, 1) for name in nodes)
        self.given = {**VARIABLES, "berth_kubeconfig": str(kubeconfig)}

    def run(self, *arguments: str, **variables: Any) -> Run:
        return run_playbook(TASKS, self.folder, *arguments, inventory=self.hosts, vars={**self.given, **variables})

    def cut_off(self, when: Callable[[], bool], **variables: Any) -> None:
        """It is killed half-way."""
        kill_playbook(TASKS, self.folder, when, self.hosts, vars={**self.given, **variables})

    def has(self, kind: Resource, name: str, namespace: str | None = None) -> bool:
        return self.api.find(kind, name, namespace) is not None

    def there(self) -> list[str]:
        """The workloads of WORKLOADS that there are."""
        return [name for kind, name in WORKLOADS if self.has(kind, name, "berth-system")]

    def inside(self) -> set[tuple[str, str]]:
        """What the namespace has, of the kinds of INSIDE."""
        return {(kind.kind, one["metadata"]["name"]) for kind in INSIDE for one in self.api.list(kind, "berth-system")}


@pytest.fixture
def plane() -> Iterator[Any]:
    with temporary_cluster(hosts=0, fake_nodes=2) as cluster:
        yield cluster


def test_parts_that_the_cluster_runs_come_and_go_in_one_run_each(plane: Any, tmp_path: Path) -> None:
    plays, before = Plays(plane.kubeconfig, tmp_path / "play"), world(plane.kubeconfig)
    plays.run("--check", "--diff").ok()
    assert world(plane.kubeconfig) == before
    for kind, name in ((kinds.CRD, kinds.BERTH.definition), (kinds.CLUSTER_ROLE, "berth-controller")):
        plays.cut_off(partial(plays.has, kind, name))
    installed = [name for _kind, name in WORKLOADS]
    assert plays.there() != installed
    plays.run().ok()
    assert plays.there() == installed
    agents = plays.api.get(kinds.DAEMON_SET, "berth-agent", "berth-system")
    assert agents["spec"]["template"]["spec"]["containers"][0]["image"] == VARIABLES["berth_image"]
    assert changed(plays.run().ok()) == [], "it is as a run that nobody cuts off leaves it"

    plays.api.create(kinds.PVC, CLAIM)
    refused = plays.run(berth_state="absent").failed()
    assert "default/data" in refused["msg"], refused
    plays.api.delete(kinds.PVC, "data", "default")
    plays.run("--check", "--diff", berth_state="absent").ok()
    assert plays.there() == installed
    plays.cut_off(lambda: not plays.has(kinds.DEPLOYMENT, "berth-controller", "berth-system"), berth_state="absent")
    assert plays.has(kinds.CRD, kinds.BERTH.definition), "what goes last"
    plays.run(berth_state="absent").ok()
    assert plays.there() == []
    assert world(plane.kubeconfig).keys() == before.keys()
    assert plays.inside() == {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
    assert changed(plays.run(berth_state="absent").ok()) == []
