# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The application as a StatefulApp that berth-controller carries out: applied, waited for, deleted.

Called by stateful_app for driver: controller; and for driver: playbook, to leave alone what is the controller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ...berth_core.app.compare import differences
from ...berth_core.app.controller_install import SHIPPED
from ...berth_core.app.node_loss import OUT_OF_SERVICE, RELEASE, stand_in, taint_command
from ...berth_core.app.revisions import check_rollback
from ...berth_core.app.shipped import SHIPPED_NAMESPACE
from ...berth_core.app.stateful_app_object import CONTROLLER, manifest_of
from ...berth_core.app.stateful_app_status import READY, REFUSED, STALLED, UPDATE_PAUSED, condition
from ...berth_core.errors import ForbiddenError, InputError, StateError, TimeoutExpired
from ...berth_core.lifecycle import states
from ...berth_core.model.names import check_subdomain
from ...berth_core.model.resources import LEASE, STATEFUL_APP
from ..base import Context
from ..objects import diff_entry
from . import wait

Object = dict[str, Any]


def found(context: Context) -> Object | None:
    """The StatefulApp of this name. None where there is none, nobody serves the kind, or it may not be read."""
    try:
        return context.client.find(STATEFUL_APP, context.params["name"], context.params["namespace"])
    except ForbiddenError:  # an account of before there were StatefulApps: as it was then
        return None


def is_its(live: Mapping[str, Any] | None) -> bool:
    """Whether the controller carries the application out."""
    return live is not None and live["spec"].get("driver") == CONTROLLER


def refuse(live: Mapping[str, Any] | None) -> None:
    """Raise StateError where the controller carries the application out."""
    if live is None or not is_its(live):
        return
    name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
    raise StateError(
        f"StatefulApp {namespace}/{name} has driver controller: berth-controller carries this application out, and two "
        f"would work against each other; give the task driver: controller, or hand the application over first: kubectl "
        f"--namespace {namespace} patch statefulapp {name} --type merge --patch "
        '\'{"spec": {"driver": "playbook"}}\'; nothing was changed'
    )


def check(params: Mapping[str, Any]) -> None:
    """Raises InputError for options that say how a run of the playbook goes."""
    if params["until"] != states.CREATED:
        raise InputError(
            f"until: {params['until']} stops a run of the playbook; with driver: controller leave it out, agents make "
            "the filesystems"
        )
    check_rollback(params["rollback_to"], params["workload"], params["name"])
    runs = [name for name in ("update_hooks", "update_primary_command") if params[name] is not None]
    if runs:
        raise InputError(
            f"{runs[0]} runs commands in the pods by the rights of who runs the playbook; with driver: controller "
            "leave it out: a controller that may run commands in pods may read every Secret there (docs/decisions/0049)"
        )
    _check_loss(params)
    if params["explain"]:
        raise InputError("explain: true tells of a choice that this run makes; with driver: controller leave it out")


def _check_loss(params: Mapping[str, Any]) -> None:
    once = [name for name in ("release_ordinals", "confirm_fenced") if params[name]]
    if not once and params["on_node_loss"] != RELEASE:
        return
    said = ""
    for index, node in enumerate(params["confirm_fenced"] or ()):
        check_subdomain(node, f"confirm_fenced[{index}]")
        said += (
            f" To say that node {node} is off: {taint_command(node)}, or, where its Node is deleted, {stand_in(node)}."
        )
    raise InputError(
        f"{once[0] if once else f'on_node_loss: {RELEASE}'} is said of one loss, by a run of the playbook; with "
        "driver: controller a replica waits for its node (keep), or is rebuilt when the taint "
        f"{OUT_OF_SERVICE} on its Node proves that nothing runs there (rebuild).{said} To give up data by name, hand "
        "the application over for that run: driver: playbook in its StatefulApp and in this task, and driver: "
        "controller again afterwards"
    )


def present(context: Context, template: Any, replicas: int | None) -> tuple[dict[str, Any], Object]:
    """Apply the StatefulApp; with ``wait``, until the controller says that it is Ready. The result, and the object.

    ``replicas``: as option or manifest say; None: whoever scales says it.
    """
    params, client = context.params, context.client
    body = manifest_of({**params, "template": template, "replicas": replicas}, CONTROLLER)
    live = client.find(STATEFUL_APP, params["name"], params["namespace"])
    tried = client.apply(STATEFUL_APP, body, dry_run=True)
    before, after = (live or {}).get("spec") or {}, tried["spec"]
    changed = bool(live is None or differences(after, before) or differences(before, after))
    diff = diff_entry(STATEFUL_APP, params["name"], before, after, params["namespace"])
    if changed and not context.check_mode:
        live = client.apply(STATEFUL_APP, body)
    warn_without_controller(context)
    if params["wait"] and not context.check_mode:
        live = _wait_until_ready(context)
    return {"changed": changed, "diff": [diff] if changed else [], "stateful_app": brief(live or tried)}, tried


def absent(context: Context, live: Object) -> dict[str, Any]:
    """Delete it, and wait until the controller has given up its berths: before that its disks are held."""
    params, name = context.params, live["metadata"]["name"]
    diff = [diff_entry(STATEFUL_APP, name, live["spec"], "", params["namespace"], absent=True)]
    if not context.check_mode:
        warn_without_controller(context)
        context.client.delete(STATEFUL_APP, name, params["namespace"], uid=live["metadata"]["uid"])
        _until(context, lambda seen: _still_there(seen.get(name), name), f"StatefulApp {name} to go")
    return {"changed": True, "diff": diff, "berths": []}


def forget(context: Context, live: Object, result: dict[str, Any]) -> dict[str, Any]:
    """The StatefulApp of an application that a playbook has taken away goes with it."""
    name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
    if not context.check_mode:
        context.client.delete(STATEFUL_APP, name, namespace, uid=live["metadata"]["uid"])
    result["diff"]["before"]["objects"].append(STATEFUL_APP.describe(name, namespace))
    return {**result, "changed": True}


def brief(live: Mapping[str, Any]) -> dict[str, Any]:
    """What a person wants to know of it. Where ``observedGeneration`` is not ``generation``, the rest is of a spec
    before."""
    status = live.get("status") or {}
    counts = ("replicas", "readyReplicas", "updatedReplicas", "currentRevision", "updateRevision", "observedGeneration")
    told = {key: status[key] for key in counts if key in status}
    generation = {"generation": live["metadata"].get("generation")}
    return {"driver": live["spec"].get("driver"), **generation, "conditions": status.get("conditions") or [], **told}


# -- waiting


def _wait_until_ready(context: Context) -> Object:
    name = context.params["name"]
    seen = _until(context, lambda seen: _not_ready(seen.get(name), name), f"StatefulApp {name} to be Ready")
    return seen[name]


def _until(context: Context, missing: wait.Missing, goal: str) -> wait.Objects:
    params = context.params
    try:
        return wait.until(
            context.client,
            STATEFUL_APP,
            params["namespace"],
            None,
            params["wait_timeout"],
            missing,
            goal,
            context.progress,
        )
    except TimeoutExpired as exc:
        why = _no_controller(context)
        if why:
            exc.message += f"; {why}"
        raise


def _not_ready(live: Mapping[str, Any] | None, name: str) -> Sequence[str]:
    """Raises StateError for what the controller has refused, or paused: only another spec mends it."""
    if live is None:
        raise StateError(f"StatefulApp {name} was deleted while it was waited for", changed=True)
    seen = (live.get("status") or {}).get("observedGeneration") == live["metadata"]["generation"]
    if not seen:
        return [f"StatefulApp {name} is not looked at by berth-controller yet"]
    stalled = condition(live, STALLED)
    if stalled.get("status") == "True" and stalled["reason"] in (REFUSED, UPDATE_PAUSED):
        raise StateError(f"StatefulApp {name}: {stalled['message']}", changed=True)
    told = condition(live, READY)
    return [] if told.get("status") == "True" else [f"{told.get('reason')}: {told.get('message')}"]


def _still_there(live: Mapping[str, Any] | None, name: str) -> Sequence[str]:
    if live is None:
        return []
    told = condition(live, READY)
    return [f"StatefulApp {name} is still there ({told.get('reason')}: {told.get('message')})"]


def warn_without_controller(context: Context) -> None:
    why = _no_controller(context)
    if why:
        context.warn(why)


def _no_controller(context: Context) -> str:
    """Why nobody carries it out; empty where a controller does, or where that may not be looked up."""
    try:
        lease = context.client.find(LEASE, SHIPPED, SHIPPED_NAMESPACE)
    except ForbiddenError:
        return ""
    who = f"Lease {SHIPPED_NAMESPACE}/{SHIPPED}"
    if lease is None:
        return f"no controller carries this StatefulApp out: {who} is not there; install it with the module controller"
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or _over(spec):
        return f"no controller carries this StatefulApp out: nobody holds {who}; see that its pods run"
    return ""


def _over(spec: Mapping[str, Any]) -> bool:
    """Whether the lease was not renewed for four times as long as it lasts: clocks differ."""
    text = str(spec.get("renewTime") or "")[:19]
    try:
        renewed = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return True
    silent = (datetime.now(timezone.utc) - renewed).total_seconds()
    return silent > 4 * float(spec.get("leaseDurationSeconds") or 0)
