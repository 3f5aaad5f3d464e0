"""Where the scheduler's roles are tried: a namespace, a host with a disk and its agent, and pods that are placed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_dev.pytest_plugin import say
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.controller.world import World, install
from tests.dev.hosts_help import eventually
from tests.support.agent import install_rights
from tests.support.kube import client_for
from tests.support.playbook import Run

NAMESPACE = "berth-system"
IMAGE = "berth.local/berth-scheduler:dev"
ON = "h3"  # where the disk is


class Stage:
    """What runs here has the pods of the label; a wait lasts `seconds` at most."""

    def __init__(self, cluster: Any, folder: Path, label: str, seconds: float) -> None:
        install_rights(cluster)
        install(cluster)
        cluster.hosts.load_image("scheduler", say)
        self.cluster, self.folder, self.label, self.seconds = cluster, folder, label, seconds
        self.api = client_for(cluster.kubeconfig, warn=lambda _text: None)
        self.world = World(self.api, f"s{uuid4().hex[:8]}")
        self.ground = Ground(cluster, ON)

    def clear(self) -> None:
        """Without the test's pods nobody is waited for."""
        for kind in (kinds.STATEFUL_SET, kinds.POD):
            for one in self.api.list(kind, self.world.name):
                self.world.delete(kind, one["metadata"]["name"])
        eventually(lambda: not self.api.list(kinds.POD, self.world.name), self.seconds, "the pods go")
        self.world.clear()

    def ready_disk(self) -> str:
        """A disk that its agent knows, of a class that waits for the pod."""
        disk = self.ground.plug()
        self.world.storage_class(waits=True)
        self.ground.declare(**{disk: {"storage_class": self.world.name}})
        self.ground.agent.start()
        return disk

    def claim(self) -> dict[str, Any]:
        """The spec of a claim that such a disk fills."""
        size = {"requests": {"storage": "32Mi"}}
        return {"storageClassName": self.world.name, "accessModes": ["ReadWriteOnce"], "resources": size}

    def create(self, resource: Any, name: str, spec: dict[str, Any]) -> None:
        self.api.create(resource, {"metadata": {"name": name, "namespace": self.world.name}, "spec": spec})

    def runs(self, name: str) -> str:
        """Wait until the pod runs; its node."""

        def look() -> str:
            pod = self.api.find(kinds.POD, name, self.world.name) or {}
            return str(pod["spec"]["nodeName"]) if (pod.get("status") or {}).get("phase") == "Running" else ""

        return str(self.wait(look, lambda: f"pod {name} runs: {self.world.events(name)}"))

    def wait(self, test: Any, what: Any) -> Any:
        """Until it is so; else what the pods of the label say."""
        try:
            return eventually(test, self.seconds)
        except AssertionError as exc:
            said = what() if callable(what) else what
            raise AssertionError(f"{said}: {exc}\n{self.told()}") from None

    def told(self) -> str:
        described = self.cluster.kubectl("-n", NAMESPACE, "describe", "pods", "-l", self.label)
        return f"{described[-5000:]}\n{self.logs()[-6000:]}"

    def logs(self) -> str:
        return str(self.cluster.kubectl("-n", NAMESPACE, "logs", "-l", self.label, "--prefix", "--tail", "-1"))


def changed(run: Run) -> list[str]:
    return [task.name.rpartition(" : ")[2] for task in run.tasks if task.result.get("changed")]


def ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    alive = not pod["metadata"].get("deletionTimestamp")
    return alive and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def asks(script: str, scheduler: str, **container: Any) -> dict[str, Any]:
    """The spec of a pod that names its scheduler."""
    main = {"name": "main", "image": "berth.local/busybox:1", "imagePullPolicy": "Never", **container}
    command = {"command": ["sh", "-ec", f"{script}; exec sleep 1000000"]}
    return {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [{**main, **command}]}
