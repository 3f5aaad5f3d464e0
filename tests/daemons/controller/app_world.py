"""StatefulApps in a world of the controller: disks, rights in the namespace, what is asked for and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.host_maintenance import OPERATION as MAINTENANCE
from ansible_collections.berth.stateful.plugins.module_utils._glue.stateful_app import INFO, OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import ACCOUNT, NAMESPACE, World, until

UNTIL = 60.0


class AppWorld:
    """One namespace with StatefulApps, and the disks that they may have."""

    def __init__(self, plane: Any, world: World, nodes: list[str]) -> None:
        self.plane, self.world, self.api, self.name, self.nodes = plane, world, world.api, world.name, nodes
        body = {
            "metadata": {"name": self.name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self.api.create(kinds.STORAGE_CLASS, body)

    def allow(self) -> None:
        """What docs/guides/stateful_app_kind.md says to give to the controller."""
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "berth-app-operator"}
        subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]
        metadata = {"name": ACCOUNT, "namespace": self.name}
        self.api.create(kinds.ROLE_BINDING, {"metadata": metadata, "roleRef": reference, "subjects": subjects})

    def disks(self, number: int) -> list[str]:
        """So many free disks, one on each node in turn."""
        have = len(self.world.disks())
        return [self.world.disk(self.nodes[index % len(self.nodes)], index) for index in range(have, have + number)]

    def template(self, image: str = "none:1", **spec: Any) -> dict[str, Any]:
        container = {"name": "main", "image": image, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        own = {"terminationGracePeriodSeconds": 1, "tolerations": [{"operator": "Exists"}], "containers": [container]}
        return {"spec": {**own, **spec}}

    def options(self, **values: Any) -> dict[str, Any]:
        """The app as options of the module."""
        disks = [{"name": "data", "size": "1Gi", "storage_class": self.name}]
        asked = {"name": "db", "namespace": self.name, "template": self.template(), "disks": disks, "wait_timeout": 60}
        return {**asked, "pod_management_policy": "Parallel", **values}

    def spec(self, **values: Any) -> dict[str, Any]:
        """The app as an object asks for it; ``replicas=None``: it says nothing of that."""
        disks = [{"name": "data", "size": "1Gi", "storageClassName": self.name}]
        asked = {"driver": "controller", "template": self.template(), "disks": disks, "podManagementPolicy": "Parallel"}
        return {key: one for key, one in {**asked, "replicas": 2, **values}.items() if one is not None}

    def apply(self, name: str = "db", **values: Any) -> None:
        """kubectl apply -f -."""
        metadata = {"name": name, "namespace": self.name}
        body = {"apiVersion": "berth.dev/v1alpha1", "kind": "StatefulApp", "metadata": metadata}
        self.kubectl("apply", "--filename", "-", given=json.dumps({**body, "spec": self.spec(**values)}))

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """In the namespace, as the administrator."""
        return str(self.plane.kubectl("--namespace", self.name, *arguments, stdin=given))

    def module(self, check: bool = False, **values: Any) -> dict[str, Any]:
        """stateful_app, in this process."""
        defaults = {name: spec.get("default") for name, spec in OPERATION.argument_spec().items()}
        disk = {name: spec.get("default") for name, spec in OPERATION.options["disks"]["options"].items()}
        params = {**defaults, "kubeconfig": str(self.plane.kubeconfig), **self.options(**values)}
        params["disks"] = [{**disk, **one} for one in params["disks"]]
        warnings: list[str] = []
        result = execute(OPERATION, Context(params, check, warnings.append, environ={}))
        return {**result, "warnings": warnings}

    def info(self) -> dict[str, Any]:
        """stateful_app_info, in this process."""
        defaults = {name: spec.get("default") for name, spec in INFO.argument_spec().items()}
        asked = {"kubeconfig": str(self.plane.kubeconfig), "name": "db", "namespace": self.name}
        warnings: list[str] = []
        return {**execute(INFO, Context({**defaults, **asked}, False, warnings.append)), "warnings": warnings}

    def of_maintenance(self, node: str, *rules: dict[str, Any], state: str = "begun") -> dict[str, Any]:
        """Options of host_maintenance."""
        asked = {"node": node, "state": state, "apps": [{"policy": "move", **one} for one in rules], "wait_timeout": 60}
        return {"kubeconfig": str(self.plane.kubeconfig), **asked}

    def maintenance(self, node: str, *rules: dict[str, Any], state: str = "begun", check: bool = False) -> Any:
        """host_maintenance, in this process."""
        defaults = {name: spec.get("default") for name, spec in MAINTENANCE.argument_spec().items()}
        params = {**defaults, **self.of_maintenance(node, *rules, state=state)}
        warnings: list[str] = []
        return {**execute(MAINTENANCE, Context(params, check, warnings.append, environ={})), "warnings": warnings}

    # -- looking

    def live(self, name: str = "db") -> dict[str, Any]:
        return self.api.get(kinds.STATEFUL_APP, name, self.name)

    def status(self, name: str = "db") -> dict[str, Any]:
        """The status, where it speaks of what is asked for now; else nothing."""
        live = self.live(name)
        status = live.get("status") or {}
        return status if status.get("observedGeneration") == live["metadata"]["generation"] else {}

    def condition(self, kind: str, name: str = "db") -> dict[str, Any]:
        found = self.status(name).get("conditions") or ()
        return next((one for one in found if one["type"] == kind), {})

    def ready(self, replicas: int, name: str = "db", seconds: float = UNTIL) -> dict[str, Any]:
        """Its status, once it is Ready with so many replicas."""

        def done() -> dict[str, Any] | None:
            status = self.status(name)
            good = status.get("readyReplicas") == replicas == status.get("replicas")
            return status if good and self.condition("Ready", name)["status"] == "True" else None

        return dict(until(done, lambda: yaml.safe_dump(self.live(name).get("status")), seconds))

    def stalled(self, reason: str, words: str, name: str = "db") -> None:
        def told() -> bool:
            one = self.condition("Stalled", name)
            return one.get("status") == "True" and one["reason"] == reason and words in one["message"]

        until(told, lambda: yaml.safe_dump(self.live(name).get("status")), UNTIL)

    def pods(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.api.list(kinds.POD, self.name)}

    def uids(self) -> dict[str, str]:
        return {name: one["metadata"]["uid"] for name, one in self.pods().items()}

    def phases(self) -> dict[str, str]:
        return {name: (one.get("status") or {}).get("phase", "") for name, one in self.world.berths().items()}

    def changes_are_told(self, name: str, reasons: list[str], who: str) -> None:
        """By one Event each, on the Berth."""

        def told() -> bool:
            return all(self.world.told(name, reason, f", by {who}") for reason in reasons)

        until(told, lambda: str(self.world.events(name)), UNTIL)
        found = [reason for reason, note in self.world.events(name) if reason in reasons and f", by {who}" in note]
        assert sorted(found) == sorted(reasons)

    def check(self) -> None:
        """No lock without a living berth, and every berth holds what it says."""
        held, alive = self.world.held()
        assert set(held.values()) <= set(alive), (held, alive)

    # -- removing

    def clear(self) -> None:
        for one in self.api.list(kinds.STATEFUL_APP, self.name):
            self.api.patch(kinds.STATEFUL_APP, one["metadata"]["name"], self.name, {"metadata": {"finalizers": None}})
            self.api.delete(kinds.STATEFUL_APP, one["metadata"]["name"], self.name)


@contextmanager
def app_world(plane: Any, world: World, nodes: list[str]) -> Iterator[AppWorld]:
    """Its StatefulApps go before the rest of the world does."""
    made = AppWorld(plane, world, nodes)
    try:
        yield made
    finally:
        made.clear()
