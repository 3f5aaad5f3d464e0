# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where pods and replicas would go, and every verdict and score on the way there. Places nothing, writes nothing.

Called by the module placement_info, which shows what is returned. What is decided is the engine's: each choice counts
for those that follow it, as it would for a scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from ..cluster.snapshot import PARTS, Snapshot
from ..errors import StateError
from ..framework.cycle import Outcome, place
from ..framework.diagnosis import Diagnosis
from ..framework.dry_run import post_filter
from ..framework.profile import Profile
from ..model import resources as kinds
from ..model.placement import Placement, PlacementRequest
from ..model.pod import PodInfo
from ..model.resources import Resource
from ..model.volume import ClassInfo
from . import choose
from .asking import ask
from .choose import World, object_verdicts
from .claims import class_of
from .observed import Object
from .wanted import AppWanted

KINDS = (
    *(kinds.LOCAL_DISK, kinds.LOCAL_DEVICE, kinds.BERTH, kinds.NODE, kinds.POD, kinds.PV, kinds.PVC),
    *(kinds.STORAGE_CLASS, kinds.NAMESPACE, kinds.CSI_NODE, kinds.VOLUME_ATTACHMENT, kinds.SERVICE),
    *(kinds.REPLICATION_CONTROLLER, kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.POD_DISRUPTION_BUDGET),
)
"""Everything that may decide about a pod. Locks before berths, so that no lock is seen whose berth is not there yet."""

DEVICE_KINDS = (kinds.RESOURCE_SLICE, kinds.DEVICE_CLASS, kinds.RESOURCE_CLAIM)
"""Listed where a pod asks for devices (`asks_for_devices`)."""

CAPACITY_KINDS = (kinds.CSI_DRIVER, kinds.CSI_STORAGE_CAPACITY)
"""Listed where a volume would be made for the pod by a driver that may report capacity (`asks_for_capacity`)."""


class Listed:
    """Lists of objects by kind, as they were read once; and the engine's view of them."""

    def __init__(self, lists: Mapping[str, Sequence[Object]]) -> None:
        self.snapshot = Snapshot.from_objects(**{PARTS[kind]: items for kind, items in lists.items()})
        self._lists = lists

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """One object; None if it is not there."""
        for item in self._lists.get(kind.kind, ()):
            meta = item["metadata"]
            if meta["name"] == name and (not kind.namespaced or meta.get("namespace") == namespace):
                return dict(item)
        return None


def asks_for_devices(profile: Profile, pod: Object) -> bool:
    """Whether the pod has claims for devices, and the profile a plugin that knows them."""
    return bool(pod["spec"].get("resourceClaims")) and any(one.name == "DynamicResources" for one in profile.plugins)


def asks_for_capacity(lists: Mapping[str, Sequence[Object]], pod: Object) -> bool:
    """Whether a driver would have to make a volume for one of the pod's claims."""
    if not pod["spec"].get("volumes"):
        return False
    info = PodInfo.from_manifest(pod)
    mine = {(info.namespace, one.claim) for one in info.volumes}
    read = [ClassInfo.from_object(one) for one in lists[kinds.STORAGE_CLASS.kind]]
    classes = {one.name for one in read if one.has_driver}
    claims = [one for one in lists[kinds.PVC.kind] if (one["metadata"]["namespace"], one["metadata"]["name"]) in mine]
    return any(class_of(one) in classes and not one["spec"].get("volumeName") for one in claims)


def beside(lists: Mapping[str, Sequence[Object]], pod: Object) -> Listed:
    """The lists as that pod finds them: what is there of the pod itself is no other pod's room."""
    meta = pod["metadata"]
    own = (meta["namespace"], meta.get("name"))
    pods = [one for one in lists[kinds.POD.kind] if (one["metadata"]["namespace"], one["metadata"]["name"]) != own]
    return Listed({**lists, kinds.POD.kind: pods})


def judge_pod(profile: Profile, known: Listed, pod: Object, times: int = 1) -> list[dict[str, Any]]:
    """The answer for a pod, or for so many of its kind. Raises StateError for one that is on a node already."""
    rows = []
    for turn in range(times):
        info = PodInfo.from_manifest(_again(pod, turn))
        if info.node_name:
            raise StateError(f"pod {info.namespace}/{info.name} is on node {info.node_name} already: nothing to choose")
        rows.append(_judge_pod(profile, known, info))
    return rows


def _again(pod: Object, turn: int) -> Object:
    """The pod, or another one of its kind."""
    if not turn:
        return pod
    copy = deepcopy(dict(pod))
    copy["metadata"]["name"] = f"{copy['metadata'].get('name')}-again-{turn}"
    copy["metadata"]["uid"] = f"{copy['metadata'].get('uid', '')}-again-{turn}"
    return copy


def _judge_pod(profile: Profile, known: Listed, info: PodInfo) -> dict[str, Any]:
    snapshot, asked = known.snapshot, ask(known, info)
    row: dict[str, Any] = {"name": info.name, "namespace": info.namespace, "ordinal": None}
    if info.gates or asked.problem:
        gates = f"waits for its scheduling gates: {', '.join(info.gates)}"
        return {**row, **_nothing(asked.problem or gates)}
    node = asked.berth.node_name if asked.berth is not None else None
    kept = snapshot.set_aside(info.namespace, info.name)
    try:
        outcome = place(profile, snapshot, asked.request, explain=True, only_node=node)
        row.update(
            verdict(profile, snapshot, outcome, node),
            preemption=_instead(profile, snapshot, asked.request, outcome, node),
        )
    finally:
        snapshot.put_back(info.namespace, info.name, kept)
    if outcome.placement is not None:
        snapshot.assume(asked.request, outcome.placement)
    return row


def judge_app(profile: Profile, world: World, app: AppWanted, snapshot: Snapshot) -> list[dict[str, Any]]:
    """The answer for every replica of an app, as stateful_app would choose: disks that others chose come last.

    ``snapshot``: of that world; the replicas that find a place may be in it afterwards.
    """
    polite = choose.polite(world)
    if polite is not None:
        rows = _judge_app(profile, polite, app, choose.snapshot_of(polite))
        if all(row["fits"] for row in rows):
            return rows
    return _judge_app(profile, world, app, snapshot)


def _judge_app(profile: Profile, world: World, app: AppWanted, snapshot: Snapshot) -> list[dict[str, Any]]:
    rows = []
    records = {
        record["spec"]["ordinal"]: record
        for record in world.berths
        if (record["metadata"]["namespace"], record["spec"]["app"]) == (app.namespace, app.name)
    }
    for ordinal in range(app.replicas):
        row: dict[str, Any] = {"name": app.berth_name(ordinal), "namespace": app.namespace, "ordinal": ordinal}
        record = records.get(ordinal)
        if record is not None:  # it goes back to where it was, and is not scheduled
            node = record["spec"]["nodeName"]
            others = replace(world, berths=[one for one in world.berths if one is not record])
            outcome = choose.still_fits(app, others, record, profile)
            row.update(verdict(profile, snapshot, outcome, node), preemption=None)
        else:
            request = choose.request(app, ordinal)
            outcome = place(profile, snapshot, request, explain=True)
            row.update(
                verdict(profile, snapshot, outcome), preemption=_instead(profile, snapshot, request, outcome, None)
            )
            if outcome.placement is not None:
                snapshot.assume(request, outcome.placement)
        rows.append(row)
    return rows


# -- as a result of a module


def verdict(profile: Profile, snapshot: Snapshot, outcome: Outcome, berth_node: str | None = None) -> dict[str, Any]:
    """One answer as JSON. ``berth_node``: the node of the replica's own Berth, which alone was looked at."""
    diagnosis, placement = outcome.diagnosis, outcome.placement
    fits = placement is not None
    return {
        "fits": fits,
        "berth_node": berth_node,
        **_placed(placement),
        "best_nodes": _best(outcome) if fits else [],
        "message": "" if fits else diagnosis.message(),
        "hints": list(diagnosis.hints()),
        "nodes": dict(sorted({**_refused(diagnosis, snapshot), **_feasible(profile, outcome)}.items())),
        "local_disks": object_verdicts(diagnosis.disks),
        "local_devices": object_verdicts(diagnosis.devices),
    }


def _nothing(message: str) -> dict[str, Any]:
    """The answer for a pod that no scheduler looks at yet."""
    empty: dict[str, Any] = {"fits": False, "berth_node": None, **_placed(None), "best_nodes": [], "message": message}
    return {**empty, "hints": [], "nodes": {}, "local_disks": [], "local_devices": [], "preemption": None}


def _placed(placement: Placement | None) -> dict[str, Any]:
    if placement is None:
        return {"node": None, "disks": {}, "devices": {}, "volumes": {}}
    devices = {
        claim: [{"name": name, "shares": shares} for name, shares in given]
        for claim, given in sorted(placement.devices.items())
    }
    return {
        "node": placement.node,
        "disks": dict(placement.disks),
        "devices": devices,
        "volumes": dict(placement.volumes),
    }


def _best(outcome: Outcome) -> list[str]:
    """The nodes of the highest total; the first by name is the one that is taken."""
    if not outcome.scores:
        return sorted(outcome.feasible)
    highest = max(score.total for score in outcome.scores.values())
    return sorted(name for name, score in outcome.scores.items() if score.total == highest)


def _feasible(profile: Profile, outcome: Outcome) -> dict[str, Any]:
    weights = {scorer.name: scorer.weight for scorer in profile.scorers}
    nodes: dict[str, Any] = {
        name: {"fits": True, "total": 0, "scores": {}} for name in (outcome.feasible if outcome.placement else ())
    }
    for name, score in outcome.scores.items():
        scores = {
            plugin: {
                "raw": score.raw[plugin],
                "normalized": value,
                "weight": weights[plugin],
                "weighted": value * weights[plugin],
            }
            for plugin, value in score.plugins.items()
        }
        nodes[name] = {"fits": True, "total": score.total, "scores": scores}
    return nodes


def _refused(diagnosis: Diagnosis, snapshot: Snapshot) -> dict[str, Any]:
    if diagnosis.rejected:  # of the request as a whole: no node was asked
        said = {"fits": False, "plugin": diagnosis.rejected_by, "reasons": [diagnosis.rejected], "resolvable": False}
        return {name: dict(said) for name in snapshot.nodes.names}
    return {
        name: {"fits": False, "plugin": one.plugin, "reasons": list(one.reasons), "resolvable": one.resolvable}
        for name, one in diagnosis.nodes.items()
    }


def _instead(
    profile: Profile, snapshot: Snapshot, request: PlacementRequest, outcome: Outcome, node: str | None
) -> dict[str, Any] | None:
    """Who would have to go for it; None: nobody helps, or nobody has to."""
    if outcome.placement is not None or node is not None:
        return None
    found = post_filter(profile, snapshot, request, outcome.diagnosis)
    if not found.node:
        return None
    return {"node": found.node, "victims": [f"{pod.namespace}/{pod.name}" for pod in found.victims]}
