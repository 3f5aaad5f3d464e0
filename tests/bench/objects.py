"""An application's objects as somebody would have to write them down for kubernetes.core."""

from __future__ import annotations

from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    PV,
    PVC,
    SERVICE,
    STATEFUL_SET,
)

from .ground import Ground

_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "finalizers",
    "ownerReferences",
)


def k8s(definitions: list[dict[str, Any]]) -> dict[str, Any]:
    """One task that keeps them all."""
    return {"kubernetes.core.k8s": {"state": "present", "resource_definition": definitions}}


def definitions(ground: Ground, app: str) -> list[dict[str, Any]]:
    """Its volumes, claims, Service and StatefulSet. Not its Berths and locks: those have no counterpart there."""
    found = []
    for kind in (PV, PVC, SERVICE, STATEFUL_SET):
        mine = [_cleaned(item) for item in ground.api.list(kind) if belongs(item, app)]
        assert mine, f"the application {app} has no {kind.kind}"
        found += mine
    return found


def belongs(item: dict[str, Any], app: str) -> bool:
    return (item["metadata"].get("labels") or {}).get("berth.dev/app") == app


def _cleaned(live: dict[str, Any]) -> dict[str, Any]:
    body = {key: value for key, value in live.items() if key != "status"}
    body["metadata"] = {key: value for key, value in live["metadata"].items() if key not in _SERVER}
    reference = body["spec"].get("claimRef")
    if reference:
        reference = {key: value for key, value in reference.items() if key not in _SERVER}
        body["spec"] = {**body["spec"], "claimRef": reference}
    return body
