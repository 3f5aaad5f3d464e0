# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas that leave nodes: reads these nodes, tells what is going to be done, and has one leave after the other.

Called by stateful_app. What may be done is decided by berth_core.app.leaving; the berths are given up by reserving.py,
as every other one that is chosen anew. Each replica's turn is a run of its own, so one that died is continued by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Callable, NamedTuple

from ...berth_core.app import leaving, replace_request, rescheduling
from ...berth_core.app.choose import Choice
from ...berth_core.app.leave_rules import LeaveRules
from ...berth_core.app.leaving import Due, Move
from ...berth_core.app.observed import Observed
from ...berth_core.app.plan import Plan
from ...berth_core.app.update_step import rest
from ...berth_core.app.wanted import APP_LABEL, AppWanted
from ...berth_core.errors import TimeoutExpired
from ...berth_core.lifecycle import states
from ...berth_core.lifecycle.lost import Loss
from ...berth_core.model.resources import NODE, POD, POD_DISRUPTION_BUDGET
from ..base import Context
from ..objects import poll
from . import wait

#: A turn in which nobody leaves: what else is to be done comes first.
NOBODY = -1


class Moves(NamedTuple):
    """``all``: who leaves its node or is placed anew, in order. ``now``: those of them that this turn is about.

    ``later``: whose berth is being given up already, and whose pod is taken down in its own turn.
    """

    all: list[Move]
    now: list[Move]
    by_ordinal: dict[int, Loss]
    later: tuple[int, ...] = ()

    def into(self, plan: Plan) -> Plan:
        """The plan in which their berths go first and are chosen anew."""
        moving = [move.ordinal for move in self.all if move.why is not None]
        plan = rescheduling.without_updates(plan, moving) if moving else plan
        return leaving.into(plan, [move.ordinal for move in self.now], self.later) if self.all else plan

    def told(self, choices: Sequence[Choice], diff: dict[str, Any], app: AppWanted) -> dict[str, Any]:
        """For the result: nothing where nobody leaves. Adds to the diff what becomes of each."""
        rows = leaving.rows(self.now, choices)
        for row in rows:
            diff["after"]["objects"][f"Pod {app.namespace}/{row['pod']}"] = leaving.words(row)
        return {"moved": rows} if rows else {}


def look(
    context: Context,
    app: AppWanted,
    observed: Observed,
    rules: LeaveRules,
    turn: int | None,
    lost: Sequence[int],
    due: Due | None = None,
) -> Moves:
    """Who leaves, of all (``turn`` None) or in one turn. ``lost``: ordinals that go because their nodes are lost.

    ``due``: who is placed anew. Raises BerthError where it may not be done. Costs a GET for each node that is left.
    Whose berth a run before has begun to give up goes first, named or not; one that is Ready waits for its turn.
    """
    for told in replace_request.done_before(rules.replaced, observed.berths.values()) if turn is None else ():
        context.warn(told)
    found = leaving.find_moves(app, observed, rules, due)
    found = leaving.in_order(app, observed, [*found, *leaving.find_begun(app, observed, found)])
    found = [move for move in found if move.ordinal not in lost]
    names = dict.fromkeys([*rules.nodes, *(move.node for move in found)])
    nodes = {name: context.client.find(NODE, name) for name in names}
    leaving.check_moves(app, observed, rules, found, nodes)
    begun = [move for move in found if move.begun]
    down = [move.ordinal for move in begun if not leaving.is_up(observed, move)]
    now = [move for move in found if turn is None or move.ordinal in (turn, *down)]
    later = tuple(move.ordinal for move in begun if move not in now)
    return Moves(found, now, leaving.losses(observed, now), later)


def one_by_one(turn: Turn, moves: Moves, again: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Everything else first, then one replica after the other; ``again`` runs one turn. Returns the last berths."""
    result, left = again(NOBODY), list(moves.all)
    while left:
        move = turn.next_of(left)
        left.remove(move)
        result = again(move.ordinal)
    return list(result["berths"])


class Turn:
    """Whose turn it is, and the waits around it: before a replica is taken down, and until it is back elsewhere."""

    def __init__(self, context: Context, app: AppWanted, observed: Observed) -> None:
        self._context, self._app, self._seen = context, app, observed
        self._seconds = float(context.params["wait_timeout"])

    def hindrances(self, moves: Sequence[Move]) -> tuple[str, ...]:
        """Why the first of them that is up may not be taken down now."""
        if not moves or self._app.suspended:
            return ()
        seen = self._look()
        first = next((move for move in moves if leaving.is_up(seen, move)), None)
        if first is None:
            return ()
        budgets = self._context.client.list(POD_DISRUPTION_BUDGET, self._app.namespace)
        return leaving.hindrances(self._app, seen, first, budgets, datetime.now(timezone.utc))

    def next_of(self, moves: Sequence[Move]) -> Move:
        """Whose turn it is when one may be taken down: while a run waits for that, another one may become the primary.

        Raises TimeoutExpired; nothing of that replica has been touched then.
        """
        if self._app.update is None or self._app.update.primary is None:
            return moves[0]
        while True:
            first = leaving.in_order(self._app, self._look(), moves)[0]
            self.wait_before([first])
            if leaving.in_order(self._app, self._look(), moves)[0] == first:
                return first

    @contextmanager
    def of(self, moves: Sequence[Move]) -> Iterator[None]:
        """Around the writes of a turn."""
        self.wait_before(moves)
        yield
        self.wait_after(moves)

    def wait_before(self, moves: Sequence[Move]) -> None:
        """Raises TimeoutExpired; nothing of the turn has been touched then."""
        lines = self.hindrances(moves)
        if not lines:
            return
        self._context.progress(f"waiting for {'; '.join(lines)}")
        if not poll(lambda: True if not self.hindrances(moves) else None, self._seconds):
            left = self.hindrances(moves) or lines
            raise TimeoutExpired(
                f"waited {self._seconds:g} s before replica {self._app.namespace}/{moves[0].pod} leaves node "
                f"{moves[0].node}; still missing: {'; '.join(left)}. That replica was not touched; run the task again "
                "to go on",
                missing=list(left),
                changed=False,
            )

    def wait_after(self, moves: Sequence[Move]) -> None:
        """Until they are Ready elsewhere, for as long as the rules of updates ask."""
        if self._app.suspended or not moves or self._context.params["until"] != states.CREATED:
            return
        names = [move.pod for move in moves]
        wait.until(
            self._context.client,
            POD,
            self._app.namespace,
            f"{APP_LABEL}={self._app.name}",
            self._seconds,
            wait.pods_ready(names),
            f"{', '.join(names)} to be Ready in another berth",
            self._context.progress,
        )
        seconds = self._app.update.min_ready if self._app.update is not None else 0
        poll(lambda: True if self._rested(names, seconds) else None, self._seconds + seconds)

    def _rested(self, names: Sequence[str], seconds: int) -> bool:
        pods, now = self._look().pods, datetime.now(timezone.utc)
        return not any(rest(pods[name], seconds, now) for name in names if name in pods)

    def _look(self) -> Observed:
        labels = f"{APP_LABEL}={self._app.name}"
        pods = self._context.client.list(POD, self._app.namespace, labels=labels)
        return replace(self._seen, pods={pod["metadata"]["name"]: pod for pod in pods})
