"""docs/guides/postgresql.md, typed as it stands there: two databases on local disks, from the first play to the last.

A cluster of its own, because the page ends with an uninstall. What is not as on the page is in `GuideRun.names`: hosts,
serial numbers, sizes, the image.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_dev.pytest_plugin import say, temporary_cluster
from tests.dev.hosts_help import eventually, out
from tests.support import pages
from tests.support.agent import zipapp
from tests.support.hosts import PIPELINED
from tests.support.playbook import environment
from tests.support.tarball import BIN

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(900)]
PAGE = pages.ROOT / "docs/guides/postgresql.md"
HOSTS = ("h1", "h2")
SPARE = "spare"


class GuideRun:
    """The page and where it is carried out. ``names``: a text of the page -> what stands for it here."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.sections = pages.sections(PAGE)
        self.done: set[str] = set()
        reach = cluster.hosts.inventory()["berth_hosts"]["hosts"]
        disks = {host: cluster.hosts.disks(host)[0] for host in HOSTS}
        self.names = {
            "S5H9NS0N986701": disks["h1"]["serial"],
            "S5H9NS0N986704": disks["h2"]["serial"],
            "storage: 10Gi": "storage: 200Mi",
            "postgres:15": "berth.local/postgresql:15",
            "/n1.yml": "/h1.yml",
            "/n2.yml": "/h2.yml",
            "n1: {": "h1: {",
            "n2: {": "h2: {",
            "192.0.2.11": reach["h1"]["ansible_host"],
            "192.0.2.12": reach["h2"]["ansible_host"],
            "- hosts: n2": "- hosts: h2",
        }

    def carry_out(self, title: str) -> str:
        """Write the section's files and run its commands, in order; what they print."""
        self.done.add(title)
        said = []
        for block in self.sections[title]:
            text = self._here(block.text)
            if block.language == "console":
                said.append(self.shell(text))
            else:
                name = text.splitlines()[0].removeprefix("# ")
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).write_text(text)
        return "\n".join(said)

    def shell(self, text: str) -> str:
        argv = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=self._environment(),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout

    def _here(self, text: str) -> str:
        for theirs, ours in self.names.items():
            text = text.replace(theirs, str(ours))
        return text

    def _environment(self) -> dict[str, str]:
        kubeconfig = str(self.cluster.kubeconfig)
        path = f"{self.folder / 'bin'}:{BIN}:{os.environ['PATH']}"
        cache = str(self.folder / "cache")
        ours = {"KUBECONFIG": kubeconfig, "K8S_AUTH_KUBECONFIG": kubeconfig, "KUBECACHEDIR": cache, "PATH": path}
        return environment(self.folder / "record.jsonl", {**ours, **PIPELINED})

    def get(self, *what: str) -> Any:
        return json.loads(self.cluster.kubectl("get", *what, "-o", "json"))

    def disk_of(self, replica: str) -> str:
        return str(self.get("berths", replica)["spec"]["disks"][0]["name"])


@pytest.fixture
def guide(tmp_path: Path) -> Iterator[GuideRun]:
    if os.geteuid() != 0:
        pytest.skip("real hosts need root")
    with temporary_cluster(hosts=len(HOSTS)) as cluster:
        cluster.hosts.load_image("postgresql", say)
        _prepare(cluster, tmp_path)
        yield GuideRun(cluster, tmp_path)


def _prepare(cluster: Any, folder: Path) -> None:
    """One empty disk in each host; and how these hosts are reached, which have no systemd and no sudo, in a file of the
    inventory that comes after the page's own."""
    for host in HOSTS:
        for disk in cluster.hosts.disks(host)[1:]:
            cluster.hosts.disk_remove(host, disk["name"])
    (folder / "agent.pyz").write_bytes(zipapp())
    (folder / "agent.pyz").chmod(0o755)
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").symlink_to(cluster.bin_dir / "kubectl")
    nodes = cluster.hosts.inventory()["berth_hosts"]
    nodes["vars"].update(
        node_agent_zipapp=str(folder / "agent.pyz"),
        node_agent_api_server=cluster.hosts.server_url,
        node_agent_intervals={"poll": "500ms", "health": "1s"},
        node_agent_metrics={"port": 0},
        node_agent_become=False,
        local_disks_become=False,
        disk_replace_become=False,
    )
    (folder / "inventory").mkdir()
    (folder / "inventory" / "reach.yml").write_text(yaml.safe_dump({"berth_hosts": nodes}))


def test_the_page_from_its_text(guide: GuideRun) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in guide.names if name not in text] == []
    installed(guide)
    run(guide)
    guide.carry_out("Backup and restore")
    assert "CREATE ROLE postgres" in guide.shell("kubectl exec postgres-0 -- pg_dumpall -U postgres --globals-only")
    old = a_disk_fails(guide)
    replaced(guide, old)
    uninstalled(guide)
    assert guide.done == set(guide.sections), "a part of the page was not carried out"


def installed(guide: GuideRun) -> None:
    guide.carry_out("Before")
    disks = guide.get("ld")["items"]
    assert sorted(each["spec"]["nodeName"] for each in disks) == sorted(HOSTS)


def run(guide: GuideRun) -> None:
    guide.carry_out("The manifest")
    guide.shell("kubectl apply --dry-run=server -f postgres.yml")  # "as `kubectl apply` takes it"
    guide.carry_out("Run it")
    berths = guide.get("berths")["items"]
    assert sorted((one["spec"]["nodeName"], one["status"]["phase"]) for one in berths) == [
        ("h1", "Running"),
        ("h2", "Running"),
    ]
    again = guide.shell("ansible-playbook -i inventory app.yml")
    assert re.findall(r"changed=(\d+)", again) == ["0"], again


def a_disk_fails(guide: GuideRun) -> str:
    """The disk of postgres-1, which is the one in h2: the spread has put one database on each host."""
    old = guide.disk_of("postgres-1")
    assert guide.get("berths", "postgres-1")["spec"]["nodeName"] == "h2"
    (disk,) = [each for each in guide.cluster.hosts.disks("h2") if each["plugged"]]
    guide.cluster.hosts.disk_break("h2", disk["name"])
    eventually(lambda: guide.get("ld", old)["status"]["phase"] == "Faulted", 90, "the disk to be Faulted")
    eventually(lambda: old in _events(guide), 60, "an event that names the disk")
    said = guide.carry_out("A disk fails at night")
    assert re.search(rf"{old} .*Faulted", said), said
    assert "disk_replace" in said, "the event has the command"
    return old


def _events(guide: GuideRun) -> str:
    return str(guide.cluster.kubectl("get", "events", "--field-selector", "involvedObject.name=postgres-1"))


def replaced(guide: GuideRun, old: str) -> None:
    other = guide.get("pod", "postgres-0")["metadata"]["uid"]
    guide.cluster.hosts.disk_add("h2", SPARE, "320Mi")
    (spare,) = [each for each in guide.cluster.hosts.disks("h2") if each["name"] == SPARE]
    known = {"n2-9f86d08188": old, "S5H9NS0N990001": spare["serial"], "480103981056": spare["size"]}
    assert all(name in PAGE.read_text(encoding="utf-8") for name in known)
    guide.names.update(known)
    said = guide.carry_out("The disk is replaced")
    assert said.splitlines()[-1] == "1000", "the backup is in the new database"
    now = guide.get("ld", guide.disk_of("postgres-1"))["spec"]
    assert now["identity"]["serial"] == spare["serial"]
    assert guide.get("ld", old)["spec"]["retainedFor"]["app"] == "postgres"
    assert guide.get("pod", "postgres-0")["metadata"]["uid"] == other, "the other database went on"


def uninstalled(guide: GuideRun) -> None:
    guide.carry_out("Uninstall")
    kinds = (
        "crd,validatingadmissionpolicies,clusterroles,statefulsets,services,configmaps,secrets,storageclasses,pv,pvc"
    )
    left = guide.cluster.kubectl("get", kinds, "-o", "name")
    assert [name for name in left.split() if "berth" in name or "postgres" in name] == []
    for host in HOSTS:
        assert "/var/lib/berth/disks" not in out(guide.cluster, host, "cat /proc/mounts")
        assert out(guide.cluster, host, "pgrep -f '[b]erth-agent.pyz run' || true") == ""
