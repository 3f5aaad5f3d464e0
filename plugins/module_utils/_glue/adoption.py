# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module stateful_app_adoption: an application comes under berth, or is released and goes on as plain Kubernetes.

Called by plugins/modules/stateful_app_adoption.py and plugins/action/stateful_app_adoption.py. The way in is in
adopting. Of the way out, what is refused and what would be written is decided in berth_core.app.adoption; how a berth
goes, in berth_core.lifecycle.way_out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..berth_core.app.adoption import Change, WayOut, plan_release, rows, tried, warnings
from ..berth_core.app.fsid import mount_point
from ..berth_core.app.observed import Observed
from ..berth_core.app.observing import view_of
from ..berth_core.app.wanted import STATEFUL_SET, check_app_name
from ..berth_core.errors import ConflictError, NotFoundError
from ..berth_core.lifecycle.driving import refuse
from ..berth_core.lifecycle.step import PATCH, Ref
from ..berth_core.lifecycle.view import View, disks_of
from ..berth_core.model.resources import LOCAL_DISK, STATEFUL_APP
from . import adopting
from .app import by_controller
from .app.driver import Driver
from .app.observe import observe, with_beside
from .app.sources import read_src
from .base import Context, Operation
from .objects import diff_entry

_ADOPTED, _RELEASED = "adopted", "released"
_DISK = {
    "ordinal": {"type": "int", "required": True},
    "claim": {"type": "str"},
    "name": {"type": "str", "required": True},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "default"},
    "state": {"type": "str", "choices": [_ADOPTED, _RELEASED], "required": True},
    "template": {"type": "dict"},
    "src": {"type": "path"},
    "local_disks": {"type": "list", "elements": "dict", "options": _DISK},
    "mount_root": {"type": "path", "default": "/var/lib/berth/disks"},
    "wait_timeout": {"type": "int", "default": 60},
}


def run(context: Context) -> dict[str, Any]:
    params = context.params
    check_app_name(params["name"], params["namespace"])
    mount_point("disk", params["mount_root"])  # refuses a root that cannot be one before anything is read
    given = adopting.asked(params) if params["state"] == _ADOPTED else None
    kept = by_controller.found(context)
    by_controller.refuse(kept)
    return adopting.run(context, given) if params["state"] == _ADOPTED else _released(context, kept)


def _released(context: Context, kept: Mapping[str, Any] | None) -> dict[str, Any]:
    params = context.params
    seen = with_beside(
        context.client,
        observe(context.client, params["name"], params["namespace"], STATEFUL_SET, None),
        context.warn,
    )
    plan = plan_release(seen)
    _try(context, seen)
    diff = [_entry(change) for change in plan.changes]
    if kept is not None:
        diff.append(diff_entry(STATEFUL_APP, params["name"], kept["spec"], "", params["namespace"], absent=True))
    for text in warnings(seen):
        context.warn(text)
    result = {"changed": bool(diff), "diff": diff, "replicas": rows(seen, params["mount_root"])}
    if not context.check_mode:
        _carry_out(context, seen, plan, kept)
    return result


def _try(context: Context, seen: Observed) -> None:
    """Raises ForbiddenError where a right is missing: half of the way out would help nobody."""
    for step in tried(seen):
        with contextlib.suppress(ConflictError, NotFoundError):  # written by somebody just now: read anew in its turn
            if step.do == PATCH:
                context.client.patch(*step.ref, step.body, dry_run=True)
            else:
                context.client.replace(step.resource, step.body, dry_run=True)


def _carry_out(context: Context, seen: Observed, plan: WayOut, kept: Mapping[str, Any] | None) -> None:
    """Each write may be the last one: the next run goes on with what is left.

    The labels of the whole app go first: with the first berth that goes, stateful_app must not make another.
    """
    client = context.client
    for change in plan.shared:
        meta = change.thing["metadata"]
        client.patch(change.resource, meta["name"], meta["namespace"], change.patch or {})
    if kept is not None:
        client.delete(STATEFUL_APP, kept["metadata"]["name"], seen.namespace, uid=kept["metadata"]["uid"])
    driver = Driver(context, context.progress, context.params["wait_timeout"])
    for ordinal in plan.berths:
        title = f"{seen.namespace}/{seen.name}-{ordinal}"
        context.progress(f"releasing {title} from berth")
        refuse(title, driver.drive(_view(driver, seen, ordinal)).step)


def _view(driver: Driver, seen: Observed, ordinal: int) -> View:
    """With the disks that an earlier run has given up already, which no lock names any more: their phase may be due."""
    view = replace(view_of(seen, ordinal), leaves=True)
    for entry in disks_of(seen.berths[ordinal]):
        if entry["name"] not in view.disks:
            view = driver.look(view, Ref(LOCAL_DISK, entry["name"]))
    return view


def _entry(change: Change) -> dict[str, Any]:
    meta = change.thing["metadata"]
    gone = change.patch is None
    return diff_entry(change.resource, meta["name"], change.before, change.after, meta.get("namespace"), absent=gone)


OPERATION = Operation(
    "stateful_app_adoption",
    OPTIONS,
    run,
    mutually_exclusive=(("template", "src"),),
    controller_files=("src",),
    prepare=read_src,
)
