"""API objects for the engine's tests, as small as the API allows."""

from __future__ import annotations

from typing import Any

from berth_core.model.placement import DeviceClaim, DiskClaim, Holder, PlacementRequest
from berth_core.model.pod import PodInfo

MI, GI = 1 << 20, 1 << 30


def node(
    name, cpu="4", memory="8Gi", pods="110", labels=None, taints=(), unschedulable=False, **more
) -> dict[str, Any]:
    allocatable = {
        "cpu": cpu,
        "memory": memory,
        "pods": pods,
        **{key.replace("__", "/"): value for key, value in more.items()},
    }
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"unschedulable": unschedulable, "taints": list(taints)},
        "status": {"allocatable": allocatable},
    }


def taint(key, effect="NoSchedule", value=""):
    return {"key": key, "effect": effect, "value": value}


def container(cpu=None, memory=None, ports=(), **more) -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    requests.update({key.replace("__", "/"): value for key, value in more.items()})
    return {"name": "c", "resources": {"requests": requests}, "ports": list(ports)}


def pod(name="p", containers=None, namespace="default", node_name="", labels=None, phase="", **spec) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"containers": containers or [container()], "nodeName": node_name, **spec},
        "status": {"phase": phase} if phase else {},
    }


def disk(
    name, node_name, size=GI, storage_class="fast", phase="Available", labels=None, health="", **spec
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {
            "nodeName": node_name,
            "identity": {"serial": name, "size": size},
            "storageClassName": storage_class,
            **spec,
        },
        "status": {"phase": phase, "observed": {"health": health}},
    }


def claim_ref(app, ordinal, claim="data", namespace="default"):
    berth = f"{app}-{ordinal}"
    uid = f"uid-{berth}"
    return {
        "namespace": namespace,
        "name": berth,
        "uid": uid,
        "app": app,
        "ordinal": ordinal,
        "claim": claim,
        "dataUID": uid,
    }


def retained(app, ordinal, claim="data", namespace="default"):
    return {"namespace": namespace, "app": app, "ordinal": ordinal, "claim": claim, "dataUID": f"uid-{app}-{ordinal}"}


def device(name, node_name, device_class="gpu", refs=(), phase="Available", **spec) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node_name, "deviceClass": device_class, "uuid": name, "claimRefs": list(refs), **spec},
        "status": {"phase": phase},
    }


def share(app, ordinal, shares, claim="gpu", namespace="default"):
    berth = f"{app}-{ordinal}"
    return {"namespace": namespace, "name": berth, "uid": f"uid-{berth}", "claim": claim, "shares": shares}


def berth(app, ordinal, node_name, requests=None, labels=None, ports=(), namespace="default") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{app}-{ordinal}", "namespace": namespace, "uid": f"uid-{app}-{ordinal}"},
        "spec": {
            "app": app,
            "ordinal": ordinal,
            "nodeName": node_name,
            "requests": requests or {},
            "podLabels": labels or {},
            "hostPorts": list(ports),
        },
        "status": {"phase": "Reserved"},
    }


def volume(
    name, node_name=None, size="1Gi", storage_class="local", phase="Available", claim=None, **spec
) -> dict[str, Any]:
    affinity = {}
    if node_name:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}]}
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    ref = {"claimRef": {"namespace": claim[0], "name": claim[1]}} if claim else {}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            **affinity,
            **ref,
            **spec,
        },
        "status": {"phase": phase},
    }


def claim(
    name, size="1Gi", storage_class="local", volume_name="", bound=False, namespace="default", **spec
) -> dict[str, Any]:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": annotations},
        "spec": {
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "volumeName": volume_name,
            **spec,
        },
        "status": {"phase": "Bound" if bound else "Pending"},
    }


def storage_class(name="local", waits=True, provisioner="kubernetes.io/no-provisioner") -> dict[str, Any]:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def csi_driver(name="csi.example.com", reports=True) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"storageCapacity": reports}}


def capacity(name, node_name=None, size="1Gi", storage_class="made", **more) -> dict[str, Any]:
    """Of a node; without one, of all."""
    labels = {"matchLabels": {"kubernetes.io/hostname": node_name}} if node_name else {}
    meta = {"name": name, "namespace": "kube-system"}
    return {"metadata": meta, "storageClassName": storage_class, "nodeTopology": labels, "capacity": size, **more}


def request(manifest=None, disks=(), devices=(), app="web", ordinal=0, **more) -> PlacementRequest:
    """A request of the replica app-ordinal."""
    manifest = manifest or pod(f"{app}-{ordinal}")
    return PlacementRequest(
        PodInfo.from_manifest(manifest),
        tuple(one if isinstance(one, DiskClaim) else DiskClaim(*one) for one in disks),
        tuple(one if isinstance(one, DeviceClaim) else DeviceClaim(*one) for one in devices),
        Holder("default", app, ordinal),
        **more,
    )
