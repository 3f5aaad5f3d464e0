# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What in a cluster is not as it was declared, or has lost its other half: drift of disks and orphans in one list.

kubectl-berth and the report show it. The rules are those of drift.py and orphans.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..cluster.snapshot import Place
from ..model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, POD, PV, STATEFUL_SET
from . import orphans
from .disk_change import check_declared
from .drift import find_drift
from .overview import KINDS as OVERVIEW_KINDS
from .overview import Lists, snapshot_of

KINDS = (PV, *OVERVIEW_KINDS, STATEFUL_SET)
"""What has to be listed, in this order, pods that have ended among them: they keep their Berth from being an orphan."""

_ENDED = ("Succeeded", "Failed")


def living(lists: Lists) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The lists without the pods that have ended, as an overview wants them."""
    pods = [pod for pod in lists[POD.kind] if (pod.get("status") or {}).get("phase") not in _ENDED]
    return {**lists, POD.kind: pods}


def cluster_drift(
    lists: Lists,
    declared: Sequence[Mapping[str, Any]] | None = None,
    unreadable: Mapping[Place, str] | None = None,
) -> list[dict[str, Any]]:
    """Findings ``{kind, object, node, what}``, sorted; ``what`` is a list of sentences.

    ``declared``: disks as local_disk_plan returns them; LocalDisks of the nodes that it names are compared with it.
    Without it each LocalDisk is compared with what was seen of it. ``unreadable``: what a snapshot
    of the lists has left out, where the caller has one. Raises InputError.
    """
    disks = lists[LOCAL_DISK.kind]
    if declared is None:
        wanted: list[dict[str, Any]] = [{"name": disk["metadata"]["name"]} for disk in disks]
    else:
        wanted = check_declared(declared, "declared")
        nodes = {each.get("node_name") for each in declared}
        disks = [disk for disk in disks if disk["spec"]["nodeName"] in nodes]
    drift = find_drift(wanted, disks)
    found = [
        {"kind": kind, "object": f"LocalDisk {each['name']}", "node": each["node"], "what": each["what"]}
        for kind in ("missing", "extra", "changed", "unexpected_filesystem", "held_elsewhere")
        for each in drift[kind]
    ]
    found += [_orphan(one) for one in orphans.find(_holdings(lists))]
    found += _unreadable(snapshot_of(living(lists)).unreadable if unreadable is None else unreadable)
    return sorted(found, key=lambda one: (one["node"], one["object"], one["kind"], one["what"]))


def _unreadable(places: Mapping[Place, str]) -> list[dict[str, Any]]:
    return [
        {
            "kind": "unreadable",
            "object": f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}",
            "node": "",
            "what": [why, "it is left out, and what it may hold counts as taken"],
        }
        for (kind, namespace, name), why in places.items()
    ]


def _holdings(lists: Lists) -> orphans.Holdings:
    return orphans.Holdings(
        disks=lists[LOCAL_DISK.kind],
        devices=lists[LOCAL_DEVICE.kind],
        volumes=lists[PV.kind],
        berths=lists[BERTH.kind],
        workloads=frozenset(_named(lists[STATEFUL_SET.kind])),
        pods=frozenset(_named(lists[POD.kind])),
    )


def _named(objects: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(str(one["metadata"]["namespace"]), str(one["metadata"]["name"])) for one in objects]


def _orphan(one: orphans.Finding) -> dict[str, Any]:
    meta = one.about["metadata"]
    spec = one.about.get("spec") or {}
    about = one.resource.describe(meta["name"], meta.get("namespace"))
    return {"kind": one.reason, "object": about, "node": str(spec.get("nodeName") or ""), "what": [one.message]}
