"""A world for the scheduler on the real control plane: fake nodes of its own, pods, and the scheduler as a process.

The process is `python -m berth_scheduler run` with a token of its own service account and nothing else, so that its
RBAC is what deploy/scheduler says. Every world has scheduler names and a Lease of its own: worlds do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import ROOT
from tests.daemons.controller.world import Process as ControllerProcess
from tests.daemons.controller.world import World as ControllerWorld
from tests.daemons.controller.world import until as until_within

DEPLOY = ROOT / "deploy" / "scheduler"
NAMESPACE, ACCOUNT = "berth-system", "berth-scheduler"
EXTENDER = "berth-scheduler-extender"
POOL = "berth.dev/test-pool"
#: Far less than the 300 s after which the queue tries everything again: a pod that nothing wakes is not just slow.
PATIENCE = 60.0


def until(condition: Callable[[], Any], what: str | Callable[[], Any], **options: float) -> Any:
    """The first true value of the condition."""
    return until_within(condition, what, PATIENCE, **options)


def kubeconfig(control_plane: Any, admin: Any, path: Path, server: str | None = None, account: str = ACCOUNT) -> Path:
    """Of the scheduler's service account, or of the extender's; ``server``: another way to the API server."""
    body = {"metadata": {"name": account, "namespace": NAMESPACE}, "spec": {"expirationSeconds": 7200}}
    token = admin.create(kinds.SERVICE_ACCOUNT, body, subresource="token")["status"]["token"]
    cluster = yaml.safe_load(Path(control_plane.kubeconfig).read_text())["clusters"][0]["cluster"]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {**cluster, "server": server or cluster["server"]}}],
        "users": [{"name": "it", "user": {"token": str(token)}}],
    }
    path.write_text(yaml.safe_dump(content))
    path.chmod(0o600)
    return path


class Process(ControllerProcess):
    """One scheduler. Ends with the test, whatever happens."""

    def __init__(
        self,
        kubeconfig_path: Path,
        log: Path,
        *flags: str,
        module: str = "berth_scheduler",
        **options: Any,
    ) -> None:
        super().__init__(kubeconfig_path, log, *flags, module=module, command=("run",), **options)

    def says(self, words: str) -> Process:
        """Wait until its log has these words."""
        until(lambda: words in self.text() or self.process.poll() is not None, self.text)
        assert words in self.text(), self.text()
        return self

    def works(self) -> Process:
        """Wait until it leads and its caches are filled."""
        return self.says(" works as ")


class World(ControllerWorld):
    """Nodes, pods, disks and claims that bear the world's name; the scheduler that is asked has it too."""

    def __init__(self, admin: Any, name: str, cluster: Any) -> None:
        super().__init__(admin, name)
        self.cluster = cluster
        self.nodes: list[str] = []

    # -- making ----------------------------------------------------------------------------------------------------

    def node(self, suffix: str = "0", cpu: str = "2", **spec: Any) -> str:
        """A node that kwok runs, in this world's pool; its pods are those that select the pool."""
        name = f"{self.name}-{suffix}"
        capacity = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {POOL: self.name, "kubernetes.io/hostname": name, "type": "kwok"},
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "spec": spec,
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        self.api.create(kinds.NODE, body)
        self.nodes.append(name)
        until(lambda: self._ready(name), f"node {name} is not Ready")
        return name

    def _ready(self, name: str) -> bool:
        conditions = (self.api.get(kinds.NODE, name).get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def pod(self, name: str, *claims: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
        """A pod for this world's scheduler and nodes."""
        meta = {"name": name, "namespace": self.name, "labels": spec.pop("labels", {})}
        meta["finalizers"] = spec.pop("finalizers", [])
        volumes = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": one}} for number, one in enumerate(claims)
        ]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {
                "schedulerName": self.name,
                "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {POOL: self.name},
                "volumes": volumes,
                **spec,
            },
        }
        return self.api.create(kinds.POD, body)

    def configuration(self, path: Path, *profiles: Mapping[str, Any], **more: Any) -> Path:
        """A configuration file: profiles of this world's name unless they have another, and its own Lease."""
        listed = [{"schedulerName": self.name, **one} for one in profiles or ({},)]
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": listed,
            **more,
        }
        # Never half a file: the scheduler may look at any moment.
        half = path.with_suffix(".half")
        half.write_text(yaml.safe_dump(content))
        half.replace(path)
        return path

    # -- looking ---------------------------------------------------------------------------------------------------

    def get_pod(self, name: str) -> dict[str, Any] | None:
        try:
            return self.api.get(kinds.POD, name, self.name)
        except NotFoundError:
            return None

    def where(self, name: str) -> str:
        """The pod's node; empty while it has none."""
        return str(((self.get_pod(name) or {}).get("spec") or {}).get("nodeName") or "")

    def placed(self, *names: str) -> list[str]:
        """Wait until the pods are on nodes; returns these."""
        return [until(lambda one=one: self.where(one), lambda one=one: self.story_of(one)) for one in names]

    def condition(self, name: str) -> tuple[str, str, str]:
        """Status, reason, message of PodScheduled."""
        for one in ((self.get_pod(name) or {}).get("status") or {}).get("conditions") or ():
            if one["type"] == "PodScheduled":
                return one["status"], one.get("reason", ""), one.get("message", "")
        return "", "", ""

    def refused(self, name: str, words: str) -> None:
        """Wait until the pod's condition says these words."""
        until(lambda: words in self.condition(name)[2], lambda: f"{words!r}: {self.story_of(name)}")

    def story_of(self, name: str) -> str:
        return f"{self.condition(name)} {self.events(name)}"

    def check(self) -> None:
        """No lock without a living Berth, no disk twice, no claim with two disks."""
        super().check()

    # -- removing --------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        super().clear()
        for name in self.nodes:
            self.delete(kinds.NODE, name)
