"""A job on real kubelets: playbooks/tasks_demo.yml hashes a tree on every host's disk; and a function runs in a pod.

The hosts are those of other tests; the backend is a process of this machine, with the rights of its service account.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_tasks.program import TaskExecutor
from tests.daemons.scheduler.world import kubeconfig
from tests.daemons.tasks.world import DEPLOY, Process, until
from tests.support.kube import client_for, install_crds
from tests.support.playbook import Run, _read, ansible_playbook, environment

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]
PLAYBOOK = Path(__file__).parents[2] / "playbooks" / "tasks_demo.yml"
HOSTS = ("h1", "h2", "h3")
IMAGE, TREE = "berth.local/busybox:1", "/var/lib/tasks-demo"
#: A namespace for what is allowed, and one whose Pod Security forbids a hostPath.
FREE, STRICT = "tasks-demo", "tasks-demo-strict"


@pytest.fixture(scope="module")
def cluster(dev_cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """With the backend, its namespaces, and a tree on each host, of which one differs."""
    folder = tmp_path_factory.mktemp("backend")
    install_crds(dev_cluster.kubeconfig)
    dev_cluster.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"))
    api = client_for(dev_cluster.kubeconfig, warn=lambda _text: None)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "berth-task-runner"}
    subject = {"kind": "ServiceAccount", "name": "berth-tasks", "namespace": "berth-system"}
    for name, level in ((FREE, "privileged"), (STRICT, "baseline")):
        labels = {"pod-security.kubernetes.io/enforce": level}
        api.create(kinds.NAMESPACE, {"metadata": {"name": name, "labels": labels}})
        binding = {"metadata": {"name": "tasks", "namespace": name}, "roleRef": ref, "subjects": [subject]}
        api.create(kinds.ROLE_BINDING, binding)
    for host in HOSTS:
        words = (
            f"mkdir -p {TREE}/a && echo {'other' if host == 'h3' else 'same'} > '{TREE}/a/one file' && : > {TREE}/two"
        )
        dev_cluster.hosts.enter(host, "/bin/sh", "-c", words)
    backend = Process(
        kubeconfig(dev_cluster, api, folder / "kubeconfig", account="berth-tasks"),
        folder / "tasks.log",
        "--no-leader-elect",
        module="berth_tasks",
    )
    try:
        yield backend.works() and dev_cluster
    finally:
        backend.stop()
        print(backend.text())
        for name in (FREE, STRICT):
            api.delete(kinds.NAMESPACE, name)
        for host in HOSTS:
            dev_cluster.hosts.enter(host, "/bin/rm", "-r", TREE)


def play(cluster: Any, folder: Path, *arguments: str, **variables: str) -> Run:
    given = {"path": TREE, "image": IMAGE, "namespace": FREE, "kubeconfig": str(cluster.kubeconfig), **variables}
    extra = json.dumps({f"tasks_demo_{name}": value for name, value in given.items()})
    record = folder / "record.jsonl"
    record.unlink(missing_ok=True)
    argv = ["-i", "localhost,", str(PLAYBOOK), "-e", extra, *arguments]
    status, output = ansible_playbook(argv, environment(record), folder, 400)
    return Run(status, output, _read(record))


def digest(words: str) -> str:
    """As a worker makes it of a host's tree."""
    empty, one = (hashlib.sha256(content).hexdigest() for content in (b"", f"{words}\n".encode()))
    return hashlib.sha256(f"{one}  ./a/one file\n{empty}  ./two\n".encode()).hexdigest()


def result(run: Run) -> dict[str, Any]:
    return dict(next(task for task in run.tasks if task.name == "Make one digest of all").result["ansible_facts"])[
        "tasks_demo_result"
    ]


def test_a_tree_is_hashed_on_every_host_and_again_nothing_runs(cluster: Any, tmp_path: Path) -> None:
    api = client_for(cluster.kubeconfig)
    checked = play(cluster, tmp_path, "--check", "--diff").ok()
    assert f"{TREE} would be hashed on h1, h2, h3" in checked.output
    assert api.list(kinds.TASK, FREE) == []

    found = result(play(cluster, tmp_path).ok())
    wanted = {host: {"files": 2, "digest": digest("other" if host == "h3" else "same")} for host in HOSTS}
    assert (found["nodes"], found["same"]) == (wanted, False)
    lines = "\n".join(f"{host} {one['digest']}" for host, one in wanted.items())
    assert found["digest"] == hashlib.sha256(lines.encode()).hexdigest()
    assert {one["status"]["node"] for one in api.list(kinds.TASK, FREE)} == set(HOSTS)

    again = play(cluster, tmp_path).ok()
    assert result(again) == found
    assert not [task for task in again.tasks if task.result.get("changed") and "ansible_facts" not in task.result]
    play(cluster, tmp_path, state="absent").ok()
    assert api.list(kinds.TASK, FREE) == []


def test_what_pod_security_forbids_and_what_is_no_tree_is_said(cluster: Any, tmp_path: Path) -> None:
    refused = play(cluster, tmp_path, namespace=STRICT)
    assert refused.rc != 0
    assert "violates PodSecurity" in refused.output
    assert "hostPath volumes" in refused.output
    assert client_for(cluster.kubeconfig).list(kinds.TASK, STRICT) == [], "the next run tries anew"
    wrong = play(cluster, tmp_path, path="../etc")
    assert "expected the absolute path of a directory on the nodes" in str(wrong.failed()["msg"])


def test_a_function_runs_in_a_pod_of_a_real_kubelet(cluster: Any) -> None:
    """Its image has no Python: that of the host is mounted."""
    folders = {"usr": "/usr", "lib": "/usr/lib", "lib64": "/usr/lib64"}  # its loader is a link to another folder
    mounts = [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in folders]
    volumes = [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()]
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "volumeMounts": mounts}
    template = {"spec": {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}}
    options = {"kubeconfig": str(cluster.kubeconfig), "namespace": FREE, "python": "/usr/bin/python3"}
    with TaskExecutor(template, max_workers=2, **options) as executor:
        assert list(executor.map(math.factorial, range(6), chunksize=3)) == [math.factorial(n) for n in range(6)]
        assert isinstance(executor.submit(math.factorial, -1).exception(), ValueError)
    assert client_for(cluster.kubeconfig).list(kinds.TASK, FREE) == []


def test_the_end_of_a_log_is_kept_when_its_pod_is_gone(cluster: Any) -> None:
    """As the kubelet had it: as many lines as the backend keeps, of the try that failed."""
    api = client_for(cluster.kubeconfig)
    command = ["sh", "-c", "for n in $(seq 1 30); do echo line $n; done; echo in the end >&2; exit 3"]
    container = {"name": "main", "image": IMAGE, "command": command, "resources": {"requests": {"cpu": "10m"}}}
    kind = {"apiVersion": kinds.TASK.api_version, "kind": kinds.TASK.kind}
    meta, template = {"name": "speaks", "namespace": FREE}, {"spec": {"containers": [container]}}
    api.create(kinds.TASK, {**kind, "metadata": meta, "spec": {"template": template}})

    def status() -> dict[str, Any]:
        return dict(api.get(kinds.TASK, "speaks", FREE).get("status") or {})

    def pods() -> list[Any]:
        return list(api.list(kinds.POD, FREE, labels="berth.dev/task=speaks"))

    until(lambda: status().get("state") == "Failed" and not pods(), lambda: f"{status()} {pods()}")
    lines = [*(f"line {number}" for number in range(12, 31)), "in the end"]
    assert (status()["exitCode"], status()["log"].splitlines()) == (3, lines)
    api.delete(kinds.TASK, "speaks", FREE)
