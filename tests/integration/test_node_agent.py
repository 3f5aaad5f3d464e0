"""The role node_agent on real hosts: installed one host after the other, configured, upgraded, removed; over ssh.

The hosts of the development cluster have no systemd, so the role's own supervisor keeps the agents running here. That
a second run changes nothing on any host, and that a user of the tarball has the agent without its sources, is shown by
molecule's scenarios node_agent and install.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.core.app.disk_samples import held
from tests.dev.hosts_help import eventually, out, ssh
from tests.support.agent import newer, zipapp
from tests.support.hosts import run_on
from tests.support.kube import client_for, forget_disks, install_crds, patch_disk
from tests.support.playbook import Run, changed

HOSTS = ["h1", "h2"]
ONE = "h2"
pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(1800)]


class Ground(NamedTuple):
    cluster: Any
    serial: str  # of a blank disk of ONE
    play: Callable[..., Run]  # of the role
    zipapp: Path

    def lease(self, host: str) -> dict[str, Any]:
        named = ("get", "lease", f"berth-agent-{host}", "-n", "berth-system", "--ignore-not-found", "-o", "json")
        listed = self.cluster.kubectl(*named)
        return dict(json.loads(listed)) if listed.strip() else {}

    def digest(self, host: str) -> str:
        return str(self.lease(host)["metadata"]["annotations"]["berth.dev/configuration"])

    def disks(self) -> list[dict[str, Any]]:
        listed = json.loads(self.cluster.kubectl("get", "ld", "-o", "json"))["items"]
        return [each for each in listed if each["spec"]["identity"].get("serial") == self.serial]

    def agents(self, host: str) -> list[str]:
        """The process ids of agents on a host."""
        return out(self.cluster, host, "pgrep -f '[b]erth-agent.pyz run' || true").split()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as one file, made from the sources as they are."""
    program = tmp_path_factory.mktemp("agent") / "berth-agent.pyz"
    program.write_bytes(zipapp())
    program.chmod(0o755)
    return program


@pytest.fixture
def ground(dev_cluster: Any, built: Path, tmp_path: Path) -> Iterator[Ground]:
    install_crds(dev_cluster.kubeconfig)
    disk = f"n{uuid4().hex[:5]}"
    dev_cluster.hosts.disk_add(ONE, disk, "96Mi")
    (serial,) = [each["serial"] for each in dev_cluster.hosts.disks(ONE) if each["name"] == disk]
    touched: set[str] = set()

    def play(*args: str, hosts: str = ":".join(HOSTS), **values: Any) -> Run:
        # The probe of a test's minute: what an operator would leave at its default is shorter.
        common = {
            "node_agent_kubeconfig": str(dev_cluster.kubeconfig),
            "node_agent_api_server": dev_cluster.hosts.server_url,
            "node_agent_zipapp": str(built),
            "node_agent_intervals": {"poll": "500ms"},
            "node_agent_metrics": {"port": 0},
        }
        touched.update(hosts.split(":"))
        tasks = [{"name": "role", "ansible.builtin.include_role": {"name": "berth.stateful.node_agent"}}]
        one = {"hosts": hosts, "gather_facts": False, "serial": 1, "any_errors_fatal": True}
        plays = [{**one, "vars": {**common, **values}, "tasks": tasks}]
        return run_on(dev_cluster.hosts.inventory(), plays, tmp_path, *args)

    it = Ground(dev_cluster, serial, play, built)
    yield it
    api = client_for(dev_cluster.kubeconfig)
    for each in it.disks():
        patch_disk(api, each["metadata"]["name"], claimRef=None)
    if any(it.agents(host) for host in touched):  # the story has failed before its end
        play(hosts=":".join(sorted(touched)), node_agent_state="absent", node_agent_force=True).ok()
    for host in touched:
        ssh(dev_cluster, host, "rm -rf /var/lib/berth/agent")
    forget_disks(api, *(each["metadata"]["name"] for each in it.disks()))
    dev_cluster.hosts.disk_remove(ONE, disk)


@pytest.mark.promise
def test_from_install_to_removal(ground: Ground, tmp_path: Path) -> None:
    """One story, because each part needs what the one before has installed: that is most of its time."""
    mine = {"berth_disks": "{{ [{'serial': '" + ground.serial + "'}] if inventory_hostname == '" + ONE + "' else [] }}"}
    nothing_without_its_program(ground, mine)
    installed_one_host_after_the_other(ground, mine)
    an_upgrade_stops_at_the_first_failure(ground, mine, tmp_path)
    configured_while_it_runs(ground, mine)
    a_run_that_died_leaves_its_restart_to_the_next(ground, mine, tmp_path)
    removed_unless_its_disks_are_held(ground, mine)


def nothing_without_its_program(ground: Ground, mine: dict[str, Any]) -> None:
    named = ground.play(hosts=ONE, node_agent_zipapp="/not/there.pyz").failed()
    assert "/not/there.pyz is not there" in named["msg"]
    planned = ground.play("--check", "--diff", hosts=ONE, **mine).ok()
    assert not [task for task in planned.tasks if task.kind == "failed"]
    assert changed(planned)
    assert ground.agents(ONE) == []
    assert not ground.lease(ONE)


def installed_one_host_after_the_other(ground: Ground, mine: dict[str, Any]) -> None:
    first = ground.play(**mine).ok()
    ready = [task.host for task in first.tasks if "Wait until the agent is Ready" in task.name]
    assert ready == HOSTS  # one after the other, and none without being Ready
    assert all(len(ground.agents(host)) == 1 for host in HOSTS)
    published = eventually(ground.disks, what="the declared disk is a LocalDisk")
    assert published[0]["spec"]["nodeName"] == ONE
    for name, mode in (("kubeconfig", "600"), ("token", "600"), ("agent.yaml", "600"), ("", "700")):
        assert out(ground.cluster, ONE, f"stat -c %a /etc/berth/{name}") == mode
    token = out(ground.cluster, ONE, "cat /etc/berth/token")
    assert token not in first.output


def an_upgrade_stops_at_the_first_failure(ground: Ground, mine: dict[str, Any], folder: Path) -> None:
    pids = {host: ground.agents(host) for host in HOSTS}
    broken = folder / "broken.pyz"
    broken.write_bytes(b"no program")
    failed = ground.play(**mine, node_agent_zipapp=str(broken))
    assert failed.rc != 0
    assert {task.host for task in failed.tasks if task.kind == "failed"} == {HOSTS[0]}
    assert not [task for task in failed.tasks if task.host in HOSTS[1:]]
    assert {host: ground.agents(host) for host in HOSTS} == pids

    # One that starts and is never Ready ends it as well: the others keep the agent that works.
    lame = folder / "lame.pyz"
    lame.write_text("import sys, time\nsys.exit(0) if sys.argv[1] != 'run' else time.sleep(3600)\n")
    failed = ground.play(**mine, node_agent_zipapp=str(lame), node_agent_wait_timeout=5)
    assert "does not live" in failed.failed()["msg"]
    assert {host: ground.agents(host) for host in HOSTS[1:]} == {host: pids[host] for host in HOSTS[1:]}
    ground.play(hosts=HOSTS[0], **mine).ok()
    assert ground.lease(HOSTS[0])["spec"]["holderIdentity"]


def configured_while_it_runs(ground: Ground, mine: dict[str, Any]) -> None:
    """Another configuration is taken up by the agent that runs; one that dies is started again."""
    before, pids = ground.digest(ONE), ground.agents(ONE)
    ground.play(hosts=ONE, **mine, node_agent_policies={"probe_writes": False}).ok()
    assert ground.digest(ONE) != before
    assert ground.agents(ONE) == pids

    ssh(ground.cluster, ONE, f"kill -9 {pids[0]}")
    eventually(lambda: ground.agents(ONE) not in ([], pids), what="the supervisor starts it again")


def a_run_that_died_leaves_its_restart_to_the_next(ground: Ground, mine: dict[str, Any], folder: Path) -> None:
    """The configuration of an upgrade is refused as a whole before the program is in place; the last good one stays."""
    good, pids = ground.digest(ONE), ground.agents(ONE)
    upgrade = {"node_agent_zipapp": str(newer(ground.zipapp, folder / "newer.pyz"))}
    refused = ground.play(hosts=ONE, **upgrade, berth_disks=[{"serial": ground.serial, "fs_type": "ntfs"}])
    assert f"The agent of node {ONE} would refuse its configuration" in refused.failed()["msg"]
    assert "fs_type is 'ntfs': expected one of ext4, xfs" in refused.failed()["msg"]
    assert changed(refused) == []
    assert ground.digest(ONE) == good
    at_the_restart = '{"node_agent_due": "{{ there_is_none }}"}'
    died = ground.play("--extra-vars", at_the_restart, hosts=ONE, **upgrade, **mine)
    assert "there_is_none" in died.failed()["msg"]
    assert [name for name in changed(died) if "The agent, tried before" in name], "it is in place"
    assert ground.agents(ONE) == pids, "and does not run yet"
    resumed = changed(ground.play(hosts=ONE, **upgrade, **mine).ok())
    assert [name for name in resumed if "Running with what is installed" in name], resumed
    assert len(ground.agents(ONE)) == 1
    assert ground.agents(ONE) != pids
    assert changed(ground.play(hosts=ONE, **upgrade, **mine).ok()) == []


def removed_unless_its_disks_are_held(ground: Ground, mine: dict[str, Any]) -> None:
    name = eventually(ground.disks, what="its disk")[0]["metadata"]["name"]
    lock = {"spec": {"claimRef": held()}}
    ground.cluster.kubectl("patch", "ld", name, "--type", "merge", "-p", json.dumps(lock))
    kept = ground.play(hosts=ONE, node_agent_state="absent").failed()
    assert f"not removed while disks are held: {name} (by default/db-0)" in kept["msg"]
    assert len(ground.agents(ONE)) == 1
    ground.cluster.kubectl("patch", "ld", name, "--type", "merge", "-p", '{"spec":{"claimRef":null}}')
    ground.play("--check", hosts=ONE, node_agent_state="absent").ok()
    assert len(ground.agents(ONE)) == 1
    ground.play(hosts=ONE, node_agent_state="absent").ok()
    assert ground.agents(ONE) == []
    assert not ground.lease(ONE)
    assert ssh(ground.cluster, ONE, "ls /etc/berth/token /opt/berth/berth-agent.pyz", check=False).returncode != 0
    left = changed(ground.play(node_agent_state="absent").ok())
    assert {name.partition(":")[0] for name in left} == {"h1"}, "from the other host alone: here nothing is left"
    assert ground.agents("h1") == []
