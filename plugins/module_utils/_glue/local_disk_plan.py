# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module local_disk_plan: what the inventory of one host means for its LocalDisks. One LIST, nothing is written.

Called by plugins/modules/local_disk_plan.py and plugins/action/local_disk_plan.py. Everything is decided in
berth_core.app.disk_plan.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app.disk_plan import Plan, Row, plan_disks
from ..berth_core.app.disk_record import check_records
from ..berth_core.errors import InputError
from ..berth_core.model.names import check_subdomain
from ..berth_core.model.quantity import format_bytes
from .base import Context, Operation
from .disk_options import DECLARED, SELECTOR
from .local_disk_list import list_disks
from .query import evaluate

_HEADINGS = ("ACTION", "LOCALDISK", "DEVICE", "SIZE", "FROM", "WHY")


def run(context: Context) -> dict[str, Any]:
    """Make the plan; entries that are refused fail the module, all at once."""
    params = context.params
    node = params["node_name"]
    check_subdomain(node, "node_name")
    check_records(params["block_devices"], "block_devices")
    existing = list_disks(context, fields=f"spec.nodeName={node}")
    plan = plan_disks(
        node,
        params["disks"] or [],
        params["selectors"] or [],
        params["block_devices"],
        existing,
        evaluate,
        looking=params["only_compare"],
    )
    table = format_table(plan.rows)
    if plan.errors:
        told = "; ".join(plan.errors)
        raise InputError(f"the disks of {node}: {told}", refusals=plan.errors, table=table, plan=_rows(plan))
    held = _held(plan.extra, existing)
    return {
        "changed": False,
        "disks": plan.disks,
        "plan": _rows(plan),
        "table": table,
        "extra": plan.extra,
        "held": held,
        "free": [{"name": name} for name in plan.extra if name not in held],
        "declared": [disk for disk in plan.disks if disk["name"] not in plan.extra],
    }


def format_table(rows: list[Row]) -> list[str]:
    """The plan as the lines of a table, disks by name, refusals last."""
    ordered = sorted(rows, key=lambda row: (row.action == "refuse", row.disk, row.device))
    cells = [_HEADINGS, *((row.action, row.disk, row.device, _size(row.size), row.source, row.why) for row in ordered)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in cells]


def _size(size: int) -> str:
    return format_bytes(size) if size else ""


def _rows(plan: Plan) -> list[dict[str, Any]]:
    return [row._asdict() for row in plan.rows]


def _held(extra: list[str], existing: list[dict[str, Any]]) -> list[str]:
    """Those of the undeclared disks that somebody holds or that keep data: they are never deleted."""
    busy = {
        disk["metadata"]["name"] for disk in existing if disk["spec"].get("claimRef") or disk["spec"].get("retainedFor")
    }
    return [name for name in extra if name in busy]


OPERATION = Operation(
    name="local_disk_plan",
    options={
        "node_name": {"type": "str", "required": True},
        "disks": {"type": "list", "elements": "dict", "options": DECLARED},
        "selectors": {"type": "list", "elements": "dict", "options": SELECTOR},
        "block_devices": {"type": "list", "elements": "dict", "required": True},
        "only_compare": {"type": "bool", "default": False},
    },
    run=run,
)
