"""The control plane of the development cluster: up, down, and what lies between, with the real programs."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth_dev import processes
from berth_dev.cluster import Cluster, Existing
from berth_dev.control_plane import CORE
from berth_dev.errors import ComponentError, DevError, KubeError, StateError
from berth_dev.kubeapi import ApiError, KubeApi
from berth_dev.kwok import Shape
from berth_dev.pki import Pair, Pki
from berth_dev.pytest_plugin import temporary_cluster


@pytest.fixture
def fresh() -> Iterator[Cluster]:
    """A cluster that is not up yet, and is taken down whatever happens."""
    parent = Path(tempfile.mkdtemp(prefix="berth-"))
    cluster = Cluster(parent / "c")
    yield cluster
    cluster.down()
    shutil.rmtree(parent)


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster for the tests here that do something to it."""
    with temporary_cluster(hosts=0) as cluster:
        yield cluster


def pids(cluster: Cluster) -> dict[str, int]:
    return {p.name: p.identity.pid for p in cluster.folder.processes() if p.alive}


def berth_dev(*arguments: str, prefix: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
    """The command itself, in a process of its own."""
    argv = [*prefix, sys.executable, "-m", "berth_dev", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **env}, timeout=120, check=False)


def test_up_twice_beside_another_then_down_twice(own: Cluster, fresh: Cluster) -> None:
    said: list[str] = []
    fresh.up(hosts=0, progress=said.append)
    running, tag, port = pids(fresh), fresh.folder.tag, fresh.api_url
    assert sorted(running) == sorted(CORE)
    assert fresh.kubectl("auth", "can-i", "*", "*").strip() == "yes"

    fresh.up(hosts=0, progress=said.append)
    assert pids(fresh) == running, "what runs is left alone"
    assert fresh.api_url == port
    assert any("is up already" in line for line in said)

    assert_nothing_shared(own, fresh)

    assert fresh.down()
    assert not fresh.folder.path.exists()
    assert list(processes.tagged(tag)) == []
    assert not any(processes.identity(pid) for pid in running.values())
    assert not fresh.down()
    assert fresh.status()["exists"] is False
    assert own.kubectl("get", "--raw", "/readyz") == "ok"


def assert_nothing_shared(own: Cluster, fresh: Cluster) -> None:
    """Two that are up side by side."""
    assert not set(fresh._known().ports.values()) & set(own._known().ports.values())
    fresh.kubectl("create", "namespace", "only-here")
    with pytest.raises(KubeError, match="NotFound"):
        own.kubectl("get", "namespace", "only-here")
    mixed = fresh.folder.path / "mixed"
    mixed.write_text(fresh.kubeconfig.read_text().replace(fresh.api_url, own.api_url))
    with pytest.raises(KubeError, match=r"x509|certificate"):
        Existing(mixed, own.bin_dir / "kubectl").kubectl("get", "namespaces")


def test_what_was_killed_is_noticed_repaired_and_removed(fresh: Cluster) -> None:
    fresh.up(hosts=0)
    fresh.add_nodes(1)
    fresh.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    for name in (*CORE, "kwok"):
        before = pids(fresh)
        os.kill(before[name], signal.SIGKILL)
        while processes.identity(before[name]):
            time.sleep(0.01)
        assert fresh.status()["components"][name]["alive"] is False
        fresh.up()
        after = pids(fresh)
        assert after.pop(name) != before.pop(name)
        assert after == before, f"only {name} was to be started"
    assert fresh.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"

    tag, running = fresh.folder.tag, pids(fresh)
    for pid in running.values():
        os.kill(pid, signal.SIGKILL)
    assert fresh.down()
    assert list(processes.tagged(tag)) == []
    assert not fresh.folder.path.exists()


@pytest.mark.parametrize("component", ["etcd", "kube-apiserver", "kube-scheduler"])
def test_up_itself_killed_half_way(fresh: Cluster, component: str) -> None:
    """SIGKILL of the command as soon as that component has been started."""
    argv = [sys.executable, "-m", "berth_dev", "--dir", str(fresh.folder.path), "up", "--hosts", "0"]
    command = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while component not in (pids(fresh) if fresh.folder.exists() else {}) and time.monotonic() < until:
        time.sleep(0.01)
    command.kill()
    command.wait()
    tag = fresh.folder.tag
    status = fresh.status()
    assert status["exists"]
    assert status["components"][component]["alive"]
    assert fresh.down()
    assert list(processes.tagged(tag)) == []
    assert not fresh.folder.path.exists()


@pytest.mark.parametrize("kill", [False, True])
def test_restart_of_the_api_server_keeps_data_and_address(own: Cluster, kill: bool) -> None:
    name, address, before = f"kept-{str(kill).lower()}", own.api_url, pids(own)["kube-apiserver"]
    own.kubectl("create", "configmap", name, "--from-literal=a=b")
    own.restart_apiserver(kill=kill)
    assert pids(own)["kube-apiserver"] != before
    assert own.api_url == address
    assert own.kubectl("get", "configmap", name, "-o", "jsonpath={.data.a}") == "b"


def test_stop_and_start_a_component(own: Cluster) -> None:
    assert own.stop_component("kube-scheduler")
    assert not own.stop_component("kube-scheduler")
    assert "kube-scheduler" not in pids(own)
    assert own.start_component("kube-scheduler")
    assert not own.start_component("kube-scheduler")
    with pytest.raises(StateError, match="component 'etcdd': expected one of etcd, "):
        own.stop_component("etcdd")


def test_the_server_is_verified_and_so_are_clients(own: Cluster, tmp_path: Path) -> None:
    assert own.kubeconfig.stat().st_mode & 0o777 == 0o600
    stranger = Pki(tmp_path / "pki")
    admin = own._pki.client("berth-dev:admin", ("system:masters",))
    with KubeApi(own.api_url, stranger.ca_cert, admin) as api, pytest.raises(KubeError, match=r"no answer.*verif") as e:
        api.request("GET", "/version")
    assert isinstance(e.value.__cause__, ssl.SSLCertVerificationError)

    forged = stranger.client("berth-dev:admin", ("system:masters",))
    with KubeApi(own.api_url, own.ca_cert, forged) as api, pytest.raises(ApiError, match="401 Unauthorized"):
        api.request("GET", "/api/v1/namespaces")


def as_user(cluster: Cluster, cn: str, *groups: str) -> KubeApi:
    pair: Pair = cluster._pki.client(cn, groups)
    return KubeApi(cluster.api_url, cluster.ca_cert, pair)


def test_every_identity_may_do_its_own_work_only(own: Cluster) -> None:
    own.add_nodes(2, Shape(prefix="auth-"))
    with as_user(own, "nobody-special") as api, pytest.raises(ApiError, match=r"403 Forbidden.*nobody-special"):
        api.request("GET", "/api/v1/pods")
    with as_user(own, "system:node:auth-0", "system:nodes") as api:
        assert api.request("GET", "/api/v1/nodes/auth-0")["metadata"]["name"] == "auth-0"
        patch = {"metadata": {"labels": {"x": "y"}}}
        merge = "application/merge-patch+json"
        api.request("PATCH", "/api/v1/nodes/auth-0", patch, merge)
        with pytest.raises(ApiError, match="403 Forbidden"):
            api.request("PATCH", "/api/v1/nodes/auth-1", patch, merge)
    with as_user(own, "kwok") as api, pytest.raises(ApiError, match="403 Forbidden"):
        api.request("GET", "/api/v1/secrets")
    assert own.remove_nodes("auth-") == 2


def test_a_user_kubeconfig_is_that_user(own: Cluster) -> None:
    kubeconfig = own.user_kubeconfig("ann", ["team-a"])
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    answer = Existing(kubeconfig, own.bin_dir / "kubectl").kubectl("auth", "whoami")
    assert "ann" in answer
    assert "team-a" in answer


def test_fake_nodes_come_run_pods_and_go(own: Cluster) -> None:
    assert own.add_nodes(3, Shape(cpu="4", memory="8Gi", pods=5, prefix="f-", labels={"rack": "r1"}, zones=2)) == 3
    assert own.add_nodes(1, Shape(prefix="f-")) == 1
    assert own.fake_nodes() == ["f-0", "f-1", "f-2", "f-3"]
    got = own.kubectl(
        "get", "nodes", "-l", "rack=r1", "-o", "jsonpath={.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}"
    )
    assert got == "zone-0 zone-1 zone-0"
    own.kubectl("create", "deployment", "web", "--image=none", "--replicas=4")
    own.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    own.kubectl("delete", "deployment", "web", "--wait")
    assert own.remove_nodes("f-") == 4
    assert own.fake_nodes() == []


def test_a_component_that_cannot_start_says_why(fresh: Cluster) -> None:
    fresh.folder.create()
    (fresh.folder.path / "data" / "etcd").write_text("in the way")
    with pytest.raises(ComponentError, match=r"(?s)etcd: ended instead of becoming ready.*etcd\.log.*not a directory"):
        fresh.up(hosts=0)
    assert fresh.status()["ready"] is False
    assert fresh.down()


def test_what_cannot_be_is_refused_before_anything_is_made(fresh: Cluster) -> None:
    for arguments, message in (
        ({"hosts": -1}, "number of hosts -1: expected 0 to"),
        ({"hosts": 99}, "number of hosts 99: expected 0 to"),
        ({"hosts": 0, "fake_nodes": -1}, "number of fake nodes -1: expected 0 or more"),
        ({"hosts": 0, "version": "latest"}, "Kubernetes version 'latest': expected a release like v1.36.4"),
    ):
        with pytest.raises(DevError, match=message):
            fresh.up(**arguments)  # type: ignore[arg-type]
        assert not fresh.folder.path.exists()


def test_another_version_in_the_same_folder_is_refused(own: Cluster) -> None:
    with pytest.raises(StateError, match=r"runs v1\.36\.4, not v1\.35\.0; take it down"):
        own.up(version="v1.35.0")


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_on_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no")
    for arguments in (
        ["kubeconfig"],
        ["inventory"],
        ["kubectl", "get", "ns"],
        ["disk", "list", "h1"],
        ["nodes", "list"],
    ):
        done = berth_dev("--dir", nowhere, *arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("berth-dev: cluster no: is not up"), done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert berth_dev("--dir", nowhere, "down").returncode == 0
    assert not Path(nowhere).exists()


def test_the_command_reaches_a_running_cluster(own: Cluster) -> None:
    where = ("--dir", str(own.folder.path))
    assert berth_dev(*where, "kubeconfig").stdout.strip() == str(own.kubeconfig)
    assert "kube-system" in berth_dev(*where, "kubectl", "get", "namespaces").stdout
    assert "ready: true" in berth_dev(*where, "status").stdout
    done = berth_dev(*where, "inventory")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no hosts; `berth-dev up --hosts 3` (as root) adds them" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_without_root_the_control_plane_alone_and_that_is_said() -> None:
    """Another user, who may read the interpreter in root's home but has no other right of root's."""
    somebody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    somebody += ("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search")
    parent = Path(tempfile.mkdtemp(prefix="berth-"))
    os.chown(parent, 65534, 65534)
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    where, env = ("--dir", str(parent / "c")), {"XDG_CACHE_HOME": cache, "HOME": str(parent)}
    try:
        refused = berth_dev(*where, "up", "--hosts", "3", prefix=somebody, **env)
        assert refused.returncode == 1
        assert "number of hosts 3: real hosts need root; run as root, or ask for 0 and use fake nodes" in refused.stderr
        assert not (parent / "c").exists()
        done = berth_dev(*where, "up", prefix=somebody, **env)
        assert done.returncode == 0, done.stderr
        assert "not root: no real hosts; the control plane and fake nodes alone" in done.stderr
        assert (parent / "c").stat().st_uid == 65534
    finally:
        berth_dev(*where, "down", prefix=somebody, **env)
        Cluster(parent / "c").down()
        shutil.rmtree(parent)
