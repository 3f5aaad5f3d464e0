"""The role node_agent on a host with systemd: an earlier release's agent, this one's in its place, and its removal.

A host of the development cluster is started with systemd as its process 1. The earlier release is an older commit,
with what releases differ in: a number of its own, and a unit of its own. One story, because each part needs what the
one before has installed. What does not need systemd (modes of files, secrets that are not shown, a run that dies, the
refusal to remove the agent of held disks) is in test_node_agent.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth_agent import VERSION
from tests.daemons.agent.disk_ground import Ground
from tests.dev.hosts_help import eventually, node_ready
from tests.support.agent import ROOT, zipapp
from tests.support.hosts import run_on
from tests.support.kube import install_crds
from tests.support.playbook import Run, changed
from tests.support.tarball import OLDER, checkout

HOST = "h3"
UNIT = "berth-agent.service"
FILE = f"/etc/systemd/system/{UNIT}"
STARTED = "Running with what is installed, now and after a boot"
pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(900)]


class Host(Ground):
    """A host with systemd, a disk of the test's own, and the role's plays for it."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        super().__init__(cluster, HOST)
        self.folder = folder
        self.disk = self.plug()
        self.here = self.agent.here

    def play(self, *args: str, collections: Path | None = None, **values: Any) -> Run:
        """The role as a play; ``collections``: those of another release."""
        common = {
            "berth_disks": [{"serial": self.plugged[self.disk]["serial"]}],
            "node_agent_kubeconfig": str(self.cluster.kubeconfig),
            "node_agent_api_server": self.cluster.hosts.server_url,
            "node_agent_intervals": {"poll": "500ms"},
            "node_agent_metrics": {"port": 0},
        }
        role = {"name": "role", "ansible.builtin.include_role": {"name": "berth.stateful.node_agent"}}
        play = {"hosts": HOST, "gather_facts": False, "vars": {**common, **values}, "tasks": [role]}
        env = {"ANSIBLE_COLLECTIONS_PATH": str(collections)} if collections else {}
        return run_on(self.cluster.hosts.inventory(), [play], self.folder, *args, env=env)

    def shown(self, *names: str) -> list[str]:
        """Properties of the service, as systemd has them."""
        return [self.here(f"systemctl show --value -p {name} {UNIT}") for name in names]

    def version(self) -> str:
        """What the agent says of itself in its Lease."""
        return self.agent.annotations()["berth.dev/agent-version"]

    def mount(self) -> str:
        """The mount of the disk, with its number: another mount has another."""
        return self.here(f"grep ' {self.point(self.disk)} ' /proc/self/mountinfo")

    def starts(self) -> int:
        """How often systemd has started the agent since the host has its power, by the journal."""
        return self.here(f"journalctl -o cat --no-pager _PID=1 UNIT={UNIT}").count("Started ")


@pytest.fixture
def host(dev_cluster: Any, tmp_path: Path) -> Iterator[Host]:
    install_crds(dev_cluster.kubeconfig)
    boot(dev_cluster, systemd=True)
    it = Host(dev_cluster, tmp_path)
    try:
        yield it
    finally:
        it.here(f"systemctl disable --now {UNIT}; rm -rf {FILE} /opt/berth/berth-agent* /etc/berth", check=False)
        it.here("rm -rf /var/lib/berth/agent /var/cache/berth-agent /opt/berth/started-with")
        it.clean()
        boot(dev_cluster, systemd=False)


def boot(cluster: Any, systemd: bool) -> None:
    """The host's power is cut, and comes back; the host is there and its node is Ready."""
    cluster.hosts.power_off(HOST)
    cluster.hosts.power_on(HOST, systemd=systemd)
    # Until it has its own root, the machine's processes are seen there: kubelets of other hosts, too.
    eventually(lambda: cluster.hosts.enter(HOST, "ls", "/opt/berth/inside/blockdev.py"), 60, f"{HOST} has its own root")
    eventually(lambda: cluster.hosts.enter(HOST, "pgrep", "-x", "kubelet"), 60, f"kubelet runs on {HOST}")
    eventually(lambda: node_ready(cluster, HOST) == "True", 60, f"node {HOST} is Ready")


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The collections path of an earlier release, with its agent built beside it."""
    tree = checkout(tmp_path / "earlier" / "ansible_collections" / "berth" / "stateful", OLDER["WITH_DAEMONS"])
    differ(tree / "src/berth_agent/__init__.py", 'VERSION = "0.1.0"', 'VERSION = "0.0.9"')
    differ(tree / "roles/node_agent/templates/berth-agent.service.j2", "WatchdogSec=60", "WatchdogSec=90")
    build = [sys.executable, tree / "tools/zipapp.py", tmp_path / "earlier.pyz"]
    subprocess.run([*map(str, build), str(ROOT / "build")], check=True)
    return tmp_path / "earlier"


def differ(file: Path, ours: str, theirs: str) -> None:
    text = file.read_text()
    assert ours in text
    file.write_text(text.replace(ours, theirs))


@pytest.mark.promise
def test_an_earlier_release_is_upgraded_under_a_held_disk_and_removed(host: Host, earlier: Path) -> None:
    lock, data = installed_by_the_earlier_release(host, earlier)
    host.folder.joinpath("now.pyz").write_bytes(zipapp())
    now = {"node_agent_zipapp": str(host.folder / "now.pyz")}
    upgraded_with_one_restart(host, now)
    host.wait_mounted(host.disk, lock)
    assert host.here(f"sha256sum < {host.point(host.disk)}/data/file") == data
    started_again_when_it_is_killed(host)
    removed_whatever_is_mounted(host, data)


def installed_by_the_earlier_release(host: Host, earlier: Path) -> tuple[dict[str, Any], str]:
    """The lock of the disk, which holds a file from now on, and the file's checksum."""
    host.play(collections=earlier, node_agent_zipapp=str(earlier.with_suffix(".pyz"))).ok()
    assert host.shown("ActiveState", "UnitFileState", "WatchdogUSec") == ["active", "enabled", "1min 30s"]
    assert host.version() == "0.0.9"
    eventually(lambda: host.object(host.disk), 60, "the disk is published")
    lock = host.lock(host.disk)
    host.wait_mounted(host.disk, lock)
    file = f"{host.point(host.disk)}/data/file"
    return lock, host.here(f"head -c 1M /dev/urandom > {file} && sync {file} && sha256sum < {file}")


def upgraded_with_one_restart(host: Host, now: dict[str, Any]) -> None:
    before, mount, starts = host.shown("MainPID"), host.mount(), host.starts()
    planned = host.play("--check", "--diff", **now).ok()
    assert {"-WatchdogSec=90", "+WatchdogSec=60"} <= set(planned.output.splitlines())
    assert (host.shown("MainPID"), host.here(f"grep Watchdog {FILE}")) == (before, "WatchdogSec=90")

    tasks = changed(host.play(**now).ok())
    assert [name for name in tasks if STARTED in name], tasks
    assert host.starts() == starts + 1
    assert host.shown("ActiveState", "UnitFileState", "WatchdogUSec") == ["active", "enabled", "1min"]
    assert host.shown("MainPID") != before
    assert host.version() == VERSION
    assert host.mount() == mount, "it was never unmounted"
    assert changed(host.play(**now).ok()) == []
    assert host.starts() == starts + 1


def started_again_when_it_is_killed(host: Host) -> None:
    """And what it says before and after is in the journal."""
    mount = host.mount()
    (pid, limit) = host.shown("MainPID", "StartLimitIntervalUSec")
    assert limit == "0", "it is never given up"
    host.here(f"systemctl kill --kill-who=main -s KILL {UNIT}")
    eventually(lambda: host.shown("MainPID")[0] not in ("0", pid), 30, "systemd starts it again")
    eventually(lambda: host.shown("ActiveState", "NRestarts") == ["active", "1"], 60, "and it is ready")
    assert host.mount() == mount
    (anew,) = host.shown("MainPID")
    for each in (pid, anew):
        assert host.here(f"journalctl -o cat --no-pager -u {UNIT} _PID={each}"), f"lines of process {each}"


def removed_whatever_is_mounted(host: Host, data: str) -> None:
    mount, absent = host.mount(), {"node_agent_state": "absent"}
    planned = host.play("--check", "--diff", **absent, node_agent_force=True).ok()
    assert len(changed(planned)) == 3, "the unit is stopped, files and Lease go"
    assert host.shown("ActiveState", "UnitFileState") == ["active", "enabled"]

    # One that does not heed: systemd ends it by force, and calls that a failure.
    heedless = f"/run/systemd/system/{UNIT}.d"
    how = "[Service]\\nKillSignal=SIGWINCH\\nTimeoutStopSec=2\\n"
    host.here(f"mkdir {heedless}; printf '{how}' > {heedless}/heedless.conf; systemctl daemon-reload")
    host.play(**absent, node_agent_force=True).ok()
    host.here(f"rm -r {heedless}")
    assert host.shown("LoadState", "ActiveState", "UnitFileState") == ["not-found", "inactive", ""]
    assert host.here("systemctl list-units --all --no-legend 'berth-agent*'") == ""
    assert host.here(f"find /etc/systemd -name '{UNIT}*'") == "", "nor is it asked for at a boot"
    assert host.here("pgrep -f '[b]erth-agent.pyz' || true") == ""
    left = "find /opt/berth/berth-agent* /opt/berth/started-with /etc/berth /var/cache/berth-agent -type f"
    assert host.here(left, check=False) == ""
    lease = ("get", "lease", f"berth-agent-{HOST}", "-n", "berth-system", "--ignore-not-found")
    assert host.cluster.kubectl(*lease).strip() == ""
    assert host.cluster.kubectl("get", "serviceaccount", "berth-agent", "-n", "berth-system"), (
        "other hosts have it, too"
    )
    assert host.mount() == mount, "what is mounted stays mounted"
    assert host.here(f"sha256sum < {host.point(host.disk)}/data/file") == data
    held = json.loads(host.cluster.kubectl("get", "ld", host.object_name(host.disk), "-o", "json"))
    assert held["spec"]["claimRef"], "the lock stays"
    assert changed(host.play(**absent, node_agent_force=True).ok()) == []
