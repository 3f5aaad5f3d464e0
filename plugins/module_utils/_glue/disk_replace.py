# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module disk_replace: from "this disk is failing" to "the replica runs on the new disk".

Called by plugins/modules/disk_replace.py and plugins/action/disk_replace.py. What is next is decided in
berth_core.lifecycle.replacing; app/replacing.py reads and carries out.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app.disk_change import check_wanted
from ..berth_core.app.fsid import mount_point
from ..berth_core.app.replace_plan import (
    Replica,
    check_new,
    check_pods,
    check_quorum,
    check_size,
    new_local_disk,
    owner_of,
)
from ..berth_core.app.wanted import APP_LABEL
from ..berth_core.errors import StateError
from ..berth_core.lifecycle import states
from ..berth_core.lifecycle.driving import refuse
from ..berth_core.lifecycle.forecast import remaining
from ..berth_core.lifecycle.next_step import next_step
from ..berth_core.lifecycle.replacing import PARTS
from ..berth_core.lifecycle.view import View, recorded
from ..berth_core.model.names import check_subdomain
from ..berth_core.model.resources import LOCAL_DISK, POD
from .app.replacing import Replacement
from .app.replacing_claim import whose
from .base import Context, Operation
from .disk_options import IDENTITY, SETTINGS

_LAST = {"stopped": "unbind", "released": "release", "adopted": "adopt", "bound": "bind", "running": "run"}


def run(context: Context) -> dict[str, Any]:
    params = context.params
    check_subdomain(params["name"], "name")
    check_wanted(params["new"], "new")
    mount_point("check", params["mount_root"])
    old = context.client.get(LOCAL_DISK, params["name"])
    declared, owner = new_local_disk(old, params["new"]), owner_of(old)
    replica = whose(context.client, params["name"], owner)
    work = Replacement(context, old, declared, replica)
    view = work.look()
    name = declared["metadata"]["name"]
    if name in view.disks:
        check_new(declared, view.disks[name], owner if _is_of_claim(view) else None)
    _check_berth(view, replica, declared)
    order, left = list(PARTS), remaining(view)
    if replica is not None and _is_of_claim(view) and "stop" in left:
        check_pods(replica, context.client.list(POD, replica.namespace))
    if "stop" in left:
        _check_quorum(context, view, replica)
    allowed = order[: order.index(_LAST[params["until"]]) + 1]
    planned = [part for part in left if part in allowed]
    done = [] if context.check_mode else work.carry_out(view, allowed)
    return {
        "changed": bool(planned),
        "steps": [{"step": part, "what": PARTS[part]} for part in planned],
        "done": done,
        "replica": {**replica._asdict(), "pod": replica.berth} if replica else None,
        "old": params["name"],
        "new": name,
        "diff": [_diff(params["name"], name, planned)] if planned else [],
    }


def _check_berth(view: View, replica: Replica | None, declared: dict[str, Any]) -> None:
    """Refuse, before anything is written, what no disk can be exchanged in. Raises StateError."""
    if not _is_of_claim(view):
        if view.berth is None or replica is None:
            return
        check_size(view.berth, replica, declared)
        if recorded(view.berth) == states.RELEASING:
            raise StateError(
                f"berth {view.key} is being given up: run stateful_app to its end first; nothing was changed"
            )
    refuse(view.key, next_step(view))


def _check_quorum(context: Context, view: View, replica: Replica | None) -> None:
    """Before an exchange is begun; costs a LIST where the app names a quorum. Raises StateError."""
    if view.berth is None or replica is None or not view.berth["spec"].get("quorum"):
        return
    if recorded(view.berth) != states.REPLACING:
        pods = context.client.list(POD, replica.namespace, labels=f"{APP_LABEL}={replica.app}")
        check_quorum(view.berth, replica, pods)


def _is_of_claim(view: View) -> bool:
    """Whether the disk is of a claim without an app."""
    return view.exchange is not None and view.exchange.of is not None


def _diff(old: str, new: str, planned: list[str]) -> dict[str, Any]:
    after = {"disk": new, "steps": [f"{part}: {PARTS[part]}" for part in planned]}
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
