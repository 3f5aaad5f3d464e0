# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select node and select resource for the replicas that need a berth, and the check that a choice still holds.

Two runs may choose at once. Disks and devices are decided by the compare-and-swap of their locks. A node's room (cpu,
memory, ports) has no object to swap, so it is decided by order: every run writes its berths down first, then reads all
berths again; what was written earlier counts, what was written later does not (`still_fits`). Of two runs at least the
later one sees both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..cluster.snapshot import Snapshot
from ..errors import UnschedulableError
from ..framework.cycle import Outcome, place
from ..framework.profile import Profile
from ..lifecycle import states
from ..lifecycle.locks import unlock_device, unlock_disk
from ..lifecycle.view import recorded
from ..model.labels import LabelSelector
from ..model.placement import DeviceClaim, DiskClaim, Holder, Placement, PlacementRequest
from ..plugins.table import DEFAULT_PROFILE
from . import manifests
from .observed import Object
from .wanted import AppWanted


@dataclass(frozen=True)
class World:
    """The lists that a choice is made from. ``disks`` and ``devices`` were read before ``berths``: a lock whose berth
    is not among them is therefore stale for certain. ``namespaces``: the app's own, which tells whose kept data is the
    app's; without it no data is that says of which namespace it is."""

    nodes: Sequence[Object]
    pods: Sequence[Object]
    disks: Sequence[Object]
    devices: Sequence[Object]
    berths: Sequence[Object]
    volumes: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    storage_classes: Sequence[Object] = ()
    namespaces: Sequence[Object] = ()


@dataclass(frozen=True)
class Choice:
    """Where one replica goes. ``disks``: claim -> LocalDisk; ``devices``: (claim, LocalDevice, shares).

    ``left_out``: what of the cluster could not be read, and counted as taken. ``volumes``: none; see replica.Place.
    """

    ordinal: int
    node: str
    disks: Mapping[str, str]
    devices: tuple[tuple[str, str, int], ...]
    outcome: Outcome
    left_out: tuple[str, ...] = ()
    volumes: Mapping[str, str] = field(default_factory=dict)


def request(app: AppWanted, ordinal: int) -> PlacementRequest:
    """One replica, as the scheduling cycle takes it."""
    disks = tuple(
        DiskClaim(
            disk.name,
            disk.size,
            disk.storage_class,
            disk.volume_mode,
            disk.fs_type,
            LabelSelector.parse(disk.selector) if disk.selector else None,
            disk.disk_names,
        )
        for disk in app.disks
    )
    devices = tuple(
        DeviceClaim(device.name, device.device_class, device.count, 1000 if device.share is None else device.share)
        for device in app.devices
    )
    return PlacementRequest(
        manifests.scheduling_pod(app, ordinal), disks, devices, Holder(app.namespace, app.name, ordinal)
    )


def choose(app: AppWanted, world: World, ordinals: Sequence[int], explain: bool = False) -> list[Choice]:
    """A place for every ordinal, all of them or none. Raises UnschedulableError that names the first that finds none.

    Disks that another run has written down and not locked yet are left to it while there are others.
    """
    without = polite(world)
    if without is not None:
        try:
            return _choose(app, without, ordinals, explain)
        except UnschedulableError:
            pass
    return _choose(app, world, ordinals, explain)


def polite(world: World) -> World | None:
    """The world without the disks that somebody has written down and not locked yet; None where there are none."""
    spoken_for = {
        disk["name"]
        for record in world.berths
        if recorded(record) == states.SELECTED
        for disk in record["spec"].get("disks") or ()
    }
    if not spoken_for:
        return None
    return without_disks(world, spoken_for)


def without_disks(world: World, names: Collection[str]) -> World:
    """The world in which nothing can go to these disks, nor has data there to go to."""
    return replace(world, disks=[disk for disk in world.disks if disk["metadata"]["name"] not in names])


def _choose(app: AppWanted, world: World, ordinals: Sequence[int], explain: bool) -> list[Choice]:
    snapshot = snapshot_of(world)
    choices: list[Choice] = []
    for ordinal in ordinals:
        wanted = request(app, ordinal)
        outcome = place(DEFAULT_PROFILE, snapshot, wanted, explain=explain)
        if outcome.placement is None:
            raise _unschedulable(app, ordinal, outcome, choices, snapshot.problems())
        snapshot.assume(wanted, outcome.placement)
        choices.append(replace(_choice(ordinal, outcome, outcome.placement), left_out=tuple(snapshot.problems())))
    return choices


def without_nodes(world: World, names: Sequence[str]) -> World:
    """The world in which nothing can go to these nodes, nor has data there to go to."""
    if not names:
        return world
    return replace(
        world,
        nodes=[node for node in world.nodes if node["metadata"]["name"] not in names],
        disks=[disk for disk in world.disks if disk["spec"]["nodeName"] not in names],
    )


def snapshot_of(world: World) -> Snapshot:
    """The lists as the engine sees them."""
    return Snapshot.from_objects(
        nodes=world.nodes,
        pods=world.pods,
        disks=world.disks,
        devices=world.devices,
        berths=world.berths,
        pvs=world.volumes,
        pvcs=world.claims,
        storage_classes=world.storage_classes,
        namespaces=world.namespaces,
    )


def _choice(ordinal: int, outcome: Outcome, placement: Placement) -> Choice:
    devices = tuple(
        (claim, name, shares) for claim, given in sorted(placement.devices.items()) for name, shares in given
    )
    return Choice(ordinal, placement.node, dict(placement.disks), devices, outcome)


def _unschedulable(
    app: AppWanted, ordinal: int, outcome: Outcome, placed: Sequence[Choice], left_out: Sequence[str]
) -> UnschedulableError:
    text = f"replica {app.namespace}/{app.berth_name(ordinal)} does not fit: {outcome.diagnosis.message()}"
    if placed:
        already = ", ".join(f"{app.berth_name(choice.ordinal)} on {choice.node}" for choice in placed)
        text += f" (Before it, of the same app: {already}.)"
    hints = [*outcome.diagnosis.hints(), *map(counts_as_taken, left_out)]
    return UnschedulableError(text, ordinal=ordinal, explanation=explain(outcome), hints=hints)


def counts_as_taken(problem: str) -> str:
    """What a user is told of an object that could not be read."""
    return f"{problem} (It is left out, and what it may hold counts as taken: mend or delete it.)"


def still_fits(app: AppWanted, world: World, record: Object, profile: Profile = DEFAULT_PROFILE) -> Outcome:
    """Whether a berth that was written down fits its node beside everything that counts before it.

    Its own locks are taken for free; its outcome has a placement, or the diagnosis of its one node.
    """
    meta, spec = record["metadata"], record["spec"]
    others = [other for other in world.berths if other["metadata"]["uid"] != meta["uid"] and _earlier(other, record)]
    disks = [unlock_disk(disk, meta["uid"], keep_data=True) or disk for disk in world.disks]
    devices = [unlock_device(device, meta["uid"]) or device for device in world.devices]
    pods = [
        pod
        for pod in world.pods
        if (pod["metadata"]["namespace"], pod["metadata"]["name"]) != (app.namespace, meta["name"])
    ]
    snapshot = snapshot_of(replace(world, berths=others, disks=disks, devices=devices, pods=pods))
    wanted = request(app, spec["ordinal"])
    pins = {disk["claim"]: (disk["name"],) for disk in spec.get("disks") or ()}
    pinned = replace(
        wanted, disks=tuple(replace(disk, disk_names=pins[disk.name]) for disk in wanted.disks if disk.name in pins)
    )
    return place(profile, snapshot, pinned, only_node=spec["nodeName"])


def _earlier(other: Object, record: Object) -> bool:
    """Whether ``other`` counts before ``record``: it is Reserved already, or it was written first.

    A berth that is only Selected was not written since its creation, so its resourceVersion is the creation's place
    in the order.
    """
    if recorded(other) != states.SELECTED:
        return True
    return int(other["metadata"]["resourceVersion"]) < int(record["metadata"]["resourceVersion"])


def unknown_storage_classes(app: AppWanted, world: World) -> list[str]:
    """Classes that the app asks for and the cluster has neither as a StorageClass nor on any LocalDisk."""
    known = {item["metadata"]["name"] for item in world.storage_classes}
    return sorted({disk.storage_class for disk in app.disks if disk.storage_class} - known)


def explain(outcome: Outcome) -> dict[str, Any]:
    """Every verdict and score of one choice, as JSON: nodes, disks and devices by claim, and what it cost."""
    nodes: dict[str, Any] = {name: {"fits": True} for name in outcome.feasible}
    for name, verdict in outcome.diagnosis.nodes.items():
        nodes[name] = {"fits": False, "plugin": verdict.plugin, "reasons": list(verdict.reasons)}
    for name, score in outcome.scores.items():
        nodes[name].update(
            score=int(score.total), scores={plugin: int(value) for plugin, value in score.plugins.items()}
        )
    counts = {
        "filter_calls": outcome.counts.filter_calls,
        "score_calls": outcome.counts.score_calls,
        "nodes": list(outcome.counts.nodes),
    }
    return {
        "node": outcome.placement.node if outcome.placement else None,
        "nodes": dict(sorted(nodes.items())),
        "disks": object_verdicts(outcome.diagnosis.disks),
        "devices": object_verdicts(outcome.diagnosis.devices),
        "counts": counts,
    }


def object_verdicts(verdicts: Sequence[Any]) -> list[dict[str, Any]]:
    """Verdicts on disks or devices, as JSON."""
    return [
        {
            "claim": one.claim,
            "name": one.name,
            "node": one.node,
            "fits": one.fits,
            "reason": one.reason,
            "detail": one.detail,
        }
        for one in verdicts
    ]
