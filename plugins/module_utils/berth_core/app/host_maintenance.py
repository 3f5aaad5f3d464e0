# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods of a node that is maintained: which go because they have a berth there, and whether they are home again.

Called by the module host_maintenance before it writes, and while it waits. What forbids that they go is in
disruption.py. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

from ..errors import StateError
from ..lifecycle import states
from ..lifecycle.locks import holds_disk
from ..lifecycle.view import disks_of, going, recorded
from ..model.berth import CLAIM_APP
from ..model.fields import mapping, objects
from . import claims
from .claim_pods import workload_of
from .observed import ended, ready

Object = Mapping[str, Any]
#: Of a pod that a kubelet reads from a file: nobody but that file ends it.
_MIRROR = "kubernetes.io/config.mirror"
#: What makes its pods anew on the very same node, cordoned or not.
_PER_NODE = ("DaemonSet", "Node")


class Key(NamedTuple):
    """A pod, by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Held(NamedTuple):
    """A pod and the berths that it has on its node. ``app``: of stateful_app; empty for a pod whose claims were bound
    without one, which ``workload`` ("StatefulSet pg") makes anew."""

    pod: Object
    berths: tuple[Object, ...]
    app: str
    workload: str

    @property
    def key(self) -> Key:
        return key_of(self.pod)


@dataclass(frozen=True)
class Sorted:
    """The pods of one node. ``held``: with a berth. ``others``: without, which `kubectl drain` would evict as well.

    Those of DaemonSets and of files are in neither, nor those that have ended.
    """

    held: tuple[Held, ...]
    others: tuple[Object, ...]


def key_of(thing: Object) -> Key:
    return Key(str(thing["metadata"].get("namespace", "")), str(thing["metadata"]["name"]))


def sort_pods(pods: Iterable[Object], berths: Iterable[Object]) -> Sorted:
    """``pods``: those of the node; ``berths``: those with it as their node."""
    by_pod, by_claim = _berths_by_owner(berths)
    held, others = [], []
    for pod in sorted(pods, key=key_of):
        if ended(pod) or _stays(pod):
            continue
        key = key_of(pod)
        own = by_pod.get(key)
        named = [Key(key.namespace, name) for name in claims.claims_of_pod(pod)]
        of_claims = [by_claim[name] for name in named if name in by_claim]
        if own is not None:
            held.append(Held(pod, (own, *of_claims), str(own["spec"]["app"]), workload_of(pod)))
        elif of_claims:
            held.append(Held(pod, tuple(of_claims), "", workload_of(pod)))
        else:
            others.append(pod)
    return Sorted(tuple(held), tuple(others))


def _berths_by_owner(berths: Iterable[Object]) -> tuple[dict[Key, Object], dict[Key, Object]]:
    """By the pod of an app's berth, and by the claim of one without an app."""
    by_pod, by_claim = {}, {}
    for record in berths:
        claim = claims.claim_of(record)
        if claim is not None:
            by_claim[Key(claim[0], claim[1])] = record
        elif not str(record["spec"]["app"]).startswith(CLAIM_APP):
            by_pod[key_of(record)] = record
    return by_pod, by_claim


def _stays(pod: Object) -> bool:
    meta = mapping(pod, "metadata")
    if _MIRROR in mapping(meta, "annotations"):
        return True
    return any(one.get("kind") in _PER_NODE and one.get("controller") for one in objects(meta, "ownerReferences"))


def comes_back(pod: Object) -> bool:
    """Whether somebody makes the pod anew when it has gone."""
    return bool(workload_of(pod))


def node_ready(node: Object) -> str:
    """Why the node is not Ready; empty where it is."""
    for one in objects(mapping(node, "status"), "conditions"):
        if one.get("type") == "Ready":
            if one.get("status") == "True":
                return ""
            return f"Ready is {one.get('status')}: {one.get('reason', '')} {one.get('message', '')}".rstrip()
    return "its kubelet has not reported yet"


class Home(NamedTuple):
    """``waits``: what is not home yet, a line each. ``left``: bare pods that nobody makes anew but stateful_app."""

    waits: tuple[str, ...]
    left: tuple[Key, ...]
    rows: tuple[dict[str, Any], ...]


def home(
    node: str,
    berths: Iterable[Object],
    pods: Iterable[Object],
    sets: Iterable[Object],
    why_not: Callable[[Object], str],
) -> Home:
    """Which pods are on their berths again. ``pods``: of the namespaces of the berths; ``sets``: their StatefulSets.

    ``why_not``: of a pod that is not Ready, why.
    """
    by_pod, by_claim = _berths_by_owner(berths)
    live = {key_of(pod): pod for pod in pods if not ended(pod)}
    wanted = {key_of(one): int(one["spec"].get("replicas", 1)) for one in sets}
    waits, left, rows = [], [], []
    for key, record in sorted(by_pod.items()):
        if not states.reached(recorded(record), states.CREATED):
            continue  # its pod was never there
        pod = live.pop(key, None)
        if pod is None:
            replicas = wanted.get(Key(key.namespace, str(record["spec"]["app"])))
            if replicas is None:
                left.append(key)
            elif replicas > int(record["spec"]["ordinal"]):  # else it is suspended, or scaled down
                waits.append(f"pod {key} to be made anew")
        elif _at_home(pod, node):
            rows.append(_row(key, (record,)))
        else:
            waits.append(_why(pod, node, why_not))
    for key, pod in sorted(live.items()):
        named = [Key(key.namespace, name) for name in claims.claims_of_pod(pod)]
        own = tuple(by_claim[name] for name in named if name in by_claim)
        if own and _at_home(pod, node):
            rows.append(_row(key, own))
        elif own and not _stays(pod):
            waits.append(_why(pod, node, why_not))
    return Home(tuple(waits), tuple(left), tuple(rows))


def _why(pod: Object, node: str, why_not: Callable[[Object], str]) -> str:
    key, place = key_of(pod), mapping(pod, "spec").get("nodeName")
    if going(pod):
        return f"pod {key} to stop"
    return f"pod {key} {f'is on Node {place}' if place and place != node else why_not(pod)}"


def _at_home(pod: Object, node: str) -> bool:
    return ready(pod) and not going(pod) and mapping(pod, "spec").get("nodeName") == node


def _row(key: Key, berths: Sequence[Object]) -> dict[str, Any]:
    disks = [each["name"] for record in berths for each in disks_of(record)]
    return {"namespace": key.namespace, "pod": key.name, "disks": disks}


def berths_home(rows: Iterable[Mapping[str, Any]], berths: Iterable[Object]) -> list[Object]:
    """The berths of the pods that are home. ``rows``: of `Home`."""
    known = list(rows)
    pods = {Key(row["namespace"], row["pod"]) for row in known}
    disks = {name for row in known for name in row["disks"]}
    return [one for one in berths if key_of(one) in pods or disks.intersection(each["name"] for each in disks_of(one))]


def check_disks(node: str, berths: Iterable[Object], disks: Iterable[Object]) -> None:
    """Every disk of the node's berths is still locked for its berth. Raises StateError that names the others."""
    by_name = {str(disk["metadata"]["name"]): disk for disk in disks}
    lost = []
    for record in berths:
        if not states.reached(recorded(record), states.RESERVED) or recorded(record) == states.REPLACING:
            continue
        for each in disks_of(record):
            disk = by_name.get(str(each["name"]))
            if disk is None or not holds_disk(disk, record["metadata"]["uid"]):
                lost.append(f"LocalDisk {each['name']} of berth {key_of(record)}")
    if lost:
        raise StateError(
            f"Node {node}: {', '.join(lost)} is not locked for its berth any more: find out who took the lock away "
            "before its pod starts (stateful_app_info, kubectl get ld); the node stays as it is"
        )


def pod_row(one: Held) -> dict[str, Any]:
    """A pod that goes, for the result."""
    ordinal = next((record["spec"]["ordinal"] for record in one.berths if one.app), None)
    return {
        **_row(one.key, one.berths),
        "app": one.app or None,
        "ordinal": ordinal,
        "workload": one.workload or None,
        "comes_back": comes_back(one.pod),
    }
