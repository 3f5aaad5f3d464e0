"""A small cluster for the eyes: what the report's screenshot in docs/images shows. Every value is made up."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]
GiB = 1 << 30
MADE, TURNED = "2026-03-02T08:15:00Z", "2026-03-04T03:12:41Z"
NODES = ("h1", "h2", "h3")
APPS = ("db", "search")
#: Node, slot, GiB, class, phase, and the berth that holds it.
DISKS = (
    ("h1", "a", 960, "fast", "InUse", "db-0"),
    ("h1", "b", 960, "fast", "Available", ""),
    ("h1", "c", 8000, "bulk", "InUse", "search-0"),
    ("h2", "a", 960, "fast", "Faulted", "db-1"),
    ("h2", "b", 960, "fast", "Available", ""),
    ("h2", "c", 8000, "bulk", "InUse", "search-1"),
    ("h3", "a", 960, "fast", "InUse", "db-2"),
    ("h3", "b", 960, "fast", "Released", ""),
    ("h3", "c", 8000, "bulk", "Available", ""),
)


def cluster() -> dict[str, list[Object]]:
    """Its lists, by kind: two applications, a broken disk under one, a disk that keeps data."""
    held = [disk for disk in DISKS if disk[5]]
    return {
        "Node": [_node(name, number) for number, name in enumerate(NODES, 1)],
        "LocalDisk": list(_disks()),
        "LocalDevice": [],
        "Berth": [_berth(*disk) for disk in held],
        "Pod": [],
        "PersistentVolume": [],
        "StatefulSet": [_stateful_set(app, sum(disk[5].startswith(f"{app}-") for disk in held)) for app in APPS],
    }


def _split(berth: str) -> tuple[str, int]:
    app, ordinal = berth.rsplit("-", 1)
    return app, int(ordinal)


def _node(name: str, number: int) -> Object:
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    addresses = [{"type": "InternalIP", "address": f"192.0.2.{number}"}]
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": room, "addresses": addresses}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"rack-{(number + 1) // 2}"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def _name(node: str, slot: str) -> str:
    return f"{node}-{hashlib.sha256(f'{node}{slot}'.encode()).hexdigest()[:10]}"


def _disks() -> Iterator[Object]:
    for node, slot, size, storage_class, phase, berth in DISKS:
        serial = f"S5H9NS0N98{NODES.index(node)}{ord(slot)}"
        spec: Object = {
            "nodeName": node,
            "identity": {"serial": serial, "size": size * GiB},
            "storageClassName": storage_class,
            "volumeMode": "Filesystem",
        }
        if berth:
            spec["claimRef"] = _lock(berth)
        if phase == "Released":
            spec["retainedFor"] = {"namespace": "shop", "app": "db", "ordinal": 3, "claim": "data", "dataUID": "db-3"}
        sick = phase == "Faulted"
        seen = {
            "devicePath": f"/dev/sd{slot}",
            "serial": serial,
            "size": size * GiB,
            "health": "Faulted" if sick else "Healthy",
            "mounts": [f"/var/lib/berth/{_name(node, slot)}"] if berth else [],
        }
        healthy = _condition("Healthy", not sick, "IOErrors" if sick else "", "12 I/O errors in 5m" if sick else "")
        yield {
            "metadata": _meta(_name(node, slot)),
            "spec": spec,
            "status": {
                "phase": phase,
                "capacity": size * GiB,
                "observed": seen,
                "conditions": [_condition("Matched", True), healthy],
            },
        }


def _condition(kind: str, good: bool, reason: str = "", message: str = "") -> Object:
    when = MADE if good else TURNED
    said = {"reason": reason, "message": message} if reason else {}
    return {"type": kind, "status": str(good), "lastTransitionTime": when, **said}


def _meta(name: str, namespace: str = "") -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "uid": name, "resourceVersion": "1", "creationTimestamp": MADE}


def _lock(berth: str) -> Object:
    app, ordinal = _split(berth)
    who = {"namespace": "shop", "name": berth, "uid": berth, "app": app, "ordinal": ordinal}
    return {**who, "claim": "data", "dataUID": berth}


def _berth(node: str, slot: str, size: int, _storage_class: str, _phase: str, berth: str) -> Object:
    app, ordinal = _split(berth)
    disk = {"claim": "data", "name": _name(node, slot), "size": size * GiB}
    spec = {"app": app, "ordinal": ordinal, "nodeName": node, "disks": [disk]}
    return {
        "metadata": _meta(berth, "shop"),
        "spec": spec,
        "status": {"phase": "Running", "podName": berth, "workload": f"StatefulSet {app}"},
    }


def _stateful_set(app: str, replicas: int) -> Object:
    return {"metadata": _meta(app, "shop"), "spec": {"replicas": replicas}, "status": {}}
