# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation behind resource_list_info: one LIST per kind, a snapshot, a list to read. Never writes."""

from __future__ import annotations

from typing import Any

from ..berth_core.app.resource_list import resource_list
from ..berth_core.cluster.snapshot import Snapshot
from ..berth_core.errors import NotFoundError
from ..berth_core.model.names import check_names
from ..berth_core.model.resources import BERTH, LIVING, LOCAL_DEVICE, LOCAL_DISK, NODE, POD
from .base import Context, Operation
from .query import evaluate
from .unreadable import warn_of_unreadable


def run(context: Context) -> dict[str, Any]:
    params = context.params
    check_names(params["nodes"], "nodes")
    client = context.client
    selectors = ",".join(params["label_selectors"] or ())
    nodes = client.list(NODE, labels=selectors or None)
    names = {node["metadata"]["name"] for node in nodes}
    only = names & set(params["nodes"]) if params["nodes"] is not None else names
    if params["nodes"] is not None and not selectors:
        _refuse_unknown(params["nodes"], names)
    # Locks before berths, so that no lock is shown whose berth is not in the list yet.
    disks, devices = client.list(LOCAL_DISK), client.list(LOCAL_DEVICE)
    berths, pods = client.list(BERTH), client.list(POD, fields=LIVING)
    snapshot = Snapshot.from_objects(nodes=nodes, pods=pods, disks=disks, devices=devices, berths=berths)
    filtered = bool(selectors) or params["nodes"] is not None
    resources = resource_list(snapshot, only if filtered else None)
    warn_of_unreadable(context, snapshot.problems())
    result: dict[str, Any] = {"changed": False, "resources": resources}
    if params["query"]:
        result["result"] = evaluate(params["query"], resources)
    return result


def _refuse_unknown(wanted: list[str], known: set[str]) -> None:
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise NotFoundError(
            f"nodes: the cluster has no node {', '.join(unknown)}; it has {', '.join(sorted(known)[:20]) or 'none'}",
            404,
            "NotFound",
        )


OPERATION = Operation(
    name="resource_list_info",
    options={
        "nodes": {"type": "list", "elements": "str", "aliases": ["names"]},
        "label_selectors": {"type": "list", "elements": "str"},
        "query": {"type": "str"},
    },
    run=run,
)
