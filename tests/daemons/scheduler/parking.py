"""What a case of test_waking.py makes for itself: nodes that only its pod may use, whoever holds them, volumes, claims.

Every object bears the case's name, so that nothing which cures one case says anything to the pod of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import MIDST
from tests.daemons.controller.world import until as until_within
from tests.daemons.scheduler.world import POOL, World

CASE = "berth.dev/test-case"
HOSTNAME = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
STATIC = "kubernetes.io/no-provisioner"
NOT_READY = "node.kubernetes.io/not-ready"
#: A pod that was woken is bound within a second or two; one that was not waits for the queue's flush, 300 s.
PATIENCE = 20.0


def until(condition: Callable[[], Any], what: str | Callable[[], Any]) -> Any:
    return until_within(condition, what, PATIENCE, longest=MIDST)


class Own:
    """What one case has. Its pod has the case's name, and waits until somebody wakes it."""

    def __init__(self, world: World, devices: Any, case: str) -> None:
        self.world, self.devices, self.api = world, devices, world.api
        self.name = case.replace("_", "-")
        self.unique = f"{world.name}-{self.name}"
        self._made: list[tuple[Any, str]] = []

    # -- making ----------------------------------------------------------------------------------------------------

    def make(self, kind: Any, name: str, labels: Any = None, **body: Any) -> str:
        """An object that has the world's namespace or none; of the cluster it goes with `clear`."""
        space = {"namespace": self.world.name} if kind.namespaced else {}
        meta = {"name": name, "labels": labels or {}, **space}
        self.api.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body})
        if not kind.namespaced:
            self._made.append((kind, name))
        return name

    def node(self, suffix: str = "0", cpu: str = "2", labels: Any = None, more: Any = None, **spec: Any) -> str:
        """A node that kwok runs and that the case's pod may use. It is not waited for."""
        name = f"{self.unique}-{suffix}"
        offered = {"cpu": cpu, "memory": "8Gi", "pods": "110", **(more or {})}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    POOL: self.world.name, CASE: self.unique, HOSTNAME: name, "type": "kwok", **(labels or {}),
                },
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "spec": spec,
            "status": {"capacity": offered, "allocatable": offered},
        }  # fmt: skip
        self.api.create(kinds.NODE, body)
        self.world.nodes.append(name)
        return name

    def park(self, *claims: str, **spec: Any) -> None:
        """The pod that is to wait."""
        self.world.pod(self.name, *claims, **{"nodeSelector": {CASE: self.unique}, **spec})

    def beside(self, node: str, *claims: str, suffix: str = "beside", **spec: Any) -> str:
        """A pod that is on a node without any scheduler's doing."""
        name = f"{self.name}-{suffix}"
        self.world.pod(name, *claims, **{"nodeName": node, "nodeSelector": {}, **spec})
        return name

    def storage_class(self, provisioner: str = STATIC, mode: str = "WaitForFirstConsumer") -> str:
        return self.make(kinds.STORAGE_CLASS, self.unique, provisioner=provisioner, volumeBindingMode=mode)

    def claim(self, name: str = "", storage_class: str | None = None, **spec: Any) -> str:
        name = name or self.name
        spec.setdefault("storageClassName", self.unique if storage_class is None else storage_class)
        self.world.claim(name, **spec)
        return name

    def volume(self, claim: str = "", storage_class: str | None = None, labels: Any = None, **spec: Any) -> str:
        """A volume; of a driver of the case's name, unless it says otherwise; for that claim, if one is named."""
        name = f"{self.unique}-{claim or 'any'}"
        source = {} if "local" in spec else {"csi": {"driver": self.unique, "volumeHandle": name}}
        reference = {"claimRef": {"namespace": self.world.name, "name": claim}} if claim else {}
        body = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self.unique if storage_class is None else storage_class,
            **source,
            **reference,
            **spec,
        }
        return self.make(kinds.PV, name, {"berth.dev/namespace": self.world.name, **(labels or {})}, spec=body)

    def bound(self, name: str = "", labels: Any = None, modes: Any = ("ReadWriteOnce",), **spec: Any) -> str:
        """A claim that has its volume; Kubernetes' controller completes it."""
        name = name or self.name
        volume = self.volume(name, "", labels, accessModes=list(modes), **spec)
        return self.claim(name, "", volumeName=volume, accessModes=list(modes))

    def local(self, **more: Any) -> str:
        """A volume of a directory on the case's nodes."""
        return self.volume(local={"path": "/mnt"}, nodeAffinity=where(CASE, self.unique), **more)

    def limit(self, node: str, count: int) -> None:
        """So many volumes of the case's driver can be attached to the node."""
        self.make(kinds.CSI_DRIVER, self.unique, spec={"attachRequired": False})
        self.make(kinds.CSI_NODE, node, spec={"drivers": [self.limited(node, count)]})

    def limited(self, node: str, count: int) -> dict[str, Any]:
        return {"name": self.unique, "nodeID": node, "topologyKeys": None, "allocatable": {"count": count}}

    def report(self, size: str) -> None:
        """What is left of the case's class."""
        topology = {"matchLabels": {CASE: self.unique}}
        self.make(
            kinds.CSI_STORAGE_CAPACITY, self.name, storageClassName=self.unique, nodeTopology=topology, capacity=size
        )

    def berth(self, name: str, node: str, **spec: Any) -> None:
        self.make(kinds.BERTH, name, spec={"app": "db", "ordinal": 0, "nodeName": node, **spec})

    # -- changing --------------------------------------------------------------------------------------------------

    def patch(self, kind: Any, name: str, body: Any, subresource: str | None = None) -> None:
        self.api.patch(kind, name, self.world.name if kind.namespaced else None, body, subresource)

    def relabel(self, kind: Any, name: str, **labels: str | None) -> None:
        self.patch(kind, name, {"metadata": {"labels": labels}})

    def delete(self, kind: Any, name: str) -> None:
        self.world.delete(kind, name)

    def resize(self, pod: str, cpu: str) -> None:
        found = self.api.get(kinds.POD, pod, self.world.name)
        found["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        self.api.replace(kinds.POD, found, subresource="resize")

    def given(self, pod: str, cpu: str) -> None:
        """What a kubelet says of a container that runs: without it no pod that runs is resized.

        kwok does not say it, and passes over a pod that came before it knew of the node.
        """
        found = self.api.get(kinds.POD, pod, self.world.name)
        amounts = {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
        running = {"ready": True, "restartCount": 0, "imageID": "", "state": {"running": {}}}
        statuses = [
            {"name": one["name"], "image": one["image"], **running, **amounts} for one in found["spec"]["containers"]
        ]
        status = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
            "containerStatuses": statuses,
        }
        self.patch(kinds.POD, pod, {"status": status}, "status")

    def reference(self) -> dict[str, str]:
        """Whom a volume is for. Without the uid Kubernetes' controller sees it at its next round, up to 15 s later."""
        uid = self.world.get_claim(self.name)["metadata"]["uid"]
        return {"namespace": self.world.name, "name": self.name, "uid": uid}

    def provision(self) -> None:
        """As a driver's provisioner does for the case's claim, once its node was chosen."""
        until(self._selected, lambda: self.world.story_of(self.name))
        self.volume(claimRef=self.reference())

    def _selected(self) -> bool:
        return SELECTED in (self.world.get_claim(self.name)["metadata"].get("annotations") or {})

    # -- looking ---------------------------------------------------------------------------------------------------

    def condition(self) -> tuple[str, str, str]:
        return self.world.condition(self.name)

    def clear(self) -> None:
        for kind, name in reversed(self._made):
            self.delete(kind, name)


def where(key: str, value: str) -> dict[str, Any]:
    """The node affinity of a volume."""
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def near(app: str, **more: Any) -> dict[str, Any]:
    """What a term of pod affinity says."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME, **more}


def required(kind: str, term: Any) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def port(number: int = 8080) -> list[dict[str, Any]]:
    """Containers that take a port of their node."""
    return [{"name": "main", "image": "none", "ports": [{"containerPort": number, "hostPort": number}]}]


def asks(resource: str) -> list[dict[str, Any]]:
    """Containers that want something which only nodes of the case have."""
    wanted = {resource: "1"}
    return [{"name": "main", "image": "none", "resources": {"requests": wanted, "limits": wanted}}]


def settled(world: World) -> bool:
    """Its nodes are Ready, and what they were tainted with until then is gone; its claims that name a volume are bound.

    Such a change afterwards would wake pods of its own accord.
    """
    nodes = {one["metadata"]["name"]: one for one in world.api.list(kinds.NODE)}
    if any(one["key"] == NOT_READY for name in world.nodes for one in nodes[name]["spec"].get("taints") or ()):
        return False
    claims = [one for one in world.api.list(kinds.PVC, world.name) if one["spec"].get("volumeName")]
    return all((one.get("status") or {}).get("phase") == "Bound" for one in claims)
