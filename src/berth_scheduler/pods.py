"""What is kept of a pod: what scheduling sees of it, and the little of the object that is written about.

The cache of pods calls me for each object that the API server sends. A pod is read again only where something changed
that scheduling looks at: most of what a cluster says of its pods is that they are still well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from berth_core.errors import BerthError
from berth_core.model.pod import PodInfo
from berth_core.plugins.coscheduling import group_of

Obj = dict[str, Any]
#: Of those that have ended nothing is asked any more; the watch tells them as deleted.
ALIVE = "status.phase!=Succeeded,status.phase!=Failed"
_META = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "generation")


def reducer(known: Callable[[str, str], Obj | None]) -> Callable[[Obj], Obj]:
    """Return the transform of the cache. ``known`` gives what was kept of the pod before."""

    def reduce(pod: Obj) -> Obj:
        meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
        stamp = _stamp(meta, spec, status)
        old = known(meta["name"], meta["namespace"])
        kept: Obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {key: meta[key] for key in _META if key in meta},
            "scheduler": spec.get("schedulerName") or "default-scheduler",
            "nominated": status.get("nominatedNodeName") or "",
            "told": _told(status),
            "stamp": stamp,
        }
        if old is not None and stamp is not None and old["stamp"] == stamp:
            kept.update({"info": old["info"], "problem": old["problem"]})
        else:
            kept.update(_read(pod))
        return kept

    return reduce


def _read(pod: Obj) -> Obj:
    try:
        return {"info": PodInfo.from_manifest(pod), "problem": ""}
    except BerthError as exc:  # the API server took it, and we cannot place it: its pod is told so
        meta = pod["metadata"]
        node = (pod.get("spec") or {}).get("nodeName") or ""
        empty = {"metadata": {key: meta[key] for key in ("name", "namespace", "uid")}, "spec": {"nodeName": node}}
        return {"info": PodInfo.from_manifest(empty), "problem": exc.message}


def _stamp(meta: Obj, spec: Obj, status: Obj) -> tuple[object, ...] | None:
    """Everything that PodInfo is read from, in short; None where the API server does not count generations."""
    if not meta.get("generation"):
        return None
    resized = [
        (one.get("name"), str(one.get("allocatedResources")), str(one.get("resources")))
        for one in status.get("containerStatuses") or ()
        if one.get("allocatedResources") or one.get("resources")
    ]
    return (
        *(meta["uid"], meta["generation"], spec.get("nodeName"), meta.get("labels"), meta.get("deletionTimestamp")),
        *(status.get("phase"), status.get("nominatedNodeName"), status.get("startTime"), meta.get("ownerReferences")),
        resized,
        [
            (one.get("type"), one.get("reason"))
            for one in status.get("conditions") or ()
            if str(one.get("type")).startswith(("PodResize", "DisruptionTarget"))
        ],
    )


def _told(status: Obj) -> tuple[str, str, str]:
    """Status, reason and message of the condition PodScheduled."""
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled":
            return str(one.get("status")), str(one.get("reason") or ""), str(one.get("message") or "")
    return "", "", ""


def group_index(pod: Obj) -> list[str]:
    """Index of the members of pod groups that have not been asked to go."""
    group = group_of(pod["info"])
    return [] if group is None or pod["info"].terminating else ["/".join(group)]
