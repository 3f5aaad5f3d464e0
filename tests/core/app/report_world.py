"""Lists of a small cluster for the report: what is held, broken, lost; ``word`` wherever the API leaves text free."""

from __future__ import annotations

from typing import Any

TIME = "2026-01-02T03:04:05Z"


def cluster(word: str = "plain") -> dict[str, list[dict[str, Any]]]:
    """A node, a held and a broken disk, a disk of a node that is gone, a berth; ``word`` wherever text is free."""
    lock = {"namespace": "shop", "name": "db-0", "uid": "b", "app": word, "ordinal": 0, "claim": word, "dataUID": "b"}
    turned = {"type": word, "status": "False", "reason": word, "message": word, "lastTransitionTime": TIME}

    def disk(name: str, node: str, phase: str, **spec: Any) -> dict[str, Any]:
        observed = {"devicePath": "/dev/sda", "health": word, "holders": [word]}
        return {
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": TIME},
            "spec": {"nodeName": node, "identity": {"serial": word, "size": 1 << 30}, "storageClassName": word, **spec},
            "status": {"phase": phase, "observed": observed, "conditions": [turned]},
        }

    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "1"}, "addresses": []}
    berth = {"app": word, "ordinal": 0, "nodeName": "n1", "disks": [{"claim": word, "name": word, "size": 1}]}
    device = {"nodeName": "n1", "deviceClass": word, "uuid": word, "claimRefs": []}
    return {
        "Node": [{"metadata": {"name": "n1", "labels": {}}, "spec": {}, "status": status}],
        "LocalDisk": [
            disk("held", "n1", "Locked", claimRef=lock),
            disk("broken", "n1", "Faulted"),
            disk("lost", "n9", "Missing"),
        ],
        "LocalDevice": [{"metadata": {"name": "gpu", "uid": "g"}, "spec": device, "status": {"phase": "Available"}}],
        "Berth": [
            {
                "metadata": {"name": "db-0", "namespace": "shop", "uid": "b", "creationTimestamp": TIME},
                "spec": berth,
                "status": {"phase": "Running", "podName": word},
            }
        ],
        "Pod": [],
        "PersistentVolume": [],
        "StatefulSet": [],
    }
