"""The image that deploy/Containerfile makes is the one that every manifest in deploy/ starts: built here, and run."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import containerfile
from tests.support.certificates import authority, pem

ROOT = containerfile.ROOT
#: Not by way of /var/run, a link that leads to this machine's own /run.
SECRETS = "run/secrets/kubernetes.io/serviceaccount"
#: Each with the port of its /healthz.
PODS = {
    "agent/daemonset.yaml": 9808,
    "controller/deployment.yaml": 9809,
    "scheduler/deployment.yaml": 9810,
    "extender/deployment.yaml": 9812,
    "tasks/deployment.yaml": 9813,
}
#: emptyDir volumes.
EMPTY = ("var/lib/berth-tasks",)
#: What berth_host calls on an agent's behalf.
PROGRAMS = ("blkid", "findmnt", "lsblk", "mkfs.ext4", "mkfs.xfs", "mount", "smartctl", "udevadm", "umount")
#: In the pod: start it, ask whether it lives, end it as the kubelet does.
ATTEND = """\
import signal, subprocess, sys, time, urllib.request
port, argv = sys.argv[1], sys.argv[2:]
process, end, text = subprocess.Popen(argv, stderr=sys.stdout), time.monotonic() + 60, b""
while not text and process.poll() is None and time.monotonic() < end:
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).read()
    except OSError:
        time.sleep(0.1)
print("healthz", text.decode(), process.poll(), flush=True)
process.send_signal(signal.SIGTERM)
print("ended", process.wait(30), flush=True)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tree of the image, with what a pod has mounted there."""
    tree = tmp_path_factory.mktemp("image")
    containerfile.unpack(containerfile.make(), tree)
    tree.chmod(0o755)
    key, certificate = authority()
    mounted = {
        **{
            f"{SECRETS}/{name}": text
            for name, text in (("token", b"x"), ("namespace", b"berth-system"), ("ca.crt", certificate))
        },
        **{
            f"etc/berth/tls/{name}": text
            for name, text in (("tls.crt", certificate), ("tls.key", pem(key)), ("ca.crt", certificate))
        },
        "etc/berth/default.yaml": b"{}\n",
        "etc/berth/scheduler.yaml": _scheduler(),
    }
    for name, content in mounted.items():
        path = tree / name
        assert path.parent.resolve().is_relative_to(tree.resolve()), path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tree / "host").mkdir()
    for volume in EMPTY:
        (tree / volume).mkdir()
        (tree / volume).chmod(0o777)
    yield tree
    shutil.rmtree(tree)


def _scheduler() -> bytes:
    """The configuration that the manifest brings."""
    documents = yaml.safe_load_all((ROOT / "deploy/scheduler/deployment.yaml").read_text())
    (data,) = (one["data"] for one in _flat(documents) if one["kind"] == "ConfigMap")
    return str(data["scheduler.yaml"]).encode()


def _flat(documents: Any) -> Iterator[dict[str, Any]]:
    for one in documents:
        yield from one["items"] if one.get("kind") == "List" else [one]


def pod(manifest: str) -> tuple[list[str], dict[str, str], str]:
    """Command with arguments, environment and user of a manifest's container, as the kubelet makes them of it."""
    documents = yaml.safe_load_all((ROOT / "deploy" / manifest).read_text())
    (workload,) = (one for one in _flat(documents) if one["kind"] in ("DaemonSet", "Deployment"))
    spec = workload["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    fields = {
        "spec.nodeName": "n1",
        "metadata.namespace": "berth-system",
        "metadata.name": "pod",
        "metadata.uid": "7d1c24e4",
    }
    environment = {
        **containerfile.IMAGE.environment,
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "1",
    }
    for one in container.get("env", []):
        given = one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        environment[one["name"]] = _expanded(given, environment)
    argv = [_expanded(one, environment) for one in [*container["command"], *container.get("args", [])]]
    asked = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
    own_user, own_group = containerfile.IMAGE.user.split(":")
    return argv, environment, f"{asked.get('runAsUser', own_user)}:{asked.get('runAsGroup', own_group)}"


def _expanded(text: str, environment: dict[str, str]) -> str:
    """With the variables that come before it in the manifest."""
    return re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], text)


def inside(tree: Path, user: str, environment: dict[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    """In the image, with a network and processes of its own, of which nothing is left."""
    made = (
        'ip link set lo up && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && tree=$1 user=$2 && shift 2'
    )
    started = f'{made} && exec chroot --userspec="$user" "$tree" "$@"'
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net"]
    command = [*own, "sh", "-c", started, "sh", str(tree), user, *argv]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("manifest", PODS, ids=lambda one: one.split("/")[0])
def test_the_pod_of_the_manifest_starts(image: Path, manifest: str) -> None:
    argv, environment, user = pod(manifest)
    done = inside(image, user, environment, "/usr/bin/python3", "-c", ATTEND, str(PODS[manifest]), *argv)
    assert "healthz ok" in done.stdout, done.stdout + done.stderr
    assert "ended 0" in done.stdout, done.stdout + done.stderr


def test_an_agent_finds_its_programs_and_nobody_else_is_root(image: Path) -> None:
    _argv, environment, user = pod("agent/daemonset.yaml")
    missing = inside(
        image,
        user,
        environment,
        "sh",
        "-c",
        f"for p in {' '.join(PROGRAMS)}; do command -v $p >/dev/null || echo $p; done",
    )
    assert (missing.stdout, missing.returncode, user) == ("", 0, "0:0")
    assert {pod(one)[2] for one in PODS if one != "agent/daemonset.yaml"} == {"65532:65532"}


def test_what_the_role_names_is_that_file() -> None:
    """No default image: whoever installs has to have made one, and is told from what."""
    text = (ROOT / "roles/node_agent/tasks/daemonset.yml").read_text()
    assert str(containerfile.FILE.relative_to(ROOT)) in text
