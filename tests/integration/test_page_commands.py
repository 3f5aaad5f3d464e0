"""What a new user does: every command of README, Install and Quickstart, from the pages themselves and in their order.

The hosts on which README's example runs are those of the development cluster; the demo makes a cluster of its own.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_dev.pytest_plugin import cluster_of_hosts
from tests.dev.hosts_help import ssh
from tests.support import pages
from tests.support.commands import Reader
from tests.support.tarball import BIN, command

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = pages.ROOT
#: README's image, as the hosts have it without a registry.
IMAGE, HERE = "docker.io/library/busybox:1.37", "berth.local/busybox:1"
TABLE = r"(?m)^.*{ordinal} +journal-{ordinal} +h\d +h\d-\w+ +\d+Mi +Running"


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """With the tarball of this checkout. His home is short: sockets of the demo's cluster lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="b-"))
    try:
        tree = folder / "tree"
        command(folder, BIN / "python", ROOT / "tools" / "snapshot.py", tree)
        source = tree / "ansible_collections" / "berth" / "stateful"
        command(folder, BIN / "ansible-galaxy", "collection", "build", source, "--output-path", folder)
        (tarball,) = folder.glob("berth-stateful-*.tar.gz")
        reader = Reader(folder, BIN, root=ROOT, tarball=tarball)
        yield reader
        reader.run([f"make -C {ROOT} demo-down"])
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def dev_cluster() -> Iterator[Any]:
    """Its own: what README makes would be in the way of other tests, and theirs in the way of its selectors."""
    with cluster_of_hosts() as cluster:
        yield cluster


@pytest.fixture
def servers(reader: Reader, dev_cluster: Any) -> Iterator[Any]:
    """Hosts with a disk of the size that README asks for, their names in ``inventory``, and a kubeconfig at home."""
    (reader.home / ".kube").mkdir()
    shutil.copy(dev_cluster.kubeconfig, reader.home / ".kube" / "config")
    (reader.programs / "kubectl").symlink_to(dev_cluster.bin_dir / "kubectl")
    hosts = dev_cluster.hosts.inventory()
    hosts["berth_hosts"]["vars"] = {**hosts["berth_hosts"].get("vars", {}), "local_disks_become": False}
    (reader.folder / "inventory").mkdir()
    (reader.folder / "inventory" / "hosts.yml").write_text(yaml.safe_dump(hosts))
    for host in ("h1", "h2", "h3"):
        dev_cluster.hosts.disk_add(host, "large", "100Gi")
        ssh(dev_cluster, host, f"/opt/k/ctr -n k8s.io images tag --force {HERE} {IMAGE}")
    return dev_cluster


def test_readme(reader: Reader, servers: Any) -> None:
    demo, installed, app = reader.read(ROOT / "README.md")
    assert all(re.search(TABLE.format(ordinal=ordinal), demo) for ordinal in range(3)), demo
    assert "berth.stateful" in installed
    recaps = re.findall(r"changed=(\d+) ", app)
    assert recaps.count("0") < len(recaps), app
    pods = servers.kubectl("get", "pods", "-l", "berth.dev/app=db", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    assert sorted(pods) == ["h1", "h2", "h3"], "one on each host"
    again = reader.run(["ansible-playbook -i inventory disks.yml", "ansible-playbook -i inventory app.yml"])
    assert set(re.findall(r"changed=(\d+) ", again)) == {"0"}, again


def test_install(reader: Reader) -> None:
    reader.read(ROOT / "docs/guides/install.md")


def test_quickstart(reader: Reader) -> None:
    """From the checkout, taken away, and from the installed collection, which is all that a second user has."""
    again, _taken_away, installed, tried, _gone = reader.read(ROOT / "docs/guides/quickstart.md")
    assert set(re.findall(r"changed=(\d+)", again)) == {"0"}, "the demo that README made is there"
    assert all(re.search(TABLE.format(ordinal=ordinal), installed) for ordinal in range(3)), installed
    assert "journal-0" in tried
