# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations behind the modules task and task_info: one Task; all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.errors import InputError
from ..berth_core.model.names import check_label
from ..berth_core.model.resources import TASK
from ..berth_core.tasks import states
from ..berth_core.tasks.task import FIELDS, check_new
from ..berth_core.tasks.told import told
from .base import Context, Operation
from .submitted import OPTIONS, PLACE, Submitted, gang_field, why

Object = Mapping[str, Any]


def _ended_as(live: Object) -> str:
    status = live["status"]
    return f" after {status.get('tries', 0)} tries: {status.get('message') or status.get('reason')}"


def _far(live: Object) -> str:
    words = why(live)
    return f"{(live.get('status') or {}).get('state')}{words and f' ({words})'}"


_TASK = Submitted(
    resource=TASK,
    result="task",
    info="task_info",
    fields={option: field for option, field in FIELDS.items() if option != "offer"},  # who holds one is a program
    check=check_new,
    told=lambda _context, live: told(live),
    ended_as=_ended_as,
    far=_far,
)


def run(context: Context) -> dict[str, Any]:
    """One Task, by ``state``."""
    context.params = {**context.params, "gang": gang_field(context.params["gang"])}
    return _TASK.run(context)


def run_info(context: Context) -> dict[str, Any]:
    params = context.params
    check_label(params["namespace"], "namespace")
    if params["name"] is not None:
        check_label(params["name"], "name")
    unknown = sorted(set(params["states"] or ()) - set(states.STATES))
    if unknown:
        raise InputError(f"states names {unknown[0]!r}: expected of {', '.join(states.STATES)}")
    found = [told(one) for one in context.client.list(TASK, params["namespace"])]
    chosen = [
        task
        for task in sorted(found, key=lambda one: str(one["name"]))
        if params["name"] in (None, task["name"]) and (not params["states"] or task["state"] in params["states"])
    ]
    counts = {state: sum(task["state"] == state for task in chosen) for state in states.STATES}
    return {"changed": False, "tasks": chosen, "counts": counts}


OPERATION = Operation(
    name="task",
    options={
        **OPTIONS,
        "gang": {
            "type": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "min_count": {"type": "int", "required": True},
            },
        },
        "keep_failed_pod": {"type": "bool"},
        "wait_timeout": {"type": "int", "default": 600},
    },
    run=run,
    required_if=(("state", "present", ("template",)),),
)
INFO = Operation(
    name="task_info",
    options={"name": {"type": "str"}, **PLACE, "states": {"type": "list", "elements": "str"}},
    run=run_info,
)
