# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations behind the modules task and task_info: one Task, submitted, waited for, killed, removed; all of them.

A Task is known by its name and its content: the same again changes nothing, whatever has become of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.app.compare import differences
from ..berth_core.errors import InputError, NotFoundError, StateError
from ..berth_core.model.names import check_label
from ..berth_core.model.resources import TASK
from ..berth_core.tasks import states
from ..berth_core.tasks.task import check_new
from ..berth_core.tasks.told import told
from .app import wait
from .base import Context, Operation
from .objects import diff_entry

Object = Mapping[str, Any]
#: option -> field of the spec
_FIELDS = {
    "queue": "queue",
    "priority": "priority",
    "retries": "retries",
    "retry_exit_codes": "retryExitCodes",
    "keep_failed_pod": "keepFailedPod",
    "template": "template",
}


def run(context: Context) -> dict[str, Any]:
    params = context.params
    check_label(params["name"], "name")
    check_label(params["namespace"], "namespace")
    if params["state"] == "present":
        return _present(context)
    live = _find(context)
    return _killed(context, live) if params["state"] == "killed" else _absent(context, live)


def _present(context: Context) -> dict[str, Any]:
    params = context.params
    spec = {field: params[option] for option, field in _FIELDS.items() if params[option] is not None}
    check_new(params["name"], spec)
    body = {"metadata": {"name": params["name"], "namespace": params["namespace"]}, "spec": spec}
    live = _find(context)
    try:
        tried = context.client.apply(TASK, body, dry_run=True)
    except NotFoundError as exc:
        raise StateError(f"{exc.message}: install the custom resources with the module crds") from exc
    before, after = dict((live or {}).get("spec") or {}), tried["spec"]
    changed = live is None or bool(differences(after, before) or differences(before, after))
    if live is not None and changed:
        _refuse_another(live)
    diff = [diff_entry(TASK, params["name"], before, after, params["namespace"])] if changed else []
    if changed and not context.check_mode:
        live = context.client.apply(TASK, body)
    if params["wait"] and not context.check_mode:
        live = _wait_until_ended(context)
        _raise_unless_succeeded(live, changed)
    return {"changed": changed, "diff": diff, "task": told(live or tried)}


def _killed(context: Context, live: Object | None) -> dict[str, Any]:
    params = context.params
    if live is None:
        raise StateError(
            f"{_who(params)} is not there, and cannot be killed; see the module task_info for those that are"
        )
    changed = not live["spec"].get("kill") and not _ended(live)
    after = {**live["spec"], "kill": True}
    diff = [diff_entry(TASK, params["name"], live["spec"], after, params["namespace"])] if changed else []
    if changed and not context.check_mode:
        live = context.client.patch(TASK, params["name"], params["namespace"], {"spec": {"kill": True}})
    if params["wait"] and not context.check_mode:
        live = _wait_until_ended(context)
    return {"changed": changed, "diff": diff, "task": told(live)}


def _absent(context: Context, live: Object | None) -> dict[str, Any]:
    params = context.params
    if live is None:
        return {"changed": False, "diff": [], "task": {}}
    diff = diff_entry(TASK, params["name"], live["spec"], "", params["namespace"], absent=True)
    if not context.check_mode:
        context.client.delete(TASK, params["name"], params["namespace"], uid=live["metadata"]["uid"])
    return {"changed": True, "diff": [diff], "task": {}}


def _find(context: Context) -> dict[str, Any] | None:
    return context.client.find(TASK, context.params["name"], context.params["namespace"])


def _refuse_another(live: Object) -> None:
    """What has ended stays what it was, and so does what is to end."""
    status = (live.get("status") or {}).get("state")
    if _ended(live) or live["spec"].get("kill"):
        meta, how = live["metadata"], status if _ended(live) else "being killed"
        raise StateError(
            f"Task {meta['namespace']}/{meta['name']} is {how}, and was of other content: remove it first (state: "
            "absent), or give the new one another name"
        )


def _wait_until_ended(context: Context) -> dict[str, Any]:
    params = context.params
    name = params["name"]

    def missing(seen: wait.Objects) -> list[str]:
        live = seen.get(name)
        if live is None:
            return [f"{_who(params)} is gone"]
        status = live.get("status") or {}
        why = ", ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
        return [] if _ended(live) else [f"{name} is {status.get('state')}{why and f' ({why})'}"]

    goal, seconds = f"{_who(params)} to end", params["wait_timeout"]
    return wait.until(context.client, TASK, params["namespace"], None, seconds, missing, goal, context.progress)[name]


def _raise_unless_succeeded(live: Object, changed: bool) -> None:
    status, meta = live.get("status") or {}, live["metadata"]
    if status.get("state") != states.SUCCEEDED:
        raise StateError(
            f"Task {meta['namespace']}/{meta['name']} is {status.get('state')} after {status.get('tries', 0)} tries: "
            f"{status.get('message') or status.get('reason')}",
            task=told(live),
            changed=changed,
        )


def _ended(live: Object) -> bool:
    return (live.get("status") or {}).get("state") in states.FINAL


def _who(params: Mapping[str, Any]) -> str:
    return f"Task {params['namespace']}/{params['name']}"


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


_PLACE: dict[str, dict[str, Any]] = {"namespace": {"type": "str", "default": "default"}}
OPERATION = Operation(
    name="task",
    options={
        "name": {"type": "str", "required": True},
        **_PLACE,
        "state": {"type": "str", "choices": ["present", "killed", "absent"], "default": "present"},
        "template": {"type": "dict"},
        "queue": {"type": "str"},
        "priority": {"type": "int"},
        "retries": {"type": "int"},
        "retry_exit_codes": {"type": "list", "elements": "int"},
        "keep_failed_pod": {"type": "bool"},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 600},
    },
    run=run,
    required_if=(("state", "present", ("template",)),),
)
INFO = Operation(
    name="task_info",
    options={"name": {"type": "str"}, **_PLACE, "states": {"type": "list", "elements": "str"}},
    run=run_info,
)
