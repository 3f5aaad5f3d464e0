# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disk for a claim: the smallest free one that fits; where the claim's own data is, that disk and no other.

Called by the controller for claims without an app. Ties go to the node, then to the disk, whose name sorts first. The
claims of one pod that wait for the same node are decided together, so that none is bound where the others find nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import UnschedulableError
from ..model.disk import Condition, LocalDisk, condition_of
from ..model.fields import mapping, objects
from ..model.quantity import format_bytes
from ..model.taint import parse_taints, untolerated
from ..model.tenant import UNKNOWN, Tenant, how_to_free
from ..plugins.assignment import assign_disks
from . import next_commands
from .claims import Asked, app_name, volume_label

_WORDS = {
    Condition.RESERVED: "reserved",
    Condition.PENDING: "not ready (not observed yet, or something unknown is on it)",
    Condition.FAULTED: "Faulted",
    Condition.MISSING: "Missing",
    Condition.UNHEALTHY: "unhealthy",
    Condition.TERMINATING: "being deleted",
    Condition.IN_USE: "in use without a lock",
    Condition.WIPING: "to be wiped",
    Condition.CORDONED: "cordoned",
    Condition.STALE: "not looked at since the lock went",
    Condition.VOLUME_LEFT: "below a PersistentVolume whose lock is gone",
}
#: Disks of earlier tenants that one message names.
_TOLD = 2


class Place(NamedTuple):
    """A node as claims see it. ``problem``: why nothing new is put there unasked; empty where all is well."""

    hostname: str
    problem: str


def place_of(node: Mapping[str, Any]) -> Place:
    """Read a Node of the API. Raises InputError."""
    meta, spec = mapping(node, "metadata"), mapping(node, "spec")
    hostname = str(mapping(meta, "labels").get("kubernetes.io/hostname") or meta.get("name"))
    return Place(hostname, _node_problem(node, spec))


def _node_problem(node: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    if spec.get("unschedulable"):
        return "cordoned"
    conditions = objects(mapping(node, "status"), "conditions")
    if not any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return "not Ready"
    return "tainted" if untolerated(parse_taints(spec, "spec.taints"), ()) else ""


def words(condition: Condition) -> str:
    """What a disk is in that condition, for people."""
    return _WORDS.get(condition, condition.name.lower())


def not_free(disk: LocalDisk) -> str:
    """Why a disk cannot be given to a claim that has nothing on it; empty where it can."""
    if disk.claim_ref is not None:
        return "held"
    condition = condition_of(disk)
    if condition == Condition.VOLUME_LEFT:
        return f"below PersistentVolume {disk.volume}, whose lock is gone"
    if condition != Condition.GOOD:
        return words(condition)
    return f"with retained data of {disk.retained_for}" if disk.retained_for is not None else ""


def named_disks(asked: Asked, disks: Iterable[LocalDisk]) -> list[LocalDisk]:
    """Disks with data under the claim's own names, whoever's it is, by name."""
    claim = asked.claim
    wanted = (claim.namespace, app_name(claim.name), 0, volume_label(claim.name))
    found = [
        disk
        for disk in disks
        if (kept := disk.retained_for) is not None and (kept.namespace, kept.app, kept.ordinal, kept.claim) == wanted
    ]
    return sorted(found, key=lambda disk: disk.name)


def own_disks(asked: Asked, disks: Iterable[LocalDisk], tenant: Tenant) -> list[LocalDisk]:
    """Disks with the data that an earlier claim of that name left in this very namespace, by name.

    ``tenant``: of the claim's namespace. Of an ephemeral volume it is the data of this very pod alone.
    """
    tenant = tenant._replace(pod_uid=asked.claim.pod_uid)
    return [disk for disk in named_disks(asked, disks) if tenant.may_have(disk.tenant)]


def choose(
    asked: Asked,
    disks: Collection[LocalDisk],
    places: Mapping[str, Place],
    taken: Collection[str] = (),
    siblings: Sequence[Asked] = (),
    tenant: Tenant = UNKNOWN,
) -> LocalDisk:
    """The disk for this claim. Raises UnschedulableError that counts what speaks against the others.

    ``taken``: disks that other berths have written down. ``siblings``: the pod's other claims that wait for this node.
    ``tenant``: of the claim's namespace; it need not be known where no disk has data under the claim's names.
    """
    own = own_disks(asked, disks, tenant)
    if own:
        return _own(asked, own)
    mine = _fitting(asked, disks, places, taken)
    if not mine:
        text = _nothing(asked, disks, places, taken) + _of_namesakes(asked, disks, tenant)
        raise UnschedulableError(text, claim=asked.key)
    if not siblings:
        return mine[0]
    return _together(asked, [_fitting(one, disks, places, taken) for one in siblings], siblings, mine)


def _own(asked: Asked, own: Sequence[LocalDisk]) -> LocalDisk:
    for disk in own:
        if condition_of(disk) == Condition.GOOD and not unfit(asked, disk):
            return disk
    why = "; ".join(f"LocalDisk {disk.name} on node {disk.node_name}: {_own_problem(asked, disk)}" for disk in own)
    commands = " ; ".join(next_commands.give_data_up(disk.name) for disk in own)
    raise UnschedulableError(
        f"the data of claim {asked.key} is on a disk that cannot be used ({why}). It is given no other one: mend the "
        f"disk; or put another one in its place: {next_commands.replace_disk(own[0].name)} ; "
        f"or give that data up: {commands} ; or name the new claim differently",
        claim=asked.key,
    )


def _own_problem(asked: Asked, disk: LocalDisk) -> str:
    condition = condition_of(disk)
    return unfit(asked, disk) if condition == Condition.GOOD else words(condition)


def _fitting(
    asked: Asked, disks: Iterable[LocalDisk], places: Mapping[str, Place], taken: Collection[str]
) -> list[LocalDisk]:
    """Free disks that fit, the smallest first."""
    found = [disk for disk in disks if not _problem(asked, disk, places, taken)]
    return sorted(found, key=lambda disk: (disk.size, disk.node_name, disk.name))


def _problem(asked: Asked, disk: LocalDisk, places: Mapping[str, Place], taken: Collection[str]) -> str:
    return (
        _elsewhere(asked, disk, places)
        or unfit(asked, disk)
        or not_free(disk)
        or ("chosen for another claim" if disk.name in taken else "")
    )


def _elsewhere(asked: Asked, disk: LocalDisk, places: Mapping[str, Place]) -> str:
    place = places.get(disk.node_name)
    if asked.node is not None:
        if disk.node_name != asked.node:
            return "on another node"
        return "" if place else "on a node that is gone"
    if place is None:
        return "on a node that is gone"
    return f"on a node that is {place.problem}" if place.problem else ""


def unfit(asked: Asked, disk: LocalDisk) -> str:
    """Why a disk is not what the claim asks for, whoever has it; empty where it is."""
    claim = asked.claim
    if disk.storage_class != claim.storage_class:
        return "of another class"
    if disk.volume_mode != claim.volume_mode:
        return "of another volumeMode"
    if claim.selector is not None and not claim.selector.matches(dict(disk.labels)):
        return "not selected by label"
    return "too small" if disk.size < claim.request else ""


def _nothing(asked: Asked, disks: Iterable[LocalDisk], places: Mapping[str, Place], taken: Collection[str]) -> str:
    of_class = [disk for disk in disks if disk.storage_class == asked.claim.storage_class]
    here = [disk for disk in of_class if asked.node is None or disk.node_name == asked.node]
    where = "the cluster" if asked.node is None else f"node {asked.node}"
    wanted = f"{format_bytes(asked.claim.request)}, {asked.claim.volume_mode}, class {asked.claim.storage_class}"
    if not here:
        return f"{where} has no LocalDisk of class {asked.claim.storage_class} (wanted: {wanted})"
    reasons = Counter(_counted(_problem(asked, disk, places, taken)) for disk in here)
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return f"none of the {len(here)} LocalDisks of {where} can be given to this claim ({wanted}): {counts}"


def _of_namesakes(asked: Asked, disks: Iterable[LocalDisk], tenant: Tenant) -> str:
    """What is said of data under the claim's own names that is not its own, with the way out."""
    tenant = tenant._replace(pod_uid=asked.claim.pod_uid)
    told = [
        f". LocalDisk {disk.name} keeps the data of {disk.retained_for} {tenant.difference(disk.tenant)}; where nobody "
        f"needs it: {how_to_free(disk.name)}"
        for disk in named_disks(asked, disks)[:_TOLD]
    ]
    return "".join(told)


def _counted(reason: str) -> str:
    return "with retained data" if reason.startswith("with retained data") else reason


def _together(
    asked: Asked, others: Sequence[Sequence[LocalDisk]], siblings: Sequence[Asked], mine: Sequence[LocalDisk]
) -> LocalDisk:
    """The disk of this claim in the assignment of all claims of the pod."""
    claims = [(asked, mine), *zip(siblings, others)]
    claims.sort(key=lambda one: (one[0].claim.request, one[0].claim.name))
    every = {disk.name: disk for _one, listed in claims for disk in listed}
    order = sorted(every.values(), key=lambda disk: (disk.size, disk.name))
    at = {disk.name: position for position, disk in enumerate(order)}
    given = assign_disks([[at[disk.name] for disk in listed] for _one, listed in claims])
    if given is None:
        names = ", ".join(sorted(one.claim.name for one, _listed in claims))
        raise UnschedulableError(
            f"node {asked.node} has no free LocalDisks for all claims of the pod together ({names})", claim=asked.key
        )
    index = next(number for number, (one, _listed) in enumerate(claims) if one is asked)
    return order[given[index]]
