"""Berths that a test makes by hand, with the locks that name them: without one nobody makes a disk ready."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds

NAMESPACE = "default"


def lock_of_new(api: ApiClient, node: str, disk: str, phase: str = "Reserved", data_uid: str = "") -> dict[str, Any]:
    """A new Berth for the LocalDisk ``disk``; the claimRef that names it. ``data_uid``: of data that it carries on."""
    which = f"b-{uuid4().hex[:5]}"
    spec = {"app": "db", "ordinal": 0, "nodeName": node, "disks": [{"claim": "data", "name": disk, "size": 1}]}
    meta = {"name": which, "namespace": NAMESPACE}
    body = {"apiVersion": "berth.dev/v1alpha1", "kind": "Berth", "metadata": meta, "spec": spec}
    made = api.create(kinds.BERTH, body)
    record(api, which, phase)
    uid = made["metadata"]["uid"]
    replica = {"app": "db", "ordinal": 0, "claim": "data"}
    return {"namespace": NAMESPACE, "name": which, "uid": uid, **replica, "dataUID": data_uid or uid}


def record(api: ApiClient, berth: str, phase: str) -> None:
    """Its phase, as who carries it on would record it."""
    api.patch(kinds.BERTH, berth, NAMESPACE, {"status": {"phase": phase}}, "status")
