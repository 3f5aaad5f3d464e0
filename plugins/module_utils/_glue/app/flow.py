# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flow by which a playbook brings an application to what is asked for, from what is there.

plan (pure) -> try (dry runs) -> choose (pure) -> quotas -> [check mode ends here] -> give up -> reserve -> prebind ->
create -> wait. Called by the operation stateful_app.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Callable

from ...berth_core.app import by_hand, ended_pods, report, scale_down
from ...berth_core.app.choose import Choice
from ...berth_core.app.choose import explain as explain_outcome
from ...berth_core.app.not_ours import refuse_foreign
from ...berth_core.app.observed import Observed, phase
from ...berth_core.app.plan import Plan, goal, hand_made, make_plan, needs_former
from ...berth_core.app.pod_change import PodChange
from ...berth_core.app.restarts import restarted
from ...berth_core.app.update_failure import paused_by_failure
from ...berth_core.app.wanted import AppWanted
from ...berth_core.errors import BerthError
from ...berth_core.lifecycle import states
from ...berth_core.lifecycle.view import recorded
from ..base import Context
from . import counting, handing, helping, leaving, losing, pausing, rescheduling, revisions
from .building import Builder
from .hand import Hand, Rules
from .observe import observe
from .release import Release
from .reserving import Reservation
from .selecting import Selector
from .targets import caught_up
from .trying import Trial
from .updating import Updater


def _nothing(_hand: Hand) -> None:
    pass


def present(
    context: Context,
    asked: AppWanted,
    rules: Rules,
    turn: int | None = None,
    begin: Callable[[Hand], None] = _nothing,
) -> dict[str, Any]:
    """Bring the application to what is asked for.

    ``turn``: the replica that leaves its node in this run of several; None: all that do, one after the other.
    ``begin``: called when nothing has refused it, before the first write; in check mode, too.
    """
    until, explain = context.params["until"], context.params["explain"]
    app, observed = _looked(context, asked)
    losses = losing.look(context, app, observed, rules.loss)
    patience = context.params["wait_timeout"] if context.params["wait"] else 0
    planned = ended_pods.into(make_plan(app, observed, until), observed, datetime.now(timezone.utc), patience)
    plan = losses.into(planned)
    due = rescheduling.look(context, app, observed, plan, rules, turn)
    moves = leaving.look(context, app, observed, rules.leave, turn, tuple(losses.by_ordinal), due)
    plan = moves.into(plan)
    _warn_of_others(context, app, observed, plan)
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
    result.update({**moves.told(choices, diff, app), **_told_of_ended(context, app, observed, plan)})
    result.update({**_told_of_update(app, updater, changes), **pausing.told(hand)})
    if explain:
        result["explanation"] = {app.berth_name(one.ordinal): explain_outcome(one.outcome) for one in choices}
    _begin(hand, begin)
    if context.check_mode:
        result["berths"] = _foreseen(app, observed, plan, choices)
        for line in leaving.Turn(context, app, observed).hindrances(moves.now):
            context.warn(f"before a replica leaves its node, a run waits for {line}")
    elif turn is None and moves.all:
        result["berths"] = leaving.one_by_one(
            leaving.Turn(context, app, observed), moves, lambda which: present(context, asked, rules, which)
        )
    elif plan.empty and not _awaited(context, app, observed, plan):
        result["berths"] = report.rows(observed, app.workload)
    else:
        with leaving.Turn(context, app, observed).of(moves.now):
            told = _carry_out(hand, selector, choices, builder, updater)
        result.update(_reached(hand, result.get("updated", ()), told))
        if "hooks" in result and updater is not None and updater.hooks is not None:
            result["hooks"] = updater.hooks.rows
    return pausing.ended(hand, result, turn)


def _begin(hand: Hand, begin: Callable[[Hand], None]) -> None:
    if not (hand.context.check_mode or hand.plan.empty):
        handing.check(hand)
    begin(hand)


def _warn_of_others(context: Context, app: AppWanted, observed: Observed, plan: Plan) -> None:
    """What others do, or have done since the last run: that is left alone, this goes, and not in silence."""
    for ordinal in plan.replacing:
        context.warn(_replacing(app, observed.berths[ordinal]))
    former = revisions.applied_last(context, observed) if needs_former(app, observed, plan) else None
    undone = hand_made(app, observed, plan, former)
    if undone:
        context.warn(
            f"StatefulSet {app.namespace}/{app.name} was changed by others, and is written as this task has it; put "
            f"into the task what is to stay: {by_hand.told_back(undone)}"
        )


def _looked(context: Context, asked: AppWanted) -> tuple[AppWanted, Observed]:
    """What is asked for, with what is known from former revisions and counted contents, and what is there."""
    observed = observed_of(context, asked)
    refuse_foreign(asked, observed)
    scale_down.check(asked, observed)
    app = counting.counted(context, revisions.rolled_back(context, asked, observed))
    app = paused_by_failure(restarted(app, context.params["restarted_at"], observed), observed)
    return app, caught_up(context, app, observed)


def observed_of(context: Context, app: AppWanted) -> Observed:
    service = app.service_name if app.service else None
    return observe(context.client, app.name, app.namespace, app.workload, service, bool(app.handed), app.beside)


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
