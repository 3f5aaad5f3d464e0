# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told of a Task: a row of it. Called by the modules task and task_info, and by kubectl-berth."""

from __future__ import annotations

from typing import Any

from ..model.fields import Object
from . import states

_TOLD = {
    "state": "state",
    "tries": "tries",
    "failures": "failures",
    "reason": "reason",
    "message": "message",
    "pod": "pod",
    "node": "node",
    "exit_code": "exitCode",
    "log": "log",
    "termination_message": "terminationMessage",
    "started_at": "startedAt",
    "finished_at": "finishedAt",
}
#: Reasons of a task that waits until somebody changes something.
NEVER = ("NeverFits", "UnknownQueue", "InvalidQueue", "UnknownPolicy", "PolicyFailed", "NotFiller")


def told(live: Object) -> dict[str, Any]:
    """What a result says of a Task."""
    status, meta = live.get("status") or {}, live["metadata"]
    names = {"name": meta["name"], "namespace": meta["namespace"], "queue": live["spec"].get("queue")}
    return {**names, **{key: status.get(field) for key, field in _TOLD.items()}}


def stuck(row: Object) -> bool:
    """Whether the Task of this row never starts as things are, or what is left of the TaskBatch."""
    return row["state"] not in states.FINAL and row["reason"] in NEVER
