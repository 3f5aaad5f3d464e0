"""Kind clusters without Docker: what is refused before anything is made, what kind is told. tests/kind has others."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
import yaml

from berth_dev.errors import KindError
from berth_dev.hosts.model import Slot
from berth_dev.kind import cluster_images, docker, nodes
from berth_dev.kind.cluster import KindCluster
from berth_dev.kind.model import Port, Wish, configuration, node_names, nodes_of
from berth_dev.state import ClusterDir

SLOT = Slot(80, 64, 3)


@pytest.fixture
def no_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No program is found, and no Docker answers; where clusters would be."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    (tmp_path / "bin").mkdir()
    return tmp_path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish("a_b"), "name 'a_b': expected lower-case letters"),
        (Wish("try", workers=0), "workers 0: expected 1 to 19"),
        (Wish("try", api_port=70000), "API server's port 70000: expected 1 to 65535"),
        (Wish("try", api_port=8080, ports=(Port(8080, 80),)), "port 8080: is asked for twice"),
        (Wish("try", kubernetes="latest"), "Kubernetes 'latest': expected a minor version or a release"),
        (Wish("try", kubernetes="1.3"), r"Kubernetes 1.3: node image berth.local/kind-node:v\S+ has v1.36.4; another"),
        (Wish("try", kubernetes="v1.36.5"), "Kubernetes v1.36.5: node image"),
    ],
)
def test_a_wish_that_cannot_be_had_is_refused(wish: Wish, message: str, no_docker: Path) -> None:
    with pytest.raises(KindError, match=message):
        KindCluster("try").lacks(wish)
    assert not (no_docker / "state").exists()


@pytest.mark.parametrize("version", ["", "1.36", "v1.36", "1.36.4", "v1.36.4"])
def test_the_version_of_the_image_in_all_its_forms(version: str) -> None:
    Wish("try", kubernetes=version).check()


@pytest.mark.parametrize("text", ["80", "80:", "0:80", "80:65536", "a:b", "1:2:3"])
def test_a_port_that_is_none(text: str) -> None:
    with pytest.raises(KindError, match="expected MACHINE:NODE"):
        Port.parse(text)


def test_no_docker(no_docker: Path) -> None:
    with pytest.raises(KindError, match=r"no Docker: none answers.*apt-get install -y docker.io"):
        KindCluster("try").lacks(Wish("try"))
    assert not (no_docker / "state").exists()


def test_a_docker_that_this_user_may_not_use(no_docker: Path) -> None:
    said = "Got permission denied while trying to connect to the Docker daemon socket"
    script(no_docker / "bin/docker", f"echo '{said}' >&2; exit 1")
    with pytest.raises(KindError, match=r"permission denied.*; run as root"):
        KindCluster("try").lacks(Wish("try"))


def test_a_docker_without_root(no_docker: Path) -> None:
    script(no_docker / "bin/docker", '[ $1 = info ] && echo \'["name=seccomp","name=rootless"]\'; exit 0')
    with pytest.raises(KindError, match="rootless"):
        KindCluster("try").lacks(Wish("try"))


def test_nodes_of_that_name_that_somebody_else_made(no_docker: Path) -> None:
    script(no_docker / "bin/docker", "[ $1 = ps ] && echo try-worker running; [ $1 = info ] && echo '[]'; exit 0")
    with pytest.raises(KindError, match=r"Docker has its nodes try-worker.*kind delete cluster --name try"):
        KindCluster("try").lacks(Wish("try"))


def test_a_port_in_use(no_docker: Path) -> None:
    script(no_docker / "bin/docker", "[ $1 = info ] && echo '[]'; exit 0")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for wish in (Wish("try", api_port=port), Wish("try", ports=(Port(port, 80),))):
            with pytest.raises(KindError, match=f"port {port} of 127.0.0.1: Address already in use; choose another"):
                KindCluster("try").lacks(wish)


def test_a_cluster_whose_making_was_cut_short(no_docker: Path) -> None:
    cluster = KindCluster("try")
    cluster.folder.create()
    with pytest.raises(KindError, match="half-made, its making was cut short; remove it"):
        cluster.lacks(Wish("try"))


def test_what_kind_is_told() -> None:
    told = yaml.safe_load(configuration(Wish("try", 2, api_port=6443, ports=(Port(8080, 30080),)), SLOT))
    assert [node["role"] for node in told["nodes"]] == ["control-plane", "worker", "worker"]
    mapping = {"containerPort": 30080, "hostPort": 8080, "listenAddress": "127.0.0.1"}
    assert told["nodes"][0]["extraPortMappings"] == [mapping]
    assert told["networking"]["disableDefaultCNI"] is True
    assert told["networking"]["apiServerPort"] == 6443
    stock = yaml.safe_load(configuration(Wish("try", image="kindest/node:v1.36.4"), SLOT))
    assert "disableDefaultCNI" not in stock["networking"], "kind's own images bring their own network"


def test_nodes_are_named_as_kind_does_and_share_no_disk() -> None:
    wish = Wish("try", 2)
    assert node_names(wish) == ["try-control-plane", "try-worker", "try-worker2"]
    made = nodes_of(wish, SLOT, {"try-worker": "10.80.0.9"})
    assert made[1].address == "10.80.0.9"
    assert not set(made[1].loops) & set(made[2].loops)
    assert len({node.pod_subnet for node in made}) == 3


def test_every_unit_of_a_node_runs_what_is_written_there(tmp_path: Path) -> None:
    keys = nodes.ssh.Keys(tmp_path)
    made = nodes_of(Wish("try", 1), SLOT, {})
    keys.prepare(made)
    written = nodes.files(made[1], made, None, keys)
    for name, text in nodes.UNITS.items():
        assert f"etc/systemd/system/{name}" in written
        for module in (word for word in text.split() if word.startswith("inside.")):
            assert f"opt/berth/{module.replace('.', '/')}.py" in written


def test_whether_limits_may_be_raised() -> None:
    assert docker.may_raise_limits("CapPrm:\t0\nCapEff:\t000001ffffffffff\n")
    assert not docker.may_raise_limits("CapEff:\t000001fffeffffff\n")


def test_cgroups_of_docker_are_found_in_every_tree(tmp_path: Path) -> None:
    for path in ("memory/berth-docker-7", "unified/berth-docker-7", "cpu/berth-docker-77"):
        (tmp_path / path).mkdir(parents=True)
    assert docker.cgroup_folders("berth-docker-7", tmp_path) == [
        tmp_path / "memory/berth-docker-7",
        tmp_path / "unified/berth-docker-7",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_a_tool_goes_with_its_libraries() -> None:
    found = cluster_images.linked(Path("/"), ("usr/bin/true",))
    assert "usr/bin/true" in found
    assert any("libc.so" in path for path in found), found


def test_a_docker_that_was_never_started_is_stopped(tmp_path: Path) -> None:
    folder = ClusterDir(tmp_path / "try")
    folder.create()
    docker.stop(folder)
    assert folder.recorded("docker") == []
