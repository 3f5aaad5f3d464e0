"""A job on real kubelets: playbooks/tasks_demo.yml hashes a tree on every host's disk; and a function runs in a pod.

And how tries end there: by themselves, by an eviction, with their node. The hosts are those of other tests; the backend
is a process of this machine, with the rights of its service account.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_tasks.program import TaskExecutor
from tests.daemons.scheduler.world import kubeconfig
from tests.daemons.tasks.world import DEPLOY, FINAL, Process, until
from tests.support.kube import client_for, install_crds
from tests.support.playbook import Run, _read, ansible_playbook, environment
from tests.support.tcp import free_port

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]
PLAYBOOK = Path(__file__).parents[2] / "playbooks" / "tasks_demo.yml"
HOSTS = ("h1", "h2", "h3")
IMAGE, TREE = "berth.local/busybox:1", "/var/lib/tasks-demo"
#: A namespace for what is allowed, and one whose Pod Security forbids a hostPath.
FREE, STRICT = "tasks-demo", "tasks-demo-strict"
#: A directory of each host where what waits looks for the file with its name, and leaves one when it is done.
SIGNS = "/var/lib/tasks-demo-signs"
WAITS = "until [ -e /signs/$NAME ]; do sleep 0.2; done; echo done >> /signs/$NAME.done"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@pytest.fixture(scope="module")
def port() -> int:
    """Of the backend's metrics."""
    return free_port()


@pytest.fixture(scope="module")
def cluster(dev_cluster: Any, tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Any]:
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
        "--port",
        str(port),
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
            dev_cluster.hosts.enter(host, "/bin/rm", "-rf", TREE, SIGNS)


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


class Made:
    """A Task of one container that runs ``script``, which knows NAME and TRY, and sees its host's SIGNS."""

    def __init__(self, cluster: Any, name: str, script: str, tolerations: tuple[dict[str, Any], ...] = (), **spec: Any):
        self.cluster, self.name, self.api = cluster, name, client_for(cluster.kubeconfig)
        number = {"fieldRef": {"fieldPath": "metadata.labels['berth.dev/task-try']"}}
        container = {
            "name": "main",
            "image": IMAGE,
            "command": ["sh", "-c", script],
            "env": [{"name": "NAME", "value": name}, {"name": "TRY", "valueFrom": number}],
            "resources": {"requests": {"cpu": "10m"}},
            "volumeMounts": [{"name": "signs", "mountPath": "/signs"}],
        }
        signs = {"name": "signs", "hostPath": {"path": SIGNS, "type": "DirectoryOrCreate"}}
        pod = {"containers": [container], "volumes": [signs], "terminationGracePeriodSeconds": 1}
        template = {"spec": {**pod, "tolerations": list(tolerations)}}
        kind = {"apiVersion": kinds.TASK.api_version, "kind": kinds.TASK.kind}
        meta = {"name": name, "namespace": FREE}
        made = self.api.create(kinds.TASK, {**kind, "metadata": meta, "spec": {"template": template, **spec}})
        self._since = made["metadata"]["resourceVersion"]

    def status(self) -> dict[str, Any]:
        return dict(self.api.get(kinds.TASK, self.name, FREE).get("status") or {})

    def pods(self) -> list[dict[str, Any]]:
        return list(self.api.list(kinds.POD, FREE, labels=f"berth.dev/task={self.name}"))

    def running(self, beside: str = "") -> tuple[str, str]:
        """Wait until a pod runs, another one than ``beside``. Its uid and its node."""

        def found() -> tuple[str, str] | None:
            runs = [one for one in self.pods() if one["status"]["phase"] == "Running"]
            names = [(one["metadata"]["uid"], one["spec"]["nodeName"]) for one in runs]
            return next((one for one in names if one[0] != beside), None)

        uid, node = until(found, lambda: f"{self.status()} {self.pods()}")
        return uid, node

    def go_on(self) -> None:
        """What waits may end, on whichever host."""
        for host in HOSTS:
            self.cluster.hosts.enter(host, "/bin/sh", "-c", f"mkdir -p {SIGNS} && : > {SIGNS}/{self.name}")

    def done(self, host: str) -> int:
        """How many have come to their end on that host."""
        return self.cluster.hosts.enter(host, "/bin/sh", "-c", f"cat {SIGNS}/{self.name}.done || :").count("done")

    def ended(self, port: int) -> dict[str, Any]:
        """Wait until it has, no pod is left and nothing is charged. The status."""
        until(lambda: self.status().get("state") in FINAL, lambda: f"{self.status()} {self.pods()}")
        until(lambda: not self.pods(), lambda: f"{self.status()} {self.pods()}")
        until(lambda: charged(port) == 0, lambda: f"{charged(port)} tries are charged")
        return self.status()

    def told(self) -> list[dict[str, Any]]:
        """Each status that was ever written, the first one first; without those that say that it runs."""
        events = [one["object"] for one in self.api.watch(kinds.TASK, self._since, 1, FREE)]
        mine = [dict(one.get("status") or {}) for one in events if one["metadata"]["name"] == self.name]
        return [one for one in mine if one.get("state", "Running") != "Running"]


@pytest.fixture
def make(cluster: Any) -> Iterator[Callable[..., Made]]:
    """Makes a Task as Made says; it goes with the test."""
    with contextlib.ExitStack() as stack:

        def made(*given: Any, **spec: Any) -> Made:
            task = Made(cluster, *given, **spec)
            stack.callback(task.api.delete, kinds.TASK, task.name, FREE)
            return task

        yield made


def charged(port: int) -> float:
    """How many tries have resources, as the backend says."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith("berth_tasks_charged ")).split()[1])


def test_a_failure_is_tried_again_by_its_exit_code_and_its_log_is_kept(make: Callable[..., Made], port: int) -> None:
    """As the kubelet had it: as many lines as the backend keeps, of the try that failed.

    The first one writes to stdout, the second one to stderr: in which order a log has lines of both is not certain.
    """
    script = "for n in $(seq 1 30); do echo try $TRY line $n >&$TRY; done; exit $((2 + TRY))"
    task = make("fails", script, retries=5, retryExitCodes=[3])
    status = task.ended(port)

    def of_try(number: int) -> list[str]:
        return [f"try {number} line {line}" for line in range(11, 31)]

    assert (status["state"], status["tries"], status["failures"]) == ("Failed", 2, 2), "no try after exit code 4"
    assert (status["exitCode"], status["reason"], status["log"].splitlines()) == (4, "Error", of_try(2))
    assert status["message"] == "try 2 failed with exit code 4"
    told = task.told()
    assert [(one["state"], one["tries"]) for one in told] == [("Submitted", 1), ("Failed", 2)]
    assert (told[0]["exitCode"], told[0]["reason"], told[0]["log"].splitlines()) == (3, "Error", of_try(1))


def test_a_batch_gives_each_element_its_args_and_keeps_the_log_of_the_container_that_failed(
    cluster: Any, port: int
) -> None:
    """There is another container in each pod, which ends well."""
    api = client_for(cluster.kubeconfig, warn=lambda _text: None)
    script = 'echo element $BERTH_TASK_INDEX has $1; test "$1" != bad'
    common = {"image": IMAGE, "imagePullPolicy": "Never"}
    main = {"name": "main", "command": ["sh", "-c", script, "sh"], **common}
    beside = {"name": "beside", "command": ["echo", "nothing of that"], **common}
    template = {"spec": {"containers": [main, beside], "terminationGracePeriodSeconds": 1}}
    items = [{"args": [word]} for word in ("one", "two", "bad", "four", "five", "six")]
    meta = {
        "apiVersion": kinds.TASK_BATCH.api_version,
        "kind": "TaskBatch",
        "metadata": {"name": "six", "namespace": FREE},
    }
    body = {**meta, "spec": {"template": template, "items": items}}

    def status() -> dict[str, Any]:
        return dict(api.get(kinds.TASK_BATCH, "six", FREE).get("status") or {})

    api.create(kinds.TASK_BATCH, body)
    try:
        until(lambda: status().get("state") in FINAL, lambda: str(status()))
        until(lambda: charged(port) == 0, lambda: f"{charged(port)} tries are charged")
        counts = status()["counts"]
        assert {key: counts[key] for key in ("succeeded", "failed", "left")} == {"succeeded": 5, "failed": 1, "left": 0}
        (shard,) = [one for one in api.list(kinds.TASK_BATCH_SHARD, FREE) if one["batch"] == "six"]
        assert [(one["element"], one["log"].strip()) for one in shard["told"]] == [(2, "element 2 has bad")]
    finally:
        api.delete(kinds.TASK_BATCH, "six", FREE)


def test_an_evicted_try_does_not_count(make: Callable[..., Made], port: int) -> None:
    """Its container does not end by itself: the kubelet kills it. The Task has no retries."""
    task = make("evicted", WAITS)
    first, _node = task.running()
    (pod,) = task.pods()
    meta = {"name": pod["metadata"]["name"], "namespace": FREE}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    task.api.create(kinds.POD, eviction, subresource="eviction")
    task.running(beside=first)
    task.go_on()
    ends_once(task, port)
    assert sum(task.done(host) for host in HOSTS) == 1


def test_a_try_whose_node_is_lost_does_not_count_and_its_return_changes_nothing(
    cluster: Any, make: Callable[..., Made], port: int
) -> None:
    """Its container goes on without a kubelet, and even comes to its end. Nobody is to take that for the Task's."""
    lost = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "operator": "Exists"}
    task = make("lost", WAITS, tolerations=({**lost, "tolerationSeconds": 0},))
    first, node = task.running()
    with without_a_kubelet(cluster, node) as comes_back:
        until(lambda: "deletionTimestamp" in task.pods()[0]["metadata"], lambda: str(task.pods()))
        assert not ready(task.api, node)
        assert [one["metadata"]["uid"] for one in task.pods()] == [first], "it may still run: there is no second one"
        assert charged(port) == 1
        with out_of_service(cluster, node):
            assert task.running(beside=first)[1] != node
            task.go_on()
            until(lambda: task.done(node), "the container on the lost node has not ended")
            ends_once(task, port)
            before = task.api.get(kinds.TASK, task.name, FREE)
            folders = ("/bin/ls", "/var/lib/kubelet/pods")
            assert first in cluster.hosts.enter(node, *folders)
            comes_back()
            until(lambda: first not in cluster.hosts.enter(node, *folders), "the kubelet has not looked after its pod")
    assert task.api.get(kinds.TASK, task.name, FREE) == before
    assert [task.pods(), charged(port)] == [[], 0]


def ends_once(task: Made, port: int) -> None:
    """As Succeeded, at the second go; the first one was disrupted, or is gone unseen, and does not count.

    Kubernetes marks the pod of a lost node as Failed and deletes it at once: the backend may see either.
    """
    status = task.ended(port)
    assert (status["state"], status["failures"], status["exitCode"]) == ("Succeeded", 0, 0)
    told = task.told()
    assert [one["state"] for one in told if one["state"] in FINAL] == ["Succeeded"]
    assert {one["failures"] for one in told} == {0}


def ready(api: Any, node: str) -> bool:
    conditions = api.get(kinds.NODE, node)["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@contextlib.contextmanager
def without_a_kubelet(cluster: Any, host: str) -> Iterator[Callable[[], None]]:
    """It is stopped, and its containers go on. Yields what starts it again, and waits until the node is Ready."""
    api, mark = client_for(cluster.kubeconfig), "/run/berth/stopped/kubelet"

    def comes_back() -> None:
        cluster.hosts.enter(host, "/bin/rm", "-f", mark)
        until(lambda: ready(api, host), f"node {host} is not Ready again")

    cluster.hosts.enter(host, "/bin/sh", "-c", f"mkdir -p {Path(mark).parent}; : > {mark}; kill $(pgrep -x kubelet)")
    try:
        yield comes_back
    finally:
        comes_back()


@contextlib.contextmanager
def out_of_service(cluster: Any, node: str) -> Iterator[None]:
    """Somebody has seen to it that nothing runs there, says the taint: Kubernetes removes the pods."""
    cluster.kubectl("taint", "node", node, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")
    try:
        yield
    finally:
        cluster.kubectl("taint", "node", node, f"{OUT_OF_SERVICE}-")
