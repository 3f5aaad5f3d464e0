# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource list for people and playbooks: what every node has, less what is given out, and who holds it.

Shown by the module resource_list_info. Nothing is decided here: what is free is what the tables of the engine
say, so that the list and the next placement never disagree.

Units: cpu in thousandths of a core, memory and storage in bytes, device shares in thousandths of a device, all else
counted. Everything is sorted by name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..cluster.devices import device_problem
from ..cluster.snapshot import Snapshot
from ..model.device import LocalDevice
from ..model.disk import Condition, LocalDisk, condition_of


def resource_list(snapshot: Snapshot, only: Collection[str] | None = None) -> dict[str, Any]:
    """Return ``{nodes, disks, devices, totals, unreadable}``, JSON-able.

    ``only``: restrict it to these nodes. ``unreadable``, of the whole cluster: what is in no other list because
    it cannot be read.
    """
    names = sorted(snapshot.disks.slot_of)
    disks = [snapshot.disks.disks[snapshot.disks.slot_of[name]] for name in names]
    shown = [disk_entry(disk) for disk in disks if disk is not None and (only is None or disk.node_name in only)]
    devices = [
        device_entry(device)
        for _name, device in sorted(snapshot.devices.devices.items())
        if only is None or device.node_name in only
    ]
    rows = [row for row, name in enumerate(snapshot.nodes.names) if only is None or name in only]
    here = _by_node(snapshot, shown, devices)
    nodes = [_node_entry(snapshot, row, here.get(snapshot.nodes.names[row], _Here())) for row in rows]
    return {
        "nodes": nodes,
        "disks": shown,
        "devices": devices,
        "totals": _totals(nodes, shown, devices),
        "unreadable": unreadable(snapshot),
    }


def unreadable(snapshot: Snapshot) -> list[dict[str, str]]:
    """``{kind, namespace, name, why}`` of each object that was left out, sorted."""
    return [
        {"kind": kind, "namespace": namespace, "name": name, "why": why}
        for (kind, namespace, name), why in sorted(snapshot.unreadable.items())
    ]


def disk_entry(disk: LocalDisk) -> dict[str, Any]:
    """One LocalDisk: what it is, whether it is free, why not, and who holds it or whose data is on it."""
    why = why_disk_is_not_free(disk)
    holder, kept = disk.claim_ref, disk.retained_for
    return {
        "name": disk.name,
        "node": disk.node_name,
        "identity": {
            key: value
            for key, value in (("wwn", disk.wwn), ("serial", disk.serial), ("by_path", disk.by_path))
            if value
        },
        "size": disk.size,
        "storage_class": disk.storage_class,
        "volume_mode": disk.volume_mode,
        "fs_type": disk.fs_type or None,
        "rotational": disk.rotational,
        "labels": dict(disk.labels),
        "phase": disk.phase or "Pending",
        "health": disk.health or None,
        "free": why is None,
        "why_not_free": why,
        "holder": holder
        and {
            "namespace": holder.namespace,
            "berth": holder.name,
            "app": holder.app,
            "ordinal": holder.ordinal,
            "claim": holder.claim,
        },
        "retained_for": kept
        and {
            "namespace": kept.namespace,
            "app": kept.app,
            "ordinal": kept.ordinal,
            "claim": kept.claim,
            "data_uid": kept.data_uid,
            "namespace_uid": kept.tenant.namespace_uid or None,
            "pod_uid": kept.tenant.pod_uid or None,
        },
    }


def why_disk_is_not_free(disk: LocalDisk) -> str | None:
    """One word: held, retained, or what is wrong with the disk by itself; None for a disk that any berth can have."""
    if disk.claim_ref is not None:
        return "held"
    condition = condition_of(disk)
    if condition != Condition.GOOD:
        return condition.name.lower()
    return "retained" if disk.retained_for is not None else None


def device_entry(device: LocalDevice) -> dict[str, Any]:
    """One LocalDevice and the shares of it that are free."""
    left = device.shares - sum(ref.shares for ref in device.claim_refs)
    why = device_problem(device) or ("is given out" if left <= 0 else None)
    return {
        "name": device.name,
        "node": device.node_name,
        "device_class": device.device_class,
        "uuid": device.uuid,
        "shares": device.shares,
        "free_shares": 0 if why else left,
        "memory": device.memory,
        "labels": dict(device.labels),
        "phase": device.phase or "Pending",
        "health": device.health or None,
        "free": why is None,
        "why_not_free": why,
        "holders": [
            {"namespace": ref.namespace, "berth": ref.name, "claim": ref.claim, "shares": ref.shares}
            for ref in sorted(device.claim_refs, key=lambda ref: (ref.namespace, ref.name, ref.claim))
        ],
    }


class _Here:
    """What is on one node."""

    def __init__(self) -> None:
        self.disks: list[dict[str, Any]] = []
        self.devices: list[dict[str, Any]] = []
        self.berths: list[str] = []


def _by_node(snapshot: Snapshot, disks: list[dict[str, Any]], devices: list[dict[str, Any]]) -> dict[str, _Here]:
    """Looked at once each, for a cluster has thousands of nodes."""
    found: dict[str, _Here] = {}
    for disk in disks:
        found.setdefault(disk["node"], _Here()).disks.append(disk)
    for device in devices:
        found.setdefault(device["node"], _Here()).devices.append(device)
    for record in snapshot.berths.values():
        found.setdefault(record.node_name, _Here()).berths.append(f"{record.namespace}/{record.name}")
    return found


def _node_entry(snapshot: Snapshot, row: int, here: _Here) -> dict[str, Any]:
    table, name = snapshot.nodes, snapshot.nodes.names[row]
    info = table.infos[row]
    allocatable = {key: int(column[row]) for key, column in sorted(table.allocatable.items())}
    requested = {key: int(column[row]) for key, column in sorted(table.requested.items())}
    keys = [key for key in sorted({*allocatable, *requested}) if allocatable.get(key) or requested.get(key)]
    return {
        "name": name,
        "schedulable": not info.unschedulable,
        "taints": [str(taint) for taint in info.taints],
        "labels": dict(info.labels),
        "allocatable": {key: allocatable.get(key, 0) for key in keys},
        "requested": {key: requested.get(key, 0) for key in keys},
        "free": {key: allocatable.get(key, 0) - requested.get(key, 0) for key in keys},
        "disks": disk_counts(here.disks),
        "devices": device_counts(here.devices),
        "berths": sorted(here.berths),
    }


def disk_counts(disks: list[dict[str, Any]]) -> dict[str, int]:
    """How many disks, and bytes, there are and are free."""
    free = [disk for disk in disks if disk["free"]]
    return {
        "total": len(disks),
        "free": len(free),
        "held": sum(disk["why_not_free"] == "held" for disk in disks),
        "retained": sum(disk["why_not_free"] == "retained" for disk in disks),
        "bytes": sum(disk["size"] for disk in disks),
        "free_bytes": sum(disk["size"] for disk in free),
    }


def device_counts(devices: list[dict[str, Any]]) -> dict[str, int]:
    """How many devices, and shares of devices, there are and are free."""
    return {
        "total": len(devices),
        "free": sum(device["free"] for device in devices),
        "shares": sum(device["shares"] for device in devices),
        "free_shares": sum(device["free_shares"] for device in devices),
    }


def _totals(nodes: list[dict[str, Any]], disks: list[dict[str, Any]], devices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "nodes": len(nodes),
        "schedulable_nodes": sum(node["schedulable"] for node in nodes),
        "disks": disk_counts(disks),
        "devices": device_counts(devices),
    }
