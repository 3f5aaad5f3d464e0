# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation behind the module stateful_app: its options, and the flow from what is asked to what is there.

plan (pure) -> try (dry runs) -> choose (pure) -> quotas -> [check mode ends here] -> give up -> reserve -> prebind ->
create -> wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ..berth_core.app import berth_history, ended_pods, in_service, report
from ..berth_core.app.choose import Choice
from ..berth_core.app.choose import explain as explain_outcome
from ..berth_core.app.hook_rules import SECONDS
from ..berth_core.app.leaving import leave_rules
from ..berth_core.app.node_loss import POLICIES, LossRules, inventory_of, loss_rules
from ..berth_core.app.not_ours import refuse_foreign
from ..berth_core.app.observed import Observed, phase
from ..berth_core.app.plan import Plan, goal, make_plan, removal_plan
from ..berth_core.app.pod_change import PodChange
from ..berth_core.app.restarts import restarted
from ..berth_core.app.revisions import check_rollback
from ..berth_core.app.stateful_app_object import CONTROLLER, DRIVERS, PLAYBOOK
from ..berth_core.app.update_failure import paused_by_failure, told_by_berths
from ..berth_core.app.update_rules import BUDGETS, COUNTED, OF_ONE, ORDERS, STRATEGIES
from ..berth_core.app.wanted import POD, STATEFUL_SET, AppWanted, check_app_name, parse_app
from ..berth_core.errors import BerthError, InputError
from ..berth_core.lifecycle import states
from ..berth_core.lifecycle.view import recorded
from ..berth_core.model.resources import LOCAL_DISK
from .app import by_controller, counting, handing, helping, leaving, losing, pausing, rescheduling, revisions
from .app.building import Builder
from .app.hand import Hand, Rules
from .app.observe import observe, with_beside
from .app.release import Release
from .app.reserving import Reservation
from .app.selecting import Selector
from .app.sources import load_template, read_src
from .app.trying import Trial
from .app.updating import Updater, caught_up
from .base import Context, Operation

_PORT = {
    "name": {"type": "str"},
    "port": {"type": "int", "required": True},
    "target_port": {"type": "str"},
    "protocol": {"type": "str", "choices": ["TCP", "UDP", "SCTP"], "default": "TCP"},
}
_DISK = {
    "name": {"type": "str", "required": True},
    "size": {"type": "str", "required": True},
    "storage_class": {"type": "str"},
    "volume_mode": {"type": "str", "choices": ["Filesystem", "Block"], "default": "Filesystem"},
    "fs_type": {"type": "str", "choices": ["ext4", "xfs"]},
    "selector": {"type": "dict"},
    "disk_names": {"type": "list", "elements": "str"},
}
_DEVICE = {
    "name": {"type": "str", "required": True},
    "device_class": {"type": "str", "required": True},
    "count": {"type": "int"},
    "share": {"type": "int"},
}
_HOOKS = {
    "before": {"type": "list", "elements": "str"},
    "after": {"type": "list", "elements": "str"},
    "container": {"type": "str"},
    "timeout": {"type": "int", "default": SECONDS},
}
_OVERRIDE = {
    "ordinal": {"type": "int", "required": True},
    "strategy": {"type": "str", "choices": list(OF_ONE)},
    "hold": {"type": "bool", "default": False},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "default"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "replicas": {"type": "int"},
    "workload": {"type": "str", "choices": [STATEFUL_SET, POD], "default": STATEFUL_SET},
    "template": {"type": "dict"},
    "src": {"type": "path"},
    "service": {
        "type": "dict",
        "options": {
            "name": {"type": "str"},
            "cluster_ip": {"type": "str", "default": "None"},
            "publish_not_ready_addresses": {"type": "bool", "default": False},
            "ports": {"type": "list", "elements": "dict", "options": _PORT},
        },
    },
    "disks": {"type": "list", "elements": "dict", "options": _DISK},
    "devices": {"type": "list", "elements": "dict", "options": _DEVICE},
    "topology_spread_constraints": {"type": "list", "elements": "dict"},
    "pod_management_policy": {"type": "str", "choices": ["OrderedReady", "Parallel"]},
    "update_strategy": {"type": "str", "choices": list(STRATEGIES)},
    "update_overrides": {"type": "list", "elements": "dict", "options": _OVERRIDE},
    "partition": {"type": "int"},
    "max_unavailable": {"type": "str"},
    "min_ready_seconds": {"type": "int"},
    "update_order": {"type": "str", "choices": list(ORDERS)},
    "update_primary_label": {"type": "str"},
    "update_primary_command": {"type": "list", "elements": "str"},
    "update_on": {"type": "list", "elements": "str", "choices": list(COUNTED)},
    "paused": {"type": "bool"},
    "pause_on_failure": {"type": "bool", "default": False},
    "progress_deadline_seconds": {"type": "int"},
    "update_hooks": {"type": "dict", "options": _HOOKS},
    "pre_pull": {"type": "bool"},
    "update_hold": {"type": "bool", "default": False},
    "disruption_budgets": {"type": "str", "choices": list(BUDGETS)},
    "suspended": {"type": "bool", "default": False},
    "rollback_to": {"type": "str"},
    "restarted_at": {"type": "str"},
    "driver": {"type": "str", "choices": list(DRIVERS), "default": PLAYBOOK},
    "on_node_loss": {"type": "str", "choices": list(POLICIES), "default": "keep"},
    "release_ordinals": {"type": "list", "elements": "int"},
    "confirm_fenced": {"type": "list", "elements": "str"},
    "inventory_nodes": {"type": "list", "elements": "str"},
    "leave_nodes": {"type": "list", "elements": "str"},
    "leave_data": {"type": "list", "elements": "str"},
    "replace": {"type": "list", "elements": "str"},
    "quorum": {"type": "int"},
    "mount_root": {"type": "path", "default": "/var/lib/berth/disks"},
    "until": {"type": "str", "choices": [states.RESERVED, states.BOUND, states.CREATED], "default": states.CREATED},
    "wait": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 120},
    "explain": {"type": "bool", "default": False},
}


def run(context: Context) -> dict[str, Any]:
    params = context.params
    if params["state"] == "absent":
        return _gone(context)
    if params["driver"] == CONTROLLER:
        return _by_controller(context)
    if params["wait"] and params["until"] != states.CREATED:
        raise InputError(f"wait: true waits for pods, and until: {params['until']} makes none; leave one of them out")
    check_rollback(params["rollback_to"], params["workload"], params["name"])
    app, rules = _asked(params)
    live = by_controller.found(context)
    by_controller.refuse(live)
    in_service.refuse_without_controller(app.template, live is not None, params["wait"])
    return _present(context, app, rules)


def foresee(context: Context) -> dict[str, Any]:
    """What check mode says of these options, whoever carries the application out: for who asks its driver for that."""
    return _present(context, *_asked(context.params))


def _asked(params: Mapping[str, Any]) -> tuple[AppWanted, Rules]:
    app = parse_app({**params, "template": load_template(params["template"], params["src"])})
    return app, Rules(loss_rules(params, app.replicas), leave_rules(params, app.name, app.replicas))


def _by_controller(context: Context) -> dict[str, Any]:
    params = context.params
    by_controller.check(params)
    template = load_template(params["template"], params["src"])
    app = parse_app({**params, "template": template})
    told = params["replicas"] if params["replicas"] is not None else app.given.replicas
    result = by_controller.present(context, template, told)
    return {**result, "berths": report.rows(_observe(context, app), app.workload)}


def _observe(context: Context, app: AppWanted) -> Observed:
    service = app.service_name if app.service else None
    return observe(context.client, app.name, app.namespace, app.workload, service, bool(app.handed), app.beside)


def _present(context: Context, asked: AppWanted, rules: Rules, turn: int | None = None) -> dict[str, Any]:
    """``turn``: the replica that leaves its node in this run of several; None: all that do, one after the other."""
    until, explain = context.params["until"], context.params["explain"]
    app, observed = _looked(context, asked)
    losses = losing.look(context, app, observed, rules.loss)
    patience = context.params["wait_timeout"] if context.params["wait"] else 0
    planned = ended_pods.into(make_plan(app, observed, until), observed, datetime.now(timezone.utc), patience)
    plan = losses.into(planned)
    due = rescheduling.look(context, app, observed, plan, rules, turn)
    moves = leaving.look(context, app, observed, rules.leave, turn, tuple(losses.by_ordinal), due)
    plan = moves.into(plan)
    for ordinal in plan.replacing:
        context.warn(_replacing(app, observed.berths[ordinal]))
    hand = Hand.of(context, app, observed, plan, rules, {**losses.by_ordinal, **moves.by_ordinal})
    trial = Trial(hand)
    trial.objects()
    selector = Selector(hand)
    choices = selector.select(explain)
    trial.quotas(choices, selector.world)
    builder = Builder(hand, selector)
    updater = _updater(hand, builder, trial)
    changes = updater.changes() if updater is not None else {}
    diff = report.diff(app, observed, plan, choices, goal(app, until), changes)
    result: dict[str, Any] = {"changed": not plan.empty, "diff": diff, **losses.told(observed)}
    result.update(moves.told(choices, diff, app))
    result.update(_told_of_ended(context, app, observed, plan))
    result.update({**_told_of_update(app, updater, changes), **pausing.told(hand)})
    if explain:
        result["explanation"] = {app.berth_name(one.ordinal): explain_outcome(one.outcome) for one in choices}
    if context.check_mode:
        result["berths"] = _foreseen(app, observed, plan, choices)
        for line in leaving.Turn(context, app, observed).hindrances(moves.now):
            context.warn(f"before a replica leaves its node, a run waits for {line}")
    elif turn is None and moves.all:
        result["berths"] = leaving.one_by_one(moves, lambda ordinal: _present(context, asked, rules, ordinal))
    elif plan.empty and not _awaited(context, app, observed, plan):
        result["berths"] = report.rows(observed, app.workload)
    else:
        with leaving.Turn(context, app, observed).of(moves.now):
            told = _carry_out(hand, selector, choices, builder, updater)
        result.update(_reached(hand, result.get("updated", ()), told))
        if "hooks" in result and updater is not None and updater.hooks is not None:
            result["hooks"] = updater.hooks.rows
    return pausing.ended(hand, result, turn)


def _looked(context: Context, asked: AppWanted) -> tuple[AppWanted, Observed]:
    """What is asked for, with what is known from former revisions and counted contents, and what is there."""
    observed = _observe(context, asked)
    refuse_foreign(asked, observed)
    app = counting.counted(context, revisions.rolled_back(context, asked, observed))
    app = paused_by_failure(restarted(app, context.params["restarted_at"], observed), observed)
    return app, caught_up(context, app, observed)


def _told_of_ended(context: Context, app: AppWanted, observed: Observed, plan: Plan) -> dict[str, Any]:
    """The pods that had ended: those that are made anew, and those whose time has not come."""
    for line in ended_pods.told(app, ended_pods.left(plan)):
        context.warn(line)
    found: dict[str, Any] = {"restarted": report.restarted(app, observed, plan)} if plan.restart else {}
    return {**found, "backoff": ended_pods.rows(app, plan.backoff)} if plan.backoff else found


def _told_of_update(app: AppWanted, updater: Updater | None, changes: Mapping[int, PodChange]) -> dict[str, Any]:
    """What is going to be done with the pods that are there. Raises ForbiddenError where hooks could not be run."""
    found: dict[str, Any] = {"updated": report.updated(app, changes)} if changes else {}
    left = updater.left() if updater is not None else {}
    if left:
        found["outdated"] = report.updated(app, left)
    planned = updater.hooks_planned(changes) if updater is not None else []
    return {**found, "hooks": planned} if planned else found


def _reached(hand: Hand, updated: Sequence[dict[str, Any]], told: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The berths as a run has left them; each row of an update says how long its steps took."""
    for row in updated:
        row.update({"not_ready_seconds": None, "pull_seconds": None, **told.get(row["ordinal"], {})})
    app = hand.app
    stopped = app.suspended and hand.context.params["until"] == states.CREATED
    rows = report.suspended_rows if stopped else report.written_rows
    return {"berths": rows({ordinal: hand.record(ordinal) for ordinal in range(app.replicas)})}


def _foreseen(app: AppWanted, observed: Observed, plan: Plan, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """The berths as a run would leave them."""
    gone = {app.berth_name(ordinal) for ordinal in (*plan.release, *plan.discard)}
    kept = [row for row in report.rows(observed, app.workload) if row["name"] not in gone]
    return sorted([*kept, *report.chosen_rows(app, choices)], key=lambda row: int(row["ordinal"]))


def _replacing(app: AppWanted, record: Mapping[str, Any]) -> str:
    told = (record.get("status") or {}).get("replacing") or {}
    return (
        f"berth {app.namespace}/{record['metadata']['name']} is left alone: LocalDisk {told.get('from')} is being "
        f"exchanged for {told.get('to')}; run disk_replace again to finish it"
    )


def _awaited(context: Context, app: AppWanted, observed: Observed, plan: Plan) -> bool:
    """Whether anything is left to wait for: a finished app costs no more than one look."""
    running = states.RUNNING
    done = [
        phase(ordinal, observed, app.workload) == recorded(record) == running
        for ordinal, record in observed.berths.items()
    ]
    return bool(context.params["wait"]) and not app.suspended and (bool(ended_pods.left(plan)) or not all(done))


def _updater(hand: Hand, builder: Builder, trial: Trial) -> Updater | None:
    """Who brings a changed template to the pods; None where nothing is to be brought, or the workload does it."""
    if hand.app.update is None or not (hand.plan.update or hand.plan.outdated or hand.plan.held):
        return None
    return Updater(hand, hand.app.update, builder.create_pod, trial.stateful_set)


def _carry_out(
    hand: Hand, selector: Selector, choices: list[Choice], builder: Builder, updater: Updater | None
) -> dict[int, dict[str, Any]]:
    """The state table, forward; what has to go goes first.

    Returns what is known of each replica that was updated, such as how long its steps took.
    """
    until, plan = hand.context.params["until"], hand.plan
    if not plan.empty:
        handing.check(hand)
        release = Release(hand.context, hand.seen, hand.app.workload, hand.timeout)
        release.clear_stale()
        helping.delete(hand.client, plan.helpers)
        pausing.settle(hand)
        release.scale_down(plan.release, hand.app.replicas)
        reservation = Reservation(hand, selector)
        reservation.discard()
        reservation.reserve(choices)
    told: dict[int, dict[str, Any]] = {}
    try:
        if not plan.empty and states.reached(until, states.BOUND):
            builder.prebind()
        if not plan.empty and states.reached(until, states.CREATED):
            builder.create()
            told = updater.run() if updater is not None and (plan.update or plan.held) else {}
    except BerthError as exc:
        _tell_what_is_left(hand, exc)
        raise
    pausing.refuse_to_go_on(hand)
    if hand.context.params["wait"] and not hand.app.suspended:
        if ended_pods.left(plan):
            raise ended_pods.too_late(hand.app, plan, hand.timeout)
        builder.run()
    return told


def _tell_what_is_left(hand: Hand, failure: BerthError) -> None:
    """Berths that hold disks and have no workload yet: nothing takes them back but a person's word."""
    kept = report.without_workload({o: view.berth for o, view in hand.views.items() if view.berth is not None})
    if kept:
        failure.message += f". {report.left(kept)}"
        failure.details["berths"] = kept


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


def _info(context: Context) -> dict[str, Any]:
    params = context.params
    check_app_name(params["name"], params["namespace"], POD)
    rules = LossRules(inventory=inventory_of(params))
    observed = observe(context.client, params["name"], params["namespace"], STATEFUL_SET, params["name"])
    kept = by_controller.found(context)
    workload = STATEFUL_SET if observed.stateful_set else POD
    stale = [disk["metadata"]["name"] for disk in observed.stale_disks()]
    ready = sum(phase(ordinal, observed, workload) == states.RUNNING for ordinal in observed.berths)
    return {
        "exists": not observed.empty,
        "workload": workload if observed.stateful_set or observed.pods else None,
        "berths": report.rows(observed, workload),
        "ready": ready,
        "stale_locks": stale,
        "lost": losing.seen(context, observed, workload, rules),
        "revisions": revisions.rows(context, observed),
        "stateful_app": by_controller.brief(kept) if kept is not None else None,
        "update_paused": told_by_berths(observed.berths),
        "history": _history(context, observed),
    }


def _history(context: Context, observed: Observed) -> list[dict[str, Any]]:
    """Of each ordinal; also of one whose Berth is gone, as the disks that keep its data tell it."""
    whole = berth_history.rows(observed.berths.values(), context.client.list(LOCAL_DISK))
    return [row for row in whole if (row["namespace"], row["app"]) == (observed.namespace, observed.name)]


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
    _info,
)
