"""What is kept of objects that are many: what somebody reads, and what is equal in most of them once.

Called by the caches in cluster.py for each object that the API server sends; of pods, pods.py does.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from berth_core.model import resources as kinds
from berth_core.model.resources import Resource

Obj = dict[str, Any]
#: Different parts that are remembered: nodes are of a few sorts, and each part takes less than a kilobyte.
MAX_PARTS = 4096
_READ_OF_SPECS = ("taints", "unschedulable")
_READ_OF_STATUSES = ("allocatable", "declaredFeatures", "images")


def nodes() -> Callable[[Obj], Obj]:
    """Return the transform of a cache of nodes. A heartbeat changes nothing that is looked at."""
    one = Parts().one

    def slim(node: Obj) -> Obj:
        meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
        kept = {key: meta[key] for key in ("name", "uid", "resourceVersion") if key in meta}
        if meta.get("labels"):
            kept["labels"] = {sys.intern(key): sys.intern(value) for key, value in meta["labels"].items()}
        facts = {key: one(status[key]) for key in _READ_OF_STATUSES if key in status}
        facts["conditions"] = one(_readiness(status.get("conditions") or ()))
        said = one({key: spec[key] for key in _READ_OF_SPECS if key in spec})
        return {"apiVersion": "v1", "kind": "Node", "metadata": kept, "spec": said, "status": facts}

    return slim


def _readiness(conditions: Iterable[Obj]) -> list[Obj]:
    """The page tells it, and nothing else reads conditions."""
    return [{"type": "Ready", "status": one.get("status")} for one in conditions if one.get("type") == "Ready"]


class Parts:
    """Gives for a part of an object the first one that said the same. Nobody may change what is kept."""

    def __init__(self) -> None:
        self._first: dict[bytes, Any] = {}

    def one(self, part: Any) -> Any:
        """``part`` is what JSON can say."""
        key = marshal.dumps(part, 2)
        found = self._first.get(key)
        if found is None:
            if len(self._first) >= MAX_PARTS:
                self._first.clear()
            found = self._first[key] = part
        return found


def _identity(item: Obj) -> Obj:
    return {key: item["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}


def _grouping(item: Obj) -> Obj:
    """Nothing reads the status of what only groups pods."""
    selector = (item.get("spec") or {}).get("selector")
    meta = _identity(item)
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": meta, "spec": {"selector": selector}}


_OF_CAPACITY = ("apiVersion", "kind", "storageClassName", "nodeTopology", "capacity", "maximumVolumeSize")


def _capacity(item: Obj) -> Obj:
    """A driver of local storage has one for each node and class. Its labels and owners tell nothing here."""
    return {**{key: item[key] for key in _OF_CAPACITY if key in item}, "metadata": _identity(item)}


SLIM: Mapping[Resource, Callable[[Obj], Obj]] = {
    kinds.SERVICE: _grouping,
    kinds.REPLICATION_CONTROLLER: _grouping,
    kinds.REPLICA_SET: _grouping,
    kinds.STATEFUL_SET: _grouping,
    kinds.CSI_STORAGE_CAPACITY: _capacity,
}
