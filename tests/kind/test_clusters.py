"""What a kind cluster is refused for, on a real Docker, and its fake nodes. Run by `make kind`, which brings Docker
and the node image.

tests/dev/test_kind_units.py has what needs no Docker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth_dev.errors import KindError
from berth_dev.hosts import slots
from berth_dev.images import archive
from berth_dev.kind import docker as dockers
from berth_dev.kind import fakes, image, programs
from berth_dev.kind.cluster import KindCluster
from berth_dev.kind.docker import Docker
from berth_dev.kind.model import Port, Wish
from berth_dev.state import ClusterDir
from tests.dev.hosts_help import eventually

NOBODY = 65534


@contextlib.contextmanager
def running(folder: ClusterDir, *wrapper: str) -> Iterator[Docker]:
    """A Docker of the tests' own, in a folder that is there."""
    try:
        slot = slots.reserve(folder.path, 1)
        yield dockers.start(folder, slot.octet, programs.ensure() / "bin/berth-runc", wrapper=wrapper)
    finally:
        dockers.stop(folder)
        slots.release(folder.path)


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """One for all tests."""
    folder = ClusterDir(tmp_path_factory.mktemp("docker") / "docker")
    folder.create()
    with running(folder) as started:
        yield started


@pytest.fixture
def machine(docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """It is the machine's; clusters would be below the test's folder."""
    monkeypatch.setenv("DOCKER_HOST", docker.host)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return docker


@pytest.fixture
def tiny(machine: Docker, tmp_path: Path) -> Iterator[str]:
    """An image with a `cat`, that says it has Kubernetes v1.35.9."""
    name, busybox = "berth.local/old-kind-node:1", Path("/usr/bin/busybox")
    with tarfile.open(tmp_path / "image.tar", "w") as tar:
        archive.add_file(tar, "bin/cat", busybox.read_bytes(), 0o755)
        archive.add_file(tar, "kind/version", b"v1.35.9\n")
    machine("import", str(tmp_path / "image.tar"), name)
    yield name
    machine("image", "rm", "--force", name)


def left(docker: Docker, name: str) -> list[str]:
    """What there still is of a cluster: containers, its network, its folder."""
    networks = docker("network", "ls", "--format", "{{.Name}}").split()
    folder = KindCluster(name).folder
    parts = [n for n in networks if n == f"berth-kind-{name}"] + ([str(folder.path)] if folder.exists() else [])
    return [*docker.nodes(name), *parts]


def test_an_image_of_another_kubernetes(machine: Docker, tiny: str) -> None:
    with pytest.raises(KindError, match=rf"Kubernetes 1\.36: node image {tiny} has v1\.35\.9"):
        KindCluster("old").up(Wish("old", image=tiny, kubernetes="1.36"))
    assert left(machine, "old") == []


def test_an_image_that_no_registry_gives(machine: Docker) -> None:
    with pytest.raises(KindError, match=r"docker pull registry\.invalid/node:v1"):
        KindCluster("none").up(Wish("none", image="registry.invalid/node:v1"))
    assert left(machine, "none") == []


def test_nodes_of_that_name_that_somebody_else_made(machine: Docker, tiny: str) -> None:
    made = machine("create", "--net=none", "--label", f"{dockers.LABEL}=theirs", "--name", "theirs-worker", tiny, "cat")
    try:
        with pytest.raises(KindError, match=r"Docker has its nodes theirs-worker.*kind delete cluster --name theirs"):
            KindCluster("theirs").up(Wish("theirs"))
        assert list(machine.nodes("theirs")) == ["theirs-worker"], "it is left alone"
    finally:
        machine("rm", "--force", made.strip())


def test_a_port_in_use(machine: Docker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for wish in (Wish("port", api_port=port), Wish("port", ports=(Port(port, 80),))):
            with pytest.raises(KindError, match=f"port {port} of 127.0.0.1: Address already in use; choose another"):
                KindCluster("port").up(wish)
    assert left(machine, "port") == []


def test_a_docker_that_lets_nobody_be_privileged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives containers other users, as `userns-remap` in /etc/docker/daemon.json does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ranges = tmp_path / "ranges"
    ranges.write_text("nobody:100000:65536\nnogroup:100000:65536\n")
    script = 'mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec "$@" --userns-remap=nobody:nogroup'
    with tempfile.TemporaryDirectory(prefix="berth-test-") as place:
        folder = ClusterDir(Path(place) / "docker")
        folder.create()
        data = folder.path / "data" / "docker"
        data.mkdir(parents=True, exist_ok=True)
        for one in (Path(place), folder.path, data.parent, data):
            one.chmod(0o711)  # whom root is there may enter
        with running(folder, "unshare", "--mount", "sh", "-c", script, str(ranges)) as docker:
            monkeypatch.setenv("DOCKER_HOST", docker.host)
            with pytest.raises(KindError, match=r"userns-remap.*no node may be privileged"):
                KindCluster("weak").up(Wish("weak"))
            assert left(docker, "weak") == []


def test_a_docker_that_this_user_may_not_use(docker: Docker) -> None:
    """Its socket is root's and its group's, as everywhere; its folder is let be seen, as /run is."""
    place = Path(docker.host.removeprefix("unix://")).parent
    modes = {folder: folder.stat().st_mode & 0o777 for folder in (place.parent, place)}
    try:
        for folder in modes:
            folder.chmod(0o711)
        assert "permission denied" in (said := as_nobody(docker)), said
        assert said.endswith("run as root, or as a member of the group docker")
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)


def as_nobody(docker: Docker) -> str:
    """What a look for the machine's Docker says in a process without rights."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.environ["DOCKER_HOST"] = docker.host
            os.write(writer, f"usable: {dockers.machines()}".encode())
        except KindError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


def test_a_cluster_whose_making_was_killed(machine: Docker) -> None:
    """The maker dies while kind makes nodes: the next run says what is, and `down` leaves nothing."""
    cluster = KindCluster("killed")
    argv = [sys.executable, "-m", "berth_dev", "--name", "killed", "kind", "up", "--workers", "1"]
    maker = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        eventually(lambda: machine.nodes("killed") or maker.poll() is not None, 300, "a node, or the maker's end")
        assert maker.poll() is None, "it was to be killed at work"
    finally:
        os.killpg(maker.pid, signal.SIGKILL)  # kind with it, as a machine's user would end both
        maker.wait()
    assert image.cached()
    with pytest.raises(KindError, match="killed: is half-made, its making was cut short; remove it"):
        cluster.up(Wish("killed", workers=1))
    cluster.down()
    assert left(machine, "killed") == []


def test_fake_nodes_beside_real_ones_and_a_node_that_is_lost(machine: Docker) -> None:
    cluster, wish = KindCluster("lost"), Wish("lost", workers=1)
    try:
        cluster.up(wish, fake_nodes=3)
        ready = '{.status.conditions[?(@.type=="Ready")].status}'
        told = f'{{range .items[*]}}{{.metadata.labels.type}} {{.spec.taints[*].key}} {ready}{{"\\n"}}{{end}}'
        nodes = cluster.kubectl("get", "nodes", "-o", f"jsonpath={told}").splitlines()
        assert nodes.count("kwok kwok.x-k8s.io/node True") == 3
        assert len(nodes) == 5
        assert cluster.lacks(wish, 3) == []
        assert cluster.lacks(wish, 5) == ["2 fake nodes"]
        cluster.folder.stop(fakes.PROCESS, 0)
        assert cluster.lacks(wish, 3) == ["kwok"]
        assert cluster.lacks(wish) == [], "nobody asked for any"
        cluster.up(wish, fake_nodes=3)
        kwok = cluster.folder.pid(fakes.PROCESS)
        machine("rm", "--force", "--volumes", "lost-worker")
        with pytest.raises(KindError, match="lost: is half-made, without lost-worker; remove it"):
            cluster.up(wish)
    finally:
        cluster.down()
    assert left(machine, "lost") == []
    assert not Path(f"/proc/{kwok}").exists()
