"""Berths that a test makes by hand, with the locks that name them: without one nobody makes a disk ready."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

NAMESPACE = "default"


def lock_of_new(cluster: Any, node: str, disk: str, phase: str = "Reserved", data_uid: str = "") -> dict[str, Any]:
    """A new Berth for the LocalDisk ``disk``; the claimRef that names it. ``data_uid``: of data that it carries on."""
    which = f"b-{uuid4().hex[:5]}"
    spec = {"app": "db", "ordinal": 0, "nodeName": node, "disks": [{"claim": "data", "name": disk, "size": 1}]}
    meta = {"name": which, "namespace": NAMESPACE}
    body = {"apiVersion": "berth.dev/v1alpha1", "kind": "Berth", "metadata": meta, "spec": spec}
    made = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(body)))
    record(cluster, which, phase)
    uid = made["metadata"]["uid"]
    replica = {"app": "db", "ordinal": 0, "claim": "data"}
    return {"namespace": NAMESPACE, "name": which, "uid": uid, **replica, "dataUID": data_uid or uid}


def record(cluster: Any, berth: str, phase: str) -> None:
    """Its phase, as who carries it on would record it."""
    patch = json.dumps({"status": {"phase": phase}})
    cluster.kubectl("patch", "berths.berth.dev", berth, "--subresource", "status", "--type", "merge", "-p", patch)
