"""What is kept of a pod: what scheduling sees of it, and the little of the object that is written about.

Called by the cache of pods for each object that the API server sends. A pod is read again only where something changed
that scheduling looks at: most of what a cluster says of its pods is that they are still well. And what the pods of one
template have in common is read once: that is nearly all of it.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable
from typing import Any, TypedDict

from berth_core.errors import BerthError
from berth_core.model.pod import PodInfo
from berth_core.plugins.coscheduling import group_of

Obj = dict[str, Any]
#: Of those that have ended nothing is asked any more; the watch tells them as deleted.
ALIVE = "status.phase!=Succeeded,status.phase!=Failed"
#: Kinds of pods that are remembered: a cluster has fewer templates, and each takes a few kilobytes.
MAX_KINDS = 4096
_UNREAD_VOLUMES = frozenset({"configMap", "downwardAPI", "emptyDir", "hostPath", "projected", "secret"})
_READ_OF_CONTAINERS = ("name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules")
_READ_OF_STATUSES = ("name", "allocatedResources", "resources")
_UNREAD_CONDITIONS = frozenset({"PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"})
_APART = frozenset({"nodeName", "hostname", "subdomain", "containers", "initContainers", "volumes"})
NOT_TOLD = ("", "", "")
_META = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "generation")


class _Meta(TypedDict, total=False):
    name: Any
    generateName: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    deletionTimestamp: Any
    labels: Any
    ownerReferences: Any


class _Container(TypedDict, total=False):
    name: Any
    allocatedResources: Any
    resources: Any


class _Condition(TypedDict, total=False):
    type: Any
    status: Any
    reason: Any
    message: Any


class _Status(TypedDict, total=False):
    phase: Any
    startTime: Any
    nominatedNodeName: Any
    qosClass: Any
    conditions: list[_Condition] | None
    initContainerStatuses: list[_Container] | None
    containerStatuses: list[_Container] | None
    resourceClaimStatuses: Any
    resources: Any
    allocatedResources: Any


class _Pod(TypedDict, total=False):
    metadata: _Meta
    spec: Any
    status: _Status | None


class PodEvent(TypedDict):
    """What is read of an event of the watch: who wrote which field of a pod is more than half of it, and is skipped.

    Only what is gone into has a type: a value that nobody expected costs its own pod, not the watch.
    """

    type: str
    object: _Pod


class PodList(TypedDict, total=False):
    """The same of a page of a list."""

    metadata: Any
    items: list[_Pod] | None


def reducer(known: Callable[[str, str], Obj | None]) -> Callable[[Obj], Obj]:
    """Return the transform of the cache. ``known`` gives what was kept of the pod before."""
    read = Reader().read

    def reduce(pod: Obj) -> Obj:
        meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
        stamp = _stamp(meta, spec, status)
        old = known(meta["name"], meta["namespace"])
        kept: Obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {key: meta[key] for key in _META if key in meta},
            "scheduler": sys.intern(str(spec.get("schedulerName") or "default-scheduler")),
            "nominated": status.get("nominatedNodeName") or "",
            "told": _told(status),
            "stamp": stamp,
        }
        if old is None or stamp is None or old["stamp"] is None or old["stamp"][0] != stamp[0]:
            kept.update(_read(pod, read))
        elif old["stamp"] == stamp:
            kept.update({"info": old["info"], "problem": old["problem"]})
        else:  # bound, or running: it is its own twin
            kept.update(_read(pod, read if old["problem"] else old["info"].twin))
        info = kept["info"]
        kept["metadata"].update(name=info.name, namespace=info.namespace, uid=info.uid)  # the same texts, once
        return kept

    return reduce


class Reader:
    """Reads pods, and remembers one of each kind."""

    def __init__(self) -> None:
        self._one_of: dict[bytes, PodInfo] = {}

    def read(self, pod: Obj) -> PodInfo:
        """Raises as `PodInfo.from_manifest` does."""
        key = alike(pod)
        if key is None:
            return PodInfo.from_manifest(pod)
        found = self._one_of.get(key)
        if found is not None:
            return found.twin(pod)
        if len(self._one_of) >= MAX_KINDS:
            self._one_of.clear()
        found = self._one_of[key] = PodInfo.from_manifest(pod)
        return found


def alike(pod: Obj) -> bytes | None:
    """Everything of a pod that `PodInfo.twin` does not read again; None where even twins differ.

    What nobody reads is left out: the API server gives each pod a volume of its own for its token, and its mounts.
    """
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    volumes = [one for one in spec.get("volumes") or () if not _UNREAD_VOLUMES.intersection(one)]
    if any("ephemeral" in one for one in volumes) or spec.get("resourceClaims"):
        return None  # their claims have the pod's name, or one that stands in its status
    containers = [
        [[one.get(key) for key in _READ_OF_CONTAINERS] for one in spec.get(kind) or ()]
        for kind in ("initContainers", "containers")
    ]
    given = [[one.get(key) for key in _READ_OF_STATUSES] for one in status.get("containerStatuses") or ()]
    given += [[one.get(key) for key in _READ_OF_STATUSES] for one in status.get("initContainerStatuses") or ()]
    resizes = [one for one in status.get("conditions") or () if str(one.get("type")).startswith("PodResize")]
    rest = {key: value for key, value in spec.items() if key not in _APART}
    levels = (status.get("resources"), status.get("allocatedResources"), not status)
    # Constraints may take their values from the pod's own labels, affinity its namespace.
    own = (meta.get("namespace"), meta.get("labels") if "topologySpreadConstraints" in spec else None)
    return marshal.dumps((rest, containers, volumes, given, resizes, levels, own), 2)


def _read(pod: Obj, read: Callable[[Obj], PodInfo]) -> Obj:
    try:
        return {"info": read(pod), "problem": ""}
    except BerthError as exc:  # the API server took it, and the scheduler cannot place it: its pod is told so
        meta = pod["metadata"]
        node = (pod.get("spec") or {}).get("nodeName") or ""
        empty = {"metadata": {key: meta[key] for key in ("name", "namespace", "uid")}, "spec": {"nodeName": node}}
        return {"info": PodInfo.from_manifest(empty), "problem": exc.message}


def _stamp(meta: Obj, spec: Obj, status: Obj) -> tuple[int, int] | None:
    """Everything that PodInfo is read from, in short; None where the API server does not count generations.

    First what makes another pod of it, then what `PodInfo.twin` reads. As hashes of 64 bits under a secret of this
    process: nobody can make two that are alike.
    """
    if not meta.get("generation"):
        return None
    conditions = status.get("conditions")
    told = _conditions(conditions) if conditions else []
    labels = meta.get("labels")  # a bind brings some of the node's; only constraints take values from them
    shape = (
        meta["uid"],
        meta["generation"],
        labels if "topologySpreadConstraints" in spec else None,
        status.get("resourceClaimStatuses"),
        _resized(status),
        status.get("resources"),
        status.get("allocatedResources"),
        not status,
        [one for one in told if one[0].startswith("PodResize")] if told else told,
    )
    life = (
        spec.get("nodeName"),
        meta.get("deletionTimestamp"),
        status.get("phase"),
        status.get("nominatedNodeName"),
        status.get("startTime"),
        meta.get("ownerReferences"),
        labels,
        [one for one in told if one[0] == "DisruptionTarget"] if told else told,
    )
    return hash(marshal.dumps(shape, 2)), hash(marshal.dumps(life, 2))


def _conditions(listed: list[Obj]) -> list[tuple[str, object, object]]:
    """Type, status and reason of the conditions that anybody reads."""
    return [
        (str(one.get("type")), one.get("status"), one.get("reason"))
        for one in listed
        if one.get("type") not in _UNREAD_CONDITIONS
    ]


def _resized(status: Obj) -> list[tuple[object, str, str]]:
    """What the containers have been given, where that is told."""
    return [
        (one.get("name"), str(one.get("allocatedResources")), str(one.get("resources")))
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in status.get(kind) or ()
        if one.get("allocatedResources") or one.get("resources")
    ]


def _told(status: Obj) -> tuple[str, str, str]:
    """Status, reason and message of the condition PodScheduled."""
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled":
            return str(one.get("status")), str(one.get("reason") or ""), str(one.get("message") or "")
    return NOT_TOLD


def group_index(pod: Obj) -> list[str]:
    """Index of the members of pod groups that have not been asked to go."""
    group = group_of(pod["info"])
    return [] if group is None or pod["info"].terminating else ["/".join(group)]
