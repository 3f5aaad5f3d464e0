# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is held against the world before a choice, and the world as it is when the plan has given up its share. Pure."""

from __future__ import annotations

from dataclasses import replace

from ..errors import InputError, UnschedulableError
from ..lifecycle.locks import unlock_device, unlock_disk
from . import choose
from .choose import World
from .observed import Object, Observed
from .plan import Plan
from .wanted import AppWanted


def check_world(app: AppWanted, world: World) -> None:
    """Raises InputError for a StorageClass or a namespace that is not there."""
    unknown = choose.unknown_storage_classes(app, world)
    if unknown:
        known = ", ".join(sorted(item["metadata"]["name"] for item in world.storage_classes)) or "none"
        raise InputError(f"StorageClass {', '.join(unknown)} does not exist; the cluster has: {known}")
    if not world.namespaces:
        raise InputError(f"namespace {app.namespace} does not exist; create it first")


def check_grown(app: AppWanted, world: World, record: Object) -> None:
    """An existing berth whose replica will ask for something else than is written down must still fit its node."""
    others = [other for other in world.berths if other["metadata"]["uid"] != record["metadata"]["uid"]]
    outcome = choose.still_fits(app, replace(world, berths=others), record)
    if outcome.placement is None:
        raise UnschedulableError(
            f"the new template of {app.namespace}/{record['metadata']['name']} does not fit its node "
            f"{record['spec']['nodeName']}: {outcome.diagnosis.message()} Its data is there, so it is not moved.",
            ordinal=record["spec"]["ordinal"],
            explanation=choose.explain(outcome),
        )


def without_discards(world: World, seen: Observed, plan: Plan) -> World:
    """The world as it will be when this run has given up what it is going to give up."""
    going = {seen.berths[ordinal]["metadata"]["uid"] for ordinal in (*plan.discard, *plan.release)}
    going |= {disk["spec"]["claimRef"]["uid"] for disk in seen.stale_disks()}
    going |= {uid for _device, uid in seen.stale_devices()}
    disks, devices = list(world.disks), list(world.devices)
    for uid in going:
        disks = [unlock_disk(disk, uid, keep_data=True) or disk for disk in disks]
        devices = [unlock_device(device, uid) or device for device in devices]
    berths = [record for record in world.berths if record["metadata"]["uid"] not in going]
    return replace(world, disks=disks, devices=devices, berths=berths)
