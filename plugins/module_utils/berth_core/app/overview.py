# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole cluster for readers: the resource list with the nodes' addresses, and a row for every Berth.

The inventory plugin, the lookup, the report and kubectl-berth show what is made of lists that they have read. Nothing
is decided and no rule added: what is free is what `resource_list` says. Everything is JSON-able, sorted by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..cluster.snapshot import PARTS, Snapshot
from ..lifecycle.view import recorded
from ..model.berth import CLAIM_APP
from ..model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, NODE, POD
from . import kept_data
from .resource_list import resource_list

Object = Mapping[str, Any]
Lists = Mapping[str, Sequence[Object]]
"""Objects by the name of their kind."""

KINDS = (NODE, LOCAL_DISK, LOCAL_DEVICE, BERTH, POD)
"""What has to be listed, in this order: locks before berths, so that no lock is shown whose berth is not there yet."""


def snapshot_of(lists: Lists) -> Snapshot:
    """The lists as the engine sees them."""
    return Snapshot.from_objects(**{PARTS[kind]: items for kind, items in lists.items() if kind in PARTS})


def overview(lists: Lists, whole: bool = True, snapshot: Snapshot | None = None) -> dict[str, Any]:
    """``{nodes, disks, devices, totals, berths}``; each node has ``ready`` and ``addresses`` (type -> address) too, and
    kept data (``retained_for``) since when (``since``).

    ``whole`` false: the lists hold some nodes only, and all else is restricted to them. ``snapshot``: of the lists,
    where the caller has it.
    """
    nodes = lists[NODE.kind]
    snapshot = snapshot_of(lists) if snapshot is None else snapshot
    only = None if whole else {str(node["metadata"]["name"]) for node in nodes}
    berths = [record for record in lists[BERTH.kind] if only is None or record["spec"].get("nodeName") in only]
    found = resource_list(snapshot, only)
    objects = {str(disk["metadata"]["name"]): disk for disk in lists[LOCAL_DISK.kind]}
    for entry in kept_data.kept(found["disks"]):
        entry["retained_for"]["since"] = kept_data.since(objects[entry["name"]])
    return shown(found, nodes, berths)


def shown(found: dict[str, Any], nodes: Sequence[Object], berths: Iterable[Object]) -> dict[str, Any]:
    """The same of a resource list that is there already, which is filled in."""
    named = {str(node["metadata"]["name"]): node for node in nodes}
    for entry in found["nodes"]:
        status = named.get(entry["name"], {}).get("status") or {}
        entry.update(ready=_ready(status), addresses=_addresses(status))
    rows = map(berth_row, berths)
    return {**found, "berths": sorted(rows, key=lambda row: (row["namespace"], row["app"], row["ordinal"]))}


def berth_row(record: Object) -> dict[str, Any]:
    """One Berth: whose it is, where, what it holds, and how far it has come by its own record."""
    meta, spec, status = record["metadata"], record["spec"], record.get("status") or {}
    return {
        "namespace": str(meta["namespace"]),
        "name": str(meta["name"]),
        "app": str(spec["app"]),
        "ordinal": int(spec["ordinal"]),
        "node": str(spec.get("nodeName") or ""),
        "disks": [{"claim": one["claim"], "name": one["name"]} for one in spec.get("disks") or ()],
        "devices": [
            {"claim": one["claim"], "name": one["name"], "shares": one["shares"]} for one in spec.get("devices") or ()
        ],
        "phase": recorded(record),
        "pod": status.get("podName"),
        "workload": status.get("workload"),
    }


def pod_text(row: Mapping[str, Any]) -> str:
    """The pod of a Berth's row, for people: ``pg-1 (StatefulSet pg)``; empty while none is known."""
    pod, workload = row["pod"] or "", row["workload"]
    return f"{pod} ({workload})" if pod and workload else str(pod)


def spoken(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """What people call the holder of a disk, by namespace and name of its Berth, where that is no name for people.

    The Berth of a claim without an app has the claim's uid in its name: it is called by its pod, or by its claim.
    """
    return {
        (row["namespace"], row["name"]): pod_text(row) or row["app"]
        for row in rows
        if str(row["app"]).startswith(CLAIM_APP)
    }


def by_node(entries: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Entries of disks, devices or berths, by the ``node`` that each names."""
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        found.setdefault(entry["node"], []).append(entry)
    return found


def _ready(status: Object) -> bool:
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())


def _addresses(status: Object) -> dict[str, str]:
    """The first address of each type, as the kubelet put them in order."""
    found: dict[str, str] = {}
    for one in status.get("addresses") or ():
        found.setdefault(str(one["type"]), str(one["address"]))
    return found
