# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation behind the module stateful_app: who carries it out, the playbook (app/flow.py) or the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.app import in_service, report
from ..berth_core.app.leave_rules import leave_rules
from ..berth_core.app.node_loss import loss_rules
from ..berth_core.app.plan import removal_plan
from ..berth_core.app.playbook_object import gate_was_opened
from ..berth_core.app.revisions import check_rollback
from ..berth_core.app.stateful_app_object import CONTROLLER, options_of
from ..berth_core.app.wanted import AppWanted, check_app_name, parse_app
from ..berth_core.errors import BerthError, ForbiddenError, InputError, NotFoundError
from ..berth_core.lifecycle import states
from ..berth_core.model.resources import CRD, LOCAL_DISK
from .app import as_object, by_controller, helping
from .app.flow import observed_of, present
from .app.hand import Rules
from .app.info import info
from .app.observe import observe, with_beside
from .app.options import OPTIONS
from .app.release import Release
from .app.sources import load_template, read_src
from .base import Context, Operation


def run(context: Context) -> dict[str, Any]:
    try:
        return _carried_out(context)
    except NotFoundError as exc:
        return _before_it_is_installed(context, exc)


def _carried_out(context: Context) -> dict[str, Any]:
    params = context.params
    if params["state"] == "absent":
        return _gone(context)
    if params["driver"] == CONTROLLER:
        return _by_controller(context)
    app, rules, template = _asked(params)
    found = _of_playbook(context, app)
    return as_object.present(context, app, rules, template, found)


def carry_out_alone(context: Context) -> dict[str, Any]:
    """By the playbook, and its StatefulApp stays as it is: for a run that asks for more than the application's own task
    does, such as for its replicas to leave a node."""
    app, rules, _template = _asked(context.params)
    _of_playbook(context, app)
    return present(context, app, rules)


def _of_playbook(context: Context, app: AppWanted) -> as_object.Found:
    """The StatefulApp. Raises StateError where berth-controller has it, InputError where it would have to."""
    found = as_object.look(context)
    by_controller.refuse(found.live)
    in_service.refuse_without_controller(app.template, gate_was_opened(found.live), context.params["wait"])
    return found


def _before_it_is_installed(context: Context, exc: NotFoundError) -> dict[str, Any]:
    """In a check mode the play's earlier tasks have installed nothing: what they would is not known, and no error.

    Raises the error for all else that is not found.
    """
    name, namespace = context.params["name"], context.params["namespace"]
    if not context.check_mode or context.params["state"] == "absent" or _installed(context):
        raise exc
    context.warn(
        f"stateful_app {namespace}/{name}: the cluster does not know LocalDisks yet; which nodes and disks its "
        "replicas get is decided when they are there"
    )
    return {"changed": True, "diff": {"before": "", "after": f"{namespace}/{name}: not decided yet\n"}, "berths": []}


def _installed(context: Context) -> bool:
    """Whether the cluster knows LocalDisks; who may not look is told the error itself."""
    try:
        return context.client.find(CRD, LOCAL_DISK.definition) is not None
    except ForbiddenError:
        return True


def foresee(context: Context) -> dict[str, Any]:
    """What check mode says of these options, whoever carries the application out: for who asks its driver for that."""
    app, rules, _template = _asked(context.params)
    return present(context, app, rules)


def _asked(params: Mapping[str, Any]) -> tuple[AppWanted, Rules, Any]:
    """The application, the rules of its replicas that go elsewhere, and the template as the task gives it."""
    if params["wait"] and params["until"] != states.CREATED:
        raise InputError(f"wait: true waits for pods, and until: {params['until']} makes none; leave one of them out")
    check_rollback(params["rollback_to"], params["workload"], params["name"])
    template = load_template(params["template"], params["src"])
    app = parse_app({**params, "template": template})
    return app, Rules(loss_rules(params, app.replicas), leave_rules(params, app.name, app.replicas)), template


def _by_controller(context: Context) -> dict[str, Any]:
    params = context.params
    by_controller.check(params)
    template = load_template(params["template"], params["src"])
    app = parse_app({**params, "template": template})
    told = params["replicas"] if params["replicas"] is not None else app.given.replicas
    result, body = by_controller.present(context, template, told)
    if context.check_mode and result["changed"]:
        result.update(_foreseen_of_controller(context, body))
    return {**result, "berths": report.rows(observed_of(context, app), app.workload)}


def _foreseen_of_controller(context: Context, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the controller would do with each replica; a warning where it would be stopped, or that cannot be seen."""
    params = {**context.params, **options_of(body), "wait": False}
    try:
        foreseen = foresee(context.having(params))
    except BerthError as exc:
        context.warn(f"as things are the controller would not carry this out: {exc.message}")
        return {}
    return {key: foreseen[key] for key in ("updated", "outdated", "moved", "restarted") if key in foreseen}


def _gone(context: Context) -> dict[str, Any]:
    """Who carries it out takes it away."""
    check_app_name(context.params["name"], context.params["namespace"], context.params["workload"])
    live = by_controller.found(context)
    if live is not None and live["spec"].get("driver") == CONTROLLER == context.params["driver"]:
        return by_controller.absent(context, live)
    by_controller.refuse(live)
    result = _absent(context)
    return result if live is None else by_controller.forget(context, live, result)


def _absent(context: Context) -> dict[str, Any]:
    params = context.params
    name, namespace, workload = params["name"], params["namespace"], params["workload"]
    check_app_name(name, namespace, workload)
    service = (params["service"] or {}).get("name") or name
    observed = observe(context.client, name, namespace, workload, service)
    observed = with_beside(context.client, observed, context.warn)
    plan = removal_plan(observed)
    there = not observed.empty
    if there and not context.check_mode:
        release = Release(context, observed, workload, params["wait_timeout"])
        release.clear_stale()
        helping.delete(context.client, plan.helpers)
        release.remove(plan.release, service)
    return {"changed": there, "diff": report.removal_diff(observed, plan), "berths": []}


OPERATION = Operation(
    "stateful_app",
    OPTIONS,
    run,
    mutually_exclusive=(("template", "src"),),
    required_if=(("state", "present", ("template", "src"), True),),
    controller_files=("src",),
    prepare=read_src,
)
INFO = Operation(
    "stateful_app_info",
    {
        "name": {"type": "str", "required": True},
        "namespace": {"type": "str", "default": "default"},
        "inventory_nodes": {"type": "list", "elements": "str"},
    },
    info,
)
