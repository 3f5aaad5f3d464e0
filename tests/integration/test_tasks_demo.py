"""A job on real kubelets: playbooks/tasks_demo.yml hashes a tree on every host's disk; and a function runs in a pod.

And how tries end there: by themselves, killed, updated, preempted, evicted, with their node, or while the backend is
dead.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_tasks.program import TaskExecutor
from tests.daemons.tasks.kubelet_tasks import (
    FREE,
    HOSTS,
    IMAGE,
    STRICT,
    WAITS,
    Backend,
    Made,
    backend_beside,
    out_of_service,
    ready,
    without_a_kubelet,
)
from tests.daemons.tasks.world import FINAL, until
from tests.support.kube import client_for
from tests.support.playbook import Run, _read, ansible_playbook, environment

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]
PLAYBOOK = Path(__file__).parents[2] / "playbooks" / "tasks_demo.yml"
TREE = "/var/lib/tasks-demo"


@pytest.fixture(scope="module")
def backend(dev_cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with backend_beside(dev_cluster, tmp_path_factory.mktemp("backend")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(dev_cluster: Any, backend: Backend) -> Iterator[Any]:
    """With a tree on each host, of which one differs."""
    for host in HOSTS:
        words = (
            f"mkdir -p {TREE}/a && echo {'other' if host == 'h3' else 'same'} > '{TREE}/a/one file' && : > {TREE}/two"
        )
        dev_cluster.hosts.enter(host, "/bin/sh", "-c", words)
    yield dev_cluster
    for host in HOSTS:
        dev_cluster.hosts.enter(host, "/bin/rm", "-rf", TREE)


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


@pytest.fixture
def make(cluster: Any, backend: Backend) -> Iterator[Callable[..., Made]]:
    """Makes a Task as Made says; it goes with the test."""
    with contextlib.ExitStack() as stack:

        def made(*given: Any, **spec: Any) -> Made:
            task = Made(cluster, backend, *given, **spec)
            stack.callback(task.api.delete, kinds.TASK, task.name, FREE)
            return task

        yield made


def test_a_failure_is_tried_again_by_its_exit_code_and_its_log_is_kept(make: Callable[..., Made]) -> None:
    """As the kubelet had it: as many lines as the backend keeps, of the try that failed.

    The first one writes to stdout, the second one to stderr: in which order a log has lines of both is not certain.
    """
    script = "for n in $(seq 1 30); do echo try $TRY line $n >&$TRY; done; exit $((2 + TRY))"
    task = make("fails", script, retries=5, retryExitCodes=[3])
    status = task.ended()

    def of_try(number: int) -> list[str]:
        return [f"try {number} line {line}" for line in range(11, 31)]

    assert (status["state"], status["tries"], status["failures"]) == ("Failed", 2, 2), "no try after exit code 4"
    assert (status["exitCode"], status["reason"], status["log"].splitlines()) == (4, "Error", of_try(2))
    assert status["message"] == "try 2 failed with exit code 4"
    told = task.told()
    assert [(one["state"], one["tries"]) for one in told] == [("Submitted", 1), ("Failed", 2)]
    assert (told[0]["exitCode"], told[0]["reason"], told[0]["log"].splitlines()) == (3, "Error", of_try(1))


def test_a_batch_gives_each_element_its_args_and_keeps_the_log_of_the_container_that_failed(
    cluster: Any, backend: Backend
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
        until(lambda: backend.charged() == 0, lambda: f"{backend.charged()} tries are charged")
        counts = status()["counts"]
        assert {key: counts[key] for key in ("succeeded", "failed", "left")} == {"succeeded": 5, "failed": 1, "left": 0}
        (shard,) = [one for one in api.list(kinds.TASK_BATCH_SHARD, FREE) if one["batch"] == "six"]
        assert [(one["element"], one["log"].strip()) for one in shard["told"]] == [(2, "element 2 has bad")]
    finally:
        api.delete(kinds.TASK_BATCH, "six", FREE)


def test_an_evicted_try_does_not_count(make: Callable[..., Made]) -> None:
    """Its container does not end by itself: the kubelet kills it. The Task has no retries."""
    task = make("evicted", WAITS)
    first, _node = task.running()
    (pod,) = task.pods()
    meta = {"name": pod["metadata"]["name"], "namespace": FREE}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    task.api.create(kinds.POD, eviction, subresource="eviction")
    task.running(beside=first)
    task.go_on()
    ends_once(task)
    assert sum(task.done(host) for host in HOSTS) == 1


def test_a_try_whose_node_is_lost_does_not_count_and_its_return_changes_nothing(
    cluster: Any, make: Callable[..., Made], backend: Backend
) -> None:
    """Its container goes on without a kubelet, and even comes to its end. Nobody is to take that for the Task's."""
    lost = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "operator": "Exists"}
    task = make("lost", WAITS, {"tolerations": [{**lost, "tolerationSeconds": 0}]})
    first, node = task.running()
    with without_a_kubelet(cluster, node) as comes_back:
        until(lambda: "deletionTimestamp" in task.pods()[0]["metadata"], lambda: str(task.pods()))
        assert not ready(task.api, node)
        assert [one["metadata"]["uid"] for one in task.pods()] == [first], "it may still run: there is no second one"
        assert backend.charged() == 1
        with out_of_service(cluster, node):
            assert task.running(beside=first)[1] != node
            task.go_on()
            until(lambda: task.done(node), "the container on the lost node has not ended")
            ends_once(task)
            before = task.api.get(kinds.TASK, task.name, FREE)
            folders = ("/bin/ls", "/var/lib/kubelet/pods")
            assert first in cluster.hosts.enter(node, *folders)
            comes_back()
            until(lambda: first not in cluster.hosts.enter(node, *folders), "the kubelet has not looked after its pod")
    assert task.api.get(kinds.TASK, task.name, FREE) == before
    assert [task.pods(), backend.charged()] == [[], 0]


def ends_once(task: Made) -> None:
    """As Succeeded, at the second go; the first one was disrupted, or is gone unseen, and does not count.

    Kubernetes marks the pod of a lost node as Failed and deletes it at once: the backend may see either.
    """
    status = task.ended()
    assert (status["state"], status["failures"], status["exitCode"]) == ("Succeeded", 0, 0)
    told = task.told()
    assert [one["state"] for one in told if one["state"] in FINAL] == ["Succeeded"]
    assert {one["failures"] for one in told} == {0}


def test_a_task_that_is_killed_ends_its_container(cluster: Any, make: Callable[..., Made]) -> None:
    task = make("killed", WAITS)
    _uid, node = task.running()
    assert task.script_runs(node)
    task.change(kill=True)
    status = task.ended()
    assert (status["state"], status["tries"]) == ("Killed", 1)
    until(lambda: not task.script_runs(node), "its container goes on")
    assert task.done(node) == 0


def test_another_template_takes_over_and_the_former_container_ends(cluster: Any, make: Callable[..., Made]) -> None:
    """The Task is Updated until the old pod has ended, and Running with the new one's resources."""
    task = make("changed", WAITS)
    first, _node = task.running()
    task.change(template=task.template(f"echo new; {WAITS}", cpu="20m"))
    task.running(beside=first)
    until(lambda: [pod["metadata"]["uid"] for pod in task.pods()] != [first], lambda: str(task.pods()))
    until(lambda: len(task.pods()) == 1, lambda: str(task.pods()))
    until(lambda: task.status()["state"] == "Running", lambda: str(task.status()))
    task.go_on()
    status = task.ended()
    assert (status["state"], status["failures"]) == ("Succeeded", 0)
    assert sum(task.done(host) for host in HOSTS) == 1, "the former container has come to its end, too"


def test_a_pod_that_somebody_deletes_is_made_anew_and_costs_no_try(make: Callable[..., Made]) -> None:
    task = make("deleted", WAITS)
    first, _node = task.running()
    (pod,) = task.pods()
    task.api.delete(kinds.POD, pod["metadata"]["name"], FREE)
    task.running(beside=first)
    task.go_on()
    ends_once(task)
    assert sum(task.done(host) for host in HOSTS) == 1


def test_what_ends_while_the_backend_is_dead_ends_once(make: Callable[..., Made], backend: Backend) -> None:
    """By SIGKILL. One has ended by then, one is submitted meanwhile, one goes on."""
    ends, goes_on = make("ends", WAITS), make("goes-on", WAITS)
    _uid, node = ends.running()
    first, _node = goes_on.running()
    with backend.dead():
        ends.go_on()
        until(lambda: ends.done(node), "its container has not ended")
        until(lambda: ends.pods()[0]["status"]["phase"] == "Succeeded", lambda: str(ends.pods()))
        comes = make("comes", "exit 0")
    assert comes.ended_alone()["state"] == "Succeeded"
    status = ends.ended_alone()
    assert (status["state"], status["tries"], ends.done(node)) == ("Succeeded", 1, 1)
    assert [pod["metadata"]["uid"] for pod in goes_on.pods()] == [first]
    goes_on.go_on()
    status = goes_on.ended()
    assert (status["state"], status["tries"]) == ("Succeeded", 1)
    for task in (ends, goes_on, comes):
        assert [one["state"] for one in task.told() if one["state"] in FINAL] == ["Succeeded"]


def test_a_try_that_kube_scheduler_preempts_does_not_count(cluster: Any, make: Callable[..., Made]) -> None:
    """By a pod of a higher priority, on a node that has no room for both."""
    api = client_for(cluster.kubeconfig)
    cores = {node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) for node in api.list(kinds.NODE)}
    room = {"requests": {"cpu": f"{1000 * cores['h1'] * 6 // 10}m"}}
    here = {"nodeSelector": {"kubernetes.io/hostname": "h1"}}
    task = make("preempted", WAITS, here, cpu=room["requests"]["cpu"])
    first, _node = task.running()
    with higher_priority(api) as name:
        container = {"name": "main", "image": IMAGE, "command": ["sleep", "600"], "resources": room}
        spec = {**here, "containers": [container], "priorityClassName": name, "terminationGracePeriodSeconds": 0}
        api.create(kinds.POD, {"metadata": {"name": "urgent", "namespace": FREE}, "spec": spec})
        until(lambda: api.get(kinds.POD, "urgent", FREE)["status"]["phase"] == "Running", "it has not got the room")
        assert task.done("h1") == 0
        api.delete(kinds.POD, "urgent", FREE, grace=0)
    task.running(beside=first)
    task.go_on()
    ends_once(task)


@contextlib.contextmanager
def higher_priority(api: Any) -> Iterator[str]:
    """The name of a PriorityClass."""
    api.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "tasks-urgent"}, "value": 1000})
    try:
        yield "tasks-urgent"
    finally:
        api.delete(kinds.PRIORITY_CLASS, "tasks-urgent")
