"""The scheduler as a service of two hosts, by the role over ssh: one leads, one stands by; upgraded, killed, removed.

The hosts of the development cluster have no systemd, so the collection's own supervisor keeps the processes running
here. One story, because each part needs what the one before has installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import World
from tests.dev.hosts_help import eventually, out, ssh
from tests.integration.scheduler.stage import asks
from tests.support.hosts import run_plays
from tests.support.kube import client_for
from tests.support.playbook import Run, changed

HOSTS = ["h1", "h2"]
SECONDS = 120.0
pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(900)]


class Ground:
    """A scheduler and a namespace of the test's own."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.api = client_for(cluster.kubeconfig, warn=lambda _text: None)
        self.name = f"s{uuid4().hex[:8]}"
        self.world = World(self.api, self.name)
        self.removed = False
        self.apps = f"{self.name}-apps"
        labels = {"berth.dev/scheduler": self.name}
        self.api.create(kinds.NAMESPACE, {"metadata": {"name": self.apps, "labels": labels}})
        eventually(lambda: self.api.get(kinds.SERVICE_ACCOUNT, "default", self.apps), SECONDS, "its pods' account")

    def play(self, *args: str, **more: Any) -> Run:
        values = {
            "scheduler_mode": "service",
            "scheduler_name": self.name,
            "scheduler_namespace": self.name,
            "scheduler_api_server": self.cluster.hosts.server_url,
            "scheduler_kubeconfig": str(self.cluster.kubeconfig),
            "scheduler_wait_timeout": int(SECONDS),
            "scheduler_assign_pods": True,
            **more,
        }
        role = {"name": "role", "ansible.builtin.include_role": {"name": "berth.stateful.scheduler"}}
        play = {"hosts": ":".join(HOSTS), "gather_facts": False, "vars": values, "tasks": [role]}
        return run_plays(self.cluster, [play], self.folder, *args, timeout=4 * SECONDS)

    def processes(self, host: str) -> list[str]:
        its = f"pgrep -u berth-scheduler -f '[e]tc/berth-scheduler/{self.name}'"
        return out(self.cluster, host, f"{its} || true").split()

    def leader(self) -> str:
        """Who holds the Lease, host and random part; empty: nobody."""
        lease = self.api.find(kinds.LEASE, self.name, self.name)
        return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")

    def given(self) -> str:
        """Which scheduler a pod is given whose namespace is labelled for this one."""
        body = {
            "metadata": {"name": "asks", "namespace": self.apps},
            "spec": {"containers": [{"name": "c", "image": "c"}]},
        }
        return str(self.api.create(kinds.POD, body, dry_run=True)["spec"]["schedulerName"])

    def places(self, pod: str) -> None:
        """Until a new pod has a node, and berth-scheduler has told of it."""
        meta = {"name": pod, "namespace": self.name}
        self.api.create(kinds.POD, {"metadata": meta, "spec": asks("true", self.name)})

        def bound() -> Any:
            return self.api.get(kinds.POD, pod, self.name)["spec"].get("nodeName")

        eventually(bound, SECONDS, f"{pod} has a node")

        def told() -> bool:
            events = [one for one in self.api.list(kinds.EVENT, self.name) if one["reason"] == "Scheduled"]
            return any(one["reportingController"] == self.name and one["regarding"]["name"] == pod for one in events)

        eventually(told, SECONDS, f"{self.name} tells that it has placed {pod}")


@pytest.fixture
def ground(dev_cluster: Any, tmp_path: Path) -> Iterator[Ground]:
    it = Ground(dev_cluster, tmp_path)
    try:
        yield it
    finally:
        for pod in it.api.list(kinds.POD, it.name):
            it.world.delete(kinds.POD, pod["metadata"]["name"])
        eventually(lambda: not it.api.list(kinds.POD, it.name), SECONDS, "the pods go")
        again = it.play(scheduler_state="absent", scheduler_force=True).ok()
        assert not it.removed or changed(again) == []
        it.api.delete(kinds.NAMESPACE, it.apps)
        it.world.clear()


def test_it_is_installed_leads_is_upgraded_standby_first_and_goes(ground: Ground) -> None:
    planned = ground.play("--check", "--diff").ok()
    assert any("Program" in each or "tried before" in each for each in changed(planned)), planned.output
    assert [ground.processes(host) for host in HOSTS] == [[], []]
    assert ground.api.find(kinds.SERVICE_ACCOUNT, ground.name, ground.name) is None
    assert ground.given() == "default-scheduler"

    first = ground.play().ok()
    assert first.last["leader"] in HOSTS
    assert all(len(ground.processes(host)) == 1 for host in HOSTS)
    token = out(ground.cluster, HOSTS[0], f"cat /var/lib/berth-scheduler/{ground.name}/token")
    assert token not in first.output
    modes = {"/etc/berth-scheduler": "750", "/var/lib/berth-scheduler": "700", "/var/cache/berth-scheduler": "700"}
    for folder, mode in modes.items():
        assert out(ground.cluster, HOSTS[0], f"stat -c %a {folder}/{ground.name}") == mode
    assert changed(ground.play().ok()) == []
    ground.places("one")
    assert ground.given() == ground.name

    # Who leads is killed without a word: another leads, and where it was one is again.
    before = ground.leader()
    host = before.rpartition("_")[0]
    (killed,) = ground.processes(host)
    ssh(ground.cluster, host, f"kill -9 {killed}")
    eventually(lambda: ground.leader() not in ("", before), SECONDS, f"another than {before} leads")
    eventually(lambda: ground.processes(host) not in ([], [killed]), SECONDS, "it is started again")
    ground.places("two")

    # What is wrong is refused before anything is touched.
    pids = {each: ground.processes(each) for each in HOSTS}
    refused = ground.play(scheduler_config={"profiles": [{"percentageOfNodesToScore": 200}]})
    assert "config.profiles[0].percentageOfNodesToScore" in refused.failed()["msg"]
    assert changed(refused) == []
    assert {each: ground.processes(each) for each in HOSTS} == pids

    # Another configuration: who stands by is started anew first, who leads last.
    leads = ground.leader().rpartition("_")[0]
    upgraded = ground.play(scheduler_config={"profiles": [{"percentageOfNodesToScore": 100}]}).ok()
    turns = [each.split(":")[0] for each in changed(upgraded) if "Running with what is installed" in each]
    assert turns == [*(each for each in HOSTS if each != leads), leads]
    assert all(set(ground.processes(each)).isdisjoint(pids[each]) for each in HOSTS)
    assert upgraded.last["leader"] in HOSTS
    ground.places("three")

    assert changed(ground.play(scheduler_state="absent").ok())
    ground.removed = True
    assert ground.given() == "default-scheduler"
    for each in HOSTS:
        assert ground.processes(each) == []
        left = "ls -d /etc/berth-scheduler /var/lib/berth-scheduler /var/cache/berth-scheduler 2>/dev/null || true"
        assert out(ground.cluster, each, left) == ""
        assert out(ground.cluster, each, "getent passwd berth-scheduler || true") == ""
    for kind in (kinds.SERVICE_ACCOUNT, kinds.ROLE, kinds.LEASE):
        assert ground.api.find(kind, ground.name, ground.name) is None
