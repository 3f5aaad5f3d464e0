"""Tasks on the real kubelets of other tests' hosts, and the backend that cares for them.

The backend is a process of this machine, with the rights of its service account.
"""

from __future__ import annotations

import contextlib
import os
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.scheduler.world import kubeconfig
from tests.daemons.tasks.world import DEPLOY, FINAL, Process, until
from tests.support.kube import client_for, install_crds
from tests.support.tcp import free_port

HOSTS = ("h1", "h2", "h3")
IMAGE = "berth.local/busybox:1"
#: A namespace for what is allowed, and one whose Pod Security forbids a hostPath.
FREE, STRICT = "tasks-demo", "tasks-demo-strict"
#: A directory of each host where what waits looks for the file with its name, and leaves one when it is done.
SIGNS = "/var/lib/tasks-demo-signs"
WAITS = "until [ -e /signs/$NAME ]; do sleep 0.2; done; echo done >> /signs/$NAME.done"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Backend:
    """One at a time, whose checkpoint the next one reads."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.port, self._folder = free_port(), folder
        api = client_for(cluster.kubeconfig, warn=lambda _text: None)
        self._config = kubeconfig(cluster, api, folder / "kubeconfig", account="berth-tasks")
        self._process = self._started()

    def _started(self) -> Process:
        flags = ("--no-leader-elect", "--port", str(self.port), "--store", str(self._folder / "tasks.db"))
        return Process(self._config, self._folder / "tasks.log", *flags, module="berth_tasks")

    def works(self) -> Backend:
        self._process.works()
        return self

    def charged(self) -> float:
        """How many tries have resources, as it says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line for line in lines if line.startswith("berth_tasks_charged ")).split()[1])

    @contextlib.contextmanager
    def dead(self) -> Iterator[None]:
        """It is killed, and another one is there afterwards."""
        os.kill(self._process.process.pid, signal.SIGKILL)
        self._process.process.wait()
        try:
            yield
        finally:
            self._process.log.rename(self._folder / "tasks-before.log")
            self._process = self._started()
            self.works()

    def stop(self) -> None:
        self._process.stop()
        print(self._process.text())


@contextlib.contextmanager
def backend_beside(cluster: Any, folder: Path) -> Iterator[Backend]:
    """With its kinds and namespaces."""
    install_crds(cluster.kubeconfig)
    cluster.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"))
    api = client_for(cluster.kubeconfig, warn=lambda _text: None)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "berth-task-runner"}
    subject = {"kind": "ServiceAccount", "name": "berth-tasks", "namespace": "berth-system"}
    for name, level in ((FREE, "privileged"), (STRICT, "baseline")):
        labels = {"pod-security.kubernetes.io/enforce": level}
        api.create(kinds.NAMESPACE, {"metadata": {"name": name, "labels": labels}})
        binding = {"metadata": {"name": "tasks", "namespace": name}, "roleRef": ref, "subjects": [subject]}
        api.create(kinds.ROLE_BINDING, binding)
    backend = Backend(cluster, folder)
    try:
        yield backend.works()
    finally:
        backend.stop()
        for name in (FREE, STRICT):
            api.delete(kinds.NAMESPACE, name)
        for host in HOSTS:
            cluster.hosts.enter(host, "/bin/rm", "-rf", SIGNS)


class Made:
    """A Task of one container that runs ``script``, which knows NAME and TRY, and sees its host's SIGNS."""

    def __init__(
        self,
        cluster: Any,
        backend: Backend,
        name: str,
        script: str,
        pod: dict[str, Any] | None = None,
        cpu: str = "10m",
        **spec: Any,
    ) -> None:
        """``pod``: more of its spec."""
        self.cluster, self.backend, self.name = cluster, backend, name
        self.api = client_for(cluster.kubeconfig)
        self._pod = pod or {}
        template = self.template(script, cpu)
        kind = {"apiVersion": kinds.TASK.api_version, "kind": kinds.TASK.kind}
        meta = {"name": name, "namespace": FREE}
        made = self.api.create(kinds.TASK, {**kind, "metadata": meta, "spec": {"template": template, **spec}})
        self._since = made["metadata"]["resourceVersion"]

    def template(self, script: str, cpu: str = "10m") -> dict[str, Any]:
        number = {"fieldRef": {"fieldPath": "metadata.labels['berth.dev/task-try']"}}
        container = {
            "name": "main",
            "image": IMAGE,
            "command": ["sh", "-c", script],
            "env": [{"name": "NAME", "value": self.name}, {"name": "TRY", "valueFrom": number}],
            "resources": {"requests": {"cpu": cpu}},
            "volumeMounts": [{"name": "signs", "mountPath": "/signs"}],
        }
        signs = {"name": "signs", "hostPath": {"path": SIGNS, "type": "DirectoryOrCreate"}}
        base = {"containers": [container], "volumes": [signs], "terminationGracePeriodSeconds": 1}
        return {"spec": {**base, **self._pod}}

    def change(self, **spec: Any) -> None:
        self.api.patch(kinds.TASK, self.name, FREE, {"spec": spec})

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

    def script_runs(self, host: str) -> bool:
        """Whether a process of its container is there."""
        words = f"grep -lsz '^NAME={self.name}$' /proc/[0-9]*/environ || :"
        return "environ" in self.cluster.hosts.enter(host, "/bin/sh", "-c", words)

    def ended_alone(self) -> dict[str, Any]:
        """Wait until it has, and no pod is left. The status."""
        until(lambda: self.status().get("state") in FINAL, lambda: f"{self.status()} {self.pods()}")
        until(lambda: not self.pods(), lambda: f"{self.status()} {self.pods()}")
        return self.status()

    def ended(self) -> dict[str, Any]:
        """The same, and nothing is charged."""
        self.ended_alone()
        until(lambda: self.backend.charged() == 0, lambda: f"{self.backend.charged()} tries are charged")
        return self.status()

    def told(self) -> list[dict[str, Any]]:
        """Each status that was ever written, the first one first; without those that say that it runs."""
        events = [one["object"] for one in self.api.watch(kinds.TASK, self._since, 1, FREE)]
        mine = [dict(one.get("status") or {}) for one in events if one["metadata"]["name"] == self.name]
        return [one for one in mine if one.get("state", "Running") != "Running"]


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
