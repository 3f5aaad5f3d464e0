"""Replicas that leave nodes, one in a look: who is next, and what it waits for.

Called by visit.py before anything is written. What may be done is decided by berth_core.app.leaving; the berth is given
up and chosen anew by reserving.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from berth_core.app import leaving, rescheduling
from berth_core.app.leave_rules import LeaveRules, leave_rules
from berth_core.app.leaving import (
    Due,
    Move,
    check_moves,
    find_begun,
    find_moves,
    hindrances,
    in_order,
    is_up,
    losses,
)
from berth_core.app.observed import Observed
from berth_core.app.plan import Plan
from berth_core.app.pod_revision import change_of
from berth_core.app.stateful_app_object import in_fields, options_of, with_budgets_in_fields
from berth_core.app.wanted import AppWanted
from berth_core.errors import BerthError
from berth_core.lifecycle.lost import Loss
from berth_core.model.resources import NODE, POD_DISRUPTION_BUDGET
from berth_kube.clocks import utc_now

from . import losing
from .losing import Losing, NodeOf
from .requests import Requests
from .target import foreseen_target


@dataclass(frozen=True)
class Leaving:
    """``losses``: of who leaves in this look, by ordinal. ``later``: who else is to have a place before the first goes.

    ``waits``: what comes before the next one leaves. ``anew``: who is placed anew because of the template, in its turn.
    ``home``: whose berths go in this look because that was begun, and nobody asks for it any more. ``begun``: whose
    berths are being given up, too, and are left alone until it is their turn.
    ``lost``: who has to leave because its node is lost: these are first, and are in ``losses``, too.
    """

    rules: LeaveRules = field(default_factory=LeaveRules)
    losses: Mapping[int, Loss] = field(default_factory=dict)
    later: tuple[int, ...] = ()
    waits: tuple[str, ...] = ()
    anew: tuple[int, ...] = ()
    home: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()
    lost: Losing = field(default_factory=Losing)

    def into(self, plan: Plan) -> Plan:
        """The plan in which their berths go first and are chosen anew."""
        plan = rescheduling.without_updates(plan, self.anew) if self.anew else plan
        return leaving.into(plan, self.gone, self.begun) if self.gone or self.begun else plan

    @property
    def gone(self) -> tuple[int, ...]:
        """Whose berths go in this look."""
        return (*self.losses, *self.home)


async def look(
    api: Requests, body: Mapping[str, Any], app: AppWanted, seen: Observed, plan: Plan, node_of: NodeOf
) -> Leaving:
    """Who leaves now: whose node is lost, else whose berth is given up already, else the next one, when nothing else is
    to be done.

    Raises BerthError in the words of the kind where it may not be done.
    """
    options = options_of(body)
    lost = await losing.look(api, options, app, seen, node_of)
    if lost.losses:
        return Leaving(leave_rules(options, app.name, app.replicas), lost.losses, begun=lost.left, lost=lost)
    found = await _look(api, options, app, seen, plan)
    return replace(found, begun=(*found.begun, *lost.left), lost=lost)


async def _look(api: Requests, options: Mapping[str, Any], app: AppWanted, seen: Observed, plan: Plan) -> Leaving:
    try:
        rules = leave_rules(options, app.name, app.replicas)
        due = await _due(api, app, seen, plan)
        moves = find_moves(app, seen, rules, due)
        moves = in_order(app, seen, [*moves, *find_begun(app, seen, moves)])
        if not rules.nodes and not moves:
            return Leaving(rules)
        there = {item["metadata"]["name"]: item for item in await api.list(NODE)}
        names = (*rules.nodes, *(move.node for move in moves))
        check_moves(app, seen, rules, moves, {name: there.get(name) for name in names})
    except BerthError as exc:
        exc.message = in_fields(exc.message)
        raise
    down = [move for move in moves if move.begun and not is_up(seen, move)]
    up = tuple(move.ordinal for move in moves if move.begun and move not in down)
    anew = tuple(move.ordinal for move in moves if move.why is not None)
    if down or not moves or not leaving.into(rescheduling.without_updates(plan, anew), (), up).empty:
        return Leaving(rules, losses(seen, down), anew=anew, home=_home(down), begun=up)
    first, *others = moves
    if not app.suspended:
        budgets = await api.list(POD_DISRUPTION_BUDGET, app.namespace)
        waits = tuple(map(with_budgets_in_fields, hindrances(app, seen, first, budgets, utc_now())))
        if waits:
            return Leaving(rules, waits=waits, anew=anew, begun=up)
    later = tuple(move.ordinal for move in others if move.why is None and not move.home)
    left = tuple(ordinal for ordinal in up if ordinal != first.ordinal)
    return Leaving(rules, losses(seen, [first]), later, anew=anew, home=_home([first]), begun=left)


def _home(moves: Iterable[Move]) -> tuple[int, ...]:
    return tuple(move.ordinal for move in moves if move.home)


async def _due(api: Requests, app: AppWanted, seen: Observed, plan: Plan) -> Due | None:
    """Whose place a changed template costs, and because of which fields; None where no template does."""
    if not rescheduling.wanted(app):
        return None
    if not plan.update:
        return {}
    target = await foreseen_target(api, app, seen)
    if target is None:
        return {}  # it is looked at again when the StatefulSet's controller has seen it; no pod is touched before
    pods = {ordinal: seen.pod(ordinal) for ordinal in plan.update}
    return rescheduling.due(app, {ordinal: change_of(pod, target) for ordinal, pod in pods.items() if pod is not None})
