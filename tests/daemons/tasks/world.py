"""A world for the task backend on the real control plane: fake nodes, tasks, and pods that end when a test says so.

The process is `python -m berth_tasks` with a token of its own service account, bound to berth-task-runner in the
world's namespace and to nothing else, so that its RBAC is what deploy/tasks says.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import ROOT, Process, until
from tests.daemons.scheduler.world import POOL, kubeconfig
from tests.daemons.scheduler.world import World as SchedulerWorld

__all__ = ["DEPLOY", "FINAL", "Process", "World", "kubeconfig", "until"]

DEPLOY = ROOT / "deploy" / "tasks"
FINAL = ("Succeeded", "Failed", "Killed")


class World(SchedulerWorld):
    """Tasks that bear the world's namespace; the stock scheduler places their pods."""

    def __init__(self, admin: Any, name: str, cluster: Any) -> None:
        super().__init__(admin, name, cluster)
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "berth-task-runner"}
        subject = {"kind": "ServiceAccount", "name": "berth-tasks", "namespace": "berth-system"}
        meta = {"name": "tasks", "namespace": name}
        self.api.create(kinds.ROLE_BINDING, {"metadata": meta, "roleRef": ref, "subjects": [subject]})

    def template(self, cpu: str = "100m", **container: Any) -> dict[str, Any]:
        """A pod template for this world's nodes."""
        one = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}, **container}
        return {"spec": {"containers": [one], "terminationGracePeriodSeconds": 0, "nodeSelector": {POOL: self.name}}}

    def submit(self, name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
        """Make a Task."""
        body = {
            "apiVersion": kinds.TASK.api_version,
            "kind": kinds.TASK.kind,
            "metadata": {"name": name, "namespace": self.name},
            "spec": {"template": self.template(cpu), **spec},
        }
        return self.api.create(kinds.TASK, body)

    def queue(self, name: str, **spec: Any) -> dict[str, Any]:
        """Make a TaskQueue."""
        meta = {"name": name, "namespace": self.name}
        body = {"apiVersion": kinds.TASK_QUEUE.api_version, "kind": "TaskQueue", "metadata": meta, "spec": spec}
        return self.api.create(kinds.TASK_QUEUE, body)

    def batch(self, name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
        """Make a TaskBatch."""
        meta = {"name": name, "namespace": self.name}
        body = {"apiVersion": kinds.TASK_BATCH.api_version, "kind": kinds.TASK_BATCH.kind, "metadata": meta}
        return self.api.create(kinds.TASK_BATCH, {**body, "spec": {"template": self.template(cpu), **spec}})

    def batch_status(self, name: str) -> dict[str, Any]:
        return self.api.get(kinds.TASK_BATCH, name, self.name).get("status") or {}

    def batch_ended(self, name: str, state: str) -> dict[str, Any]:
        """Wait until the batch is in that final state, and has no pod any more."""
        until(lambda: self.batch_status(name).get("state") in FINAL, lambda: str(self.batch_status(name)))
        found = self.batch_status(name)
        assert found["state"] == state, found
        until(lambda: not self.elements(name), lambda: str(self.elements(name).keys()))
        return found

    def elements(self, name: str, phase: str = "") -> dict[int, dict[str, Any]]:
        """The pods of a batch, by the index of their element."""
        found = self.api.list(kinds.POD, self.name, labels=f"berth.dev/task-batch={name}")
        return {
            int(pod["metadata"]["labels"]["berth.dev/task-index"]): pod
            for pod in found
            if phase in ("", (pod.get("status") or {}).get("phase"))
        }

    def change(self, name: str, **spec: Any) -> None:
        self.api.patch(kinds.TASK, name, self.name, {"spec": spec})

    def status(self, name: str) -> dict[str, Any]:
        return self.api.get(kinds.TASK, name, self.name).get("status") or {}

    def statuses(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one.get("status") or {} for one in self.api.list(kinds.TASK, self.name)}

    def pods_of(self, name: str) -> list[dict[str, Any]]:
        """The pods of a task, by their try."""
        found = self.api.list(kinds.POD, self.name, labels=f"berth.dev/task={name}")
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"]["berth.dev/task-try"]))

    def running(self, name: str, number: int = 1) -> dict[str, Any]:
        """Wait until the pod of that try runs on a node."""
        return until(lambda: self._running(name, number), lambda: f"{self.status(name)} {self.pods_of(name)}")

    def _running(self, name: str, number: int) -> dict[str, Any] | None:
        for pod in self.pods_of(name):
            at = int(pod["metadata"]["labels"]["berth.dev/task-try"])
            if at == number and (pod.get("status") or {}).get("phase") == "Running":
                return pod
        return None

    def end(self, pod: dict[str, Any], code: int = 0, **status: Any) -> bool:
        """What a kubelet says of a pod that has ended; False where it is gone."""
        ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
        one = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
        body = {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": [one], **status}
        meta = pod["metadata"]
        try:
            self.api.patch(kinds.POD, meta["name"], self.name, {"metadata": {}, "status": body}, "status")
        except NotFoundError:
            return False
        return True

    def ended(self, name: str, state: str) -> dict[str, Any]:
        """Wait until the task is in that final state, and has no pod any more."""
        until(lambda: self.status(name).get("state") in FINAL, lambda: f"{self.status(name)} {self.pods_of(name)}")
        found = self.status(name)
        assert found["state"] == state, found
        return found

    def no_pods(self, name: str) -> None:
        until(lambda: not self.pods_of(name), lambda: f"{name}: {self.pods_of(name)}")

    def clear(self) -> None:
        for kind in (kinds.TASK, kinds.TASK_BATCH, kinds.TASK_QUEUE):
            for one in self.api.list(kind, self.name):
                self.api.delete(kind, one["metadata"]["name"], self.name)
        for one in self.api.list(kinds.POD, self.name):
            self.api.delete(kinds.POD, one["metadata"]["name"], self.name)
        super().clear()
