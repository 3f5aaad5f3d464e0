# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module disk_replace: from "this disk is failing" to "the replica runs on the new disk", step by step.

Called by plugins/modules/disk_replace.py and plugins/action/disk_replace.py. Which steps are left is decided in
berth_core.app.replace_plan; before every one everything is read again. The steps themselves are in app/replacing.py.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app.replace_plan import STEPS, check_new, check_size, new_local_disk, remaining, replica_of
from ..berth_core.errors import StateError
from ..berth_core.model.resources import LOCAL_DISK
from .app.replacing import Replacement
from .base import Context, Operation
from .disk_options import IDENTITY, SETTINGS

_LAST = {"stopped": "unbind", "released": "release", "adopted": "adopt", "bound": "bind", "running": "run"}


def run(context: Context) -> dict[str, Any]:
    params = context.params
    old = context.client.get(LOCAL_DISK, params["name"])
    replica, declared = replica_of(old), new_local_disk(old, params["new"])
    work = Replacement(context, declared, replica)
    seen = work.look(params["name"])
    if seen.new is not None:
        check_new(declared, seen.new)
    if seen.berth is not None and replica is not None:
        check_size(seen.berth, replica, declared)
    order = list(STEPS)
    allowed = order[: order.index(_LAST[params["until"]]) + 1]
    planned = [step for step in remaining(seen, replica, declared["metadata"]["name"]) if step in allowed]
    done = [] if context.check_mode else _carry_out(work, params["name"], allowed)
    name = declared["metadata"]["name"]
    return {
        "changed": bool(planned),
        "steps": [{"step": step, "what": STEPS[step]} for step in planned],
        "done": done,
        "replica": {**replica._asdict(), "pod": replica.berth} if replica else None,
        "old": params["name"],
        "new": name,
        "diff": [_diff(params["name"], name, planned)] if planned else [],
    }


def _carry_out(work: Replacement, name: str, allowed: list[str]) -> list[str]:
    """One step after the other, each from a new look."""
    done: list[str] = []
    while True:
        left = [step for step in work.left(name) if step in allowed]
        if not left:
            return done
        if done and left[0] == done[-1]:
            raise StateError(
                f"disk_replace: {left[0]} ({STEPS[left[0]]}) was done and is to be done again: somebody else changes "
                "the same replica; see who, and run the task again",
                done=done,
            )
        work.do(left[0])
        done.append(left[0])


def _diff(old: str, new: str, planned: list[str]) -> dict[str, Any]:
    after = {"disk": new, "steps": [f"{step}: {STEPS[step]}" for step in planned]}
    header = f"LocalDisk {old}"
    return {"before_header": header, "after_header": f"LocalDisk {new}", "before": {"disk": old}, "after": after}


OPERATION = Operation(
    name="disk_replace",
    options={
        "name": {"type": "str", "required": True},
        "new": {
            "type": "dict",
            "required": True,
            "options": {
                "name": {"type": "str"},
                "identity": {"type": "dict", "required": True, "options": IDENTITY},
                **{key: value for key, value in SETTINGS.items() if key != "reserved"},
            },
        },
        "until": {"type": "str", "choices": list(_LAST), "default": "running"},
        "mount_root": {"type": "path", "default": "/var/lib/berth/disks"},
        "wait_timeout": {"type": "int", "default": 600},
    },
    run=run,
)
