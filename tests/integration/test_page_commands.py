"""What a new user does: every command of README, Install and Quickstart, from the pages themselves and in their order.

The hosts on which README's example runs are those of the demo that README begins with: one cluster, as a reader has it.
Commands in the running text of the pages, and of the PostgreSQL guide, are commands of the pages too: `IN_THE_TEXT`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from berth_dev.cluster import Cluster
from tests.dev.hosts_help import ssh
from tests.support import pages
from tests.support.commands import Reader
from tests.support.tarball import BIN, command

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = pages.ROOT
#: README's image, as the hosts have it without a registry.
IMAGE, HERE = "docker.io/library/busybox:1.37", "berth.local/busybox:1"
TABLE = r"(?m)^.*{ordinal} +journal-{ordinal} +h\d +h\d-\w+ +\d+Mi +Running"


README, GUIDES = ROOT / "README.md", ROOT / "docs" / "guides"
INSTALL, QUICKSTART, POSTGRESQL = (GUIDES / f"{name}.md" for name in ("install", "quickstart", "postgresql"))
#: What a command in running text begins with.
PROGRAMS = ("ansible-galaxy", "ansible-playbook", "berth-dev", "kubectl", "make", "oc", "pg_dumpall", "pip", "podman")
HERE_IN_TEXT = "test_quickstart runs it"
#: What the running text of the pages tells the reader to run -> where it is run, or why it is not.
IN_THE_TEXT = {
    "make demo-down": "a block of the quickstart has it, too",
    "make help": "test_readme runs it",
    "make check": "its stages are stages of the run that runs this",
    "make test": "it is the run that runs this",
    "kubectl berth": "the plugin's name: tests/apiserver/test_kubectl_berth.py runs it",
    "oc login": "the name of another's program, whose file tests/apiserver/test_openshift.py reads",
    "berth-dev up": "the playbook of the demo brings its cluster up with it",
    "berth-dev --name quickstart disk remove h1 d2": HERE_IN_TEXT,
    "berth-dev --name quickstart power off h2": HERE_IN_TEXT,
    "kubectl apply": "test_postgresql_guide.py runs it, of the page's manifest",
    "pg_dumpall --globals-only": "test_postgresql_guide.py runs it, in the database's pod",
}


class Newcomer(Reader):
    """``then``: what is done once a command with this text was run for the first time."""

    then: dict[str, Callable[[], None]]

    def run(self, commands: list[str]) -> str:
        said = super().run(commands)
        for text in [text for text in self.then if text in "\n".join(commands)]:
            self.then.pop(text)()
        return said

    @property
    def demo(self) -> Cluster:
        """The demo's cluster, where his home is."""
        return Cluster(self.home / ".local" / "state" / "berth-dev" / "quickstart")


@pytest.fixture(scope="module")
def reader() -> Iterator[Newcomer]:
    """With the tarball of this checkout. His home is short: sockets of the demo's cluster lie in it."""
    if os.geteuid() != 0:
        pytest.skip("real hosts need root")
    folder = Path(tempfile.mkdtemp(prefix="b-"))
    try:
        tree = folder / "tree"
        command(folder, BIN / "python", ROOT / "tools" / "snapshot.py", tree)
        source = tree / "ansible_collections" / "berth" / "stateful"
        command(folder, BIN / "ansible-galaxy", "collection", "build", source, "--output-path", folder)
        (tarball,) = folder.glob("berth-stateful-*.tar.gz")
        reader = Newcomer(folder, BIN, root=ROOT, tarball=tarball)
        # `make demo` runs as Ansible comes; here one ssh session for a module in place of five
        (reader.folder / "ansible.cfg").write_text("[ssh_connection]\npipelining = true\n")
        reader.then = {"demo-play": lambda: give_servers(reader)}
        yield reader
        if reader.demo.folder.exists():  # a page has failed before its own command to take it away
            reader.run([f"make -C {ROOT} demo-down"])
    finally:
        shutil.rmtree(folder)


def give_servers(reader: Newcomer) -> None:
    """The demo's hosts with a disk of the size that README asks for, their names in ``inventory``, and a kubeconfig at
    home."""
    cluster = reader.demo
    (reader.home / ".kube").mkdir()
    shutil.copy(cluster.kubeconfig, reader.home / ".kube" / "config")
    (reader.programs / "kubectl").symlink_to(cluster.bin_dir / "kubectl")
    hosts = cluster.hosts.inventory()
    hosts["berth_hosts"]["vars"] = {**hosts["berth_hosts"].get("vars", {}), "local_disks_become": False}
    (reader.folder / "inventory").mkdir()
    (reader.folder / "inventory" / "hosts.yml").write_text(yaml.safe_dump(hosts))
    for host in ("h1", "h2", "h3"):
        cluster.hosts.disk_add(host, "large", "100Gi")
        ssh(cluster, host, f"/opt/k/ctr -n k8s.io images tag --force {HERE} {IMAGE}")


def test_every_command_in_running_text_is_known() -> None:
    """A new one is run, or has a reason, like those of the blocks."""
    said = {
        span.content
        for page in (README, INSTALL, QUICKSTART, POSTGRESQL)
        for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))
        for span in token.children or ()
        if span.type == "code_inline" and re.match(rf"({'|'.join(PROGRAMS)}) ", span.content)
    }
    assert said == IN_THE_TEXT.keys()


def test_readme(reader: Newcomer) -> None:
    reader.run([f"make -C {ROOT} help"])
    demo, installed, app = reader.read(README)
    assert all(re.search(TABLE.format(ordinal=ordinal), demo) for ordinal in range(3)), demo
    assert "berth.stateful" in installed
    once, looked = ("".join(re.findall(r"changed=(\d+) ", run)) for run in app.split("PLAY RECAP")[1:])
    assert re.search("[1-9]", once), app
    assert not re.search("[1-9]", looked), app
    which = ("-l", "berth.dev/app=db", "-o", "jsonpath={.items[*].spec.nodeName}")
    assert sorted(reader.demo.kubectl("get", "pods", *which).split()) == ["h1", "h2", "h3"], "one on each host"


def test_install(reader: Newcomer) -> None:
    reader.read(INSTALL)


def test_quickstart(reader: Newcomer) -> None:
    """From the checkout, taken away, and from the installed collection, which is all that a second user has."""
    reader.then = {"kubectl exec journal-0": lambda: more_to_try(reader)}
    again, _taken_away, installed, tried, _gone = reader.read(QUICKSTART)
    assert set(re.findall(r"changed=(\d+)", again)) == {"0"}, "the demo that README made is there"
    assert all(re.search(TABLE.format(ordinal=ordinal), installed) for ordinal in range(3)), installed
    assert "journal-0" in tried
    assert not reader.then


def more_to_try(reader: Newcomer) -> None:
    """What the quickstart's list tells its reader to try."""
    playbook = "ansible-playbook berth.stateful.quickstart --check --diff -e stateful_app_replicas="
    reader.run(["berth-dev --name quickstart disk remove h1 d2"])
    planned = reader.run([f"{playbook}4"])
    assert re.search(r"(?m)^\+.*journal-3", planned), planned
    reader.run(["berth-dev --name quickstart disk add h1 d2"])
    reader.run(["berth-dev --name quickstart power off h2", "berth-dev --name quickstart power on h2"])
