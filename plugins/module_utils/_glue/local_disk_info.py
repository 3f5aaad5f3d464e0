# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module local_disk_info: LocalDisks as the cluster has them, and their drift from what is declared. One LIST.

Called by plugins/modules/local_disk_info.py and plugins/action/local_disk_info.py. Drift: berth_core.app.drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.app.disk_change import check_declared
from ..berth_core.app.disk_record import check_record
from ..berth_core.app.drift import find_drift
from ..berth_core.app.phase import PHASES
from ..berth_core.errors import StateError
from ..berth_core.model.names import check_names, check_subdomain
from .base import Context, Operation
from .disk_options import DISK
from .local_disk import readable
from .local_disk_list import list_disks
from .query import evaluate


def run(context: Context) -> dict[str, Any]:
    """List, filter, compare."""
    params = context.params
    declared = _declared(params)
    disks = list_disks(context, labels=_labels(params["label_selectors"]), fields=_fields(params))
    disks = sorted(
        (readable(disk) for disk in disks if _wanted(disk, params)), key=lambda disk: disk["metadata"]["name"]
    )
    result: dict[str, Any] = {"changed": False, "local_disks": disks}
    if declared is not None:
        result["drift"] = find_drift(declared, _same_nodes(disks, params))
        if result["drift"]["any"] and params["fail_on_drift"]:
            told = "; ".join(result["drift"]["text"])
            raise StateError(f"declared and observed disks differ: {told}", drift=result["drift"])
    if params["query"]:
        result["result"] = evaluate(params["query"], disks)
    return result


def _declared(params: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The declared disks with their names. Raises InputError, before anybody is asked, for what names no object."""
    check_names(params["names"], "names")
    for option in ("node_name", "storage_class"):
        if params[option]:
            check_subdomain(params[option], option)
    if params["declared"] is None:
        return None
    named = check_declared(params["declared"], "declared")
    for each in named:
        if each.get("observed"):
            check_record(each["observed"], f"LocalDisk {each['name']}: observed")
    return named


def _fields(params: Mapping[str, Any]) -> str | None:
    """What the API server can filter by itself."""
    wanted = {
        "metadata.name": _single(params["names"]),
        "spec.nodeName": params["node_name"],
        "spec.storageClassName": params["storage_class"],
        "status.phase": params["phase"],
    }
    return ",".join(f"{field}={value}" for field, value in wanted.items() if value) or None


def _single(names: list[str] | None) -> str:
    return names[0] if names is not None and len(names) == 1 else ""


def _labels(selectors: list[str] | None) -> str | None:
    return ",".join(selectors) if selectors else None


def _wanted(disk: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    return params["names"] is None or disk["metadata"]["name"] in params["names"]


def _same_nodes(disks: list[dict[str, Any]], params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of nodes for which nothing is declared nothing is drift, unless the caller named the node."""
    nodes = {each.get("node_name") for each in params["declared"]} | {params["node_name"]}
    return [disk for disk in disks if disk["spec"]["nodeName"] in nodes]


OPERATION = Operation(
    name="local_disk_info",
    options={
        "names": {"type": "list", "elements": "str", "aliases": ["name"]},
        "node_name": {"type": "str"},
        "storage_class": {"type": "str"},
        "phase": {"type": "str", "choices": list(PHASES)},
        "label_selectors": {"type": "list", "elements": "str"},
        "query": {"type": "str"},
        "declared": {"type": "list", "elements": "dict", "options": DISK},
        "fail_on_drift": {"type": "bool", "default": False},
    },
    run=run,
    # What a filter hides would look as if it were missing.
    mutually_exclusive=tuple(
        ("declared", filter_) for filter_ in ("names", "storage_class", "phase", "label_selectors")
    ),
)
