# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select -> Reserved, against everybody else who does the same: write down, look at all berths again, lock, record.

Whoever loses a race gives its own up, looks again and chooses again. Reserved, from which on a disk may carry data, is
recorded when all replicas of the run have their locks: so a run that cannot place them all gives up what it made
without a trace, unless another run of the same app has carried it further meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace

from ...berth_core.app import choose
from ...berth_core.app.choose import Choice
from ...berth_core.app.observing import view_of
from ...berth_core.errors import BerthError, LockError
from ...berth_core.lifecycle import states
from ...berth_core.lifecycle.driving import given_up, refuse, reserved, there
from ...berth_core.lifecycle.step import Choose
from ...berth_core.lifecycle.view import View, recorded
from ...berth_core.model.resources import BERTH, LOCAL_DISK
from .hand import Hand, Object
from .selecting import Selector

#: Rounds of choosing again. Every lost round means that another run has won something, so a busy cluster converges.
ROUNDS = 40


class Reservation:
    """``made``: ordinals whose berth was created by this run, and is given up by it if it cannot go on."""

    def __init__(self, hand: Hand, selector: Selector) -> None:
        self._hand = hand
        self._driver = hand.driver
        self._selector = selector
        self._made: list[int] = []
        self._lost: dict[int, str] = {}

    def discard(self) -> None:
        """Give up choices that were never locked and no longer suit the request, and what an earlier run began to."""
        for ordinal in self._hand.plan.discard:
            view = replace(self._hand.views.pop(ordinal), owner=None, loss=self._hand.losses.get(ordinal))
            view, until = given_up(self._hand.complete(view, None), self._hand.owner(ordinal))
            driven = self._driver.drive(view, until)
            self._hand.given_up(ordinal, driven.view)

    def reserve(self, choices: Sequence[Choice]) -> None:
        """Every ordinal Reserved, or none that this run began."""
        advance = self._hand.plan.advance or {}
        pending = [ordinal for ordinal, phase in advance.items() if phase == states.SELECTED]
        try:
            self._rounds(list(choices), pending)
        except BerthError:
            self._undo()
            raise

    def _rounds(self, choices: list[Choice], pending: list[int]) -> None:
        for attempt in range(ROUNDS):
            for choice in choices:
                self._write_down(choice)
            pending = sorted({*pending, *(choice.ordinal for choice in choices)} - set(self._lost))
            if not pending and not self._lost:
                return
            self._settle(pending)
            if not self._lost:
                self._record(pending)
            if not self._lost:
                return
            self._hand.context.progress(f"lost a race for {self._lost}; choosing again")
            # Two losers should not meet again in step; nothing secret depends on the number.
            time.sleep(random.uniform(0, 0.02 * 2 ** min(attempt, 5)))  # noqa: S311
            again, self._lost = self._lost, {}
            pending = [ordinal for ordinal in pending if ordinal not in again]
            choices = self._selector.again(list(again))
        reasons = "; ".join(f"{self._hand.title(ordinal)}: {why}" for ordinal, why in sorted(again.items()))
        raise LockError(f"lost the race for disks or nodes {ROUNDS} times in a row, and gave up: {reasons}")

    def _write_down(self, choice: Choice) -> None:
        """Create the Berth, or take the one that another run of this app has just created."""
        hand, ordinal = self._hand, choice.ordinal
        # It may be there, and be given up by another run: then it is helped to go, and made anew.
        view = replace(view_of(hand.seen, ordinal), berth=None, owner=hand.owner(ordinal, chosen=choice))
        view = replace(view, loss=hand.losses.get(ordinal))
        for disk in hand.behind.get(ordinal, ()):
            view = view.having(LOCAL_DISK, disk)
        driven = self._driver.drive(view, there)
        hand.views[ordinal] = driven.view
        if driven.made:
            self._made.append(ordinal)

    def _settle(self, waiting: Sequence[int]) -> None:
        """Decide each berth that is written down: it has all its locks, or it is lost and forgotten."""
        hand, world = self._hand, self._selector.world
        now = hand.client.list(BERTH)
        by_uid = {record["metadata"]["uid"]: record for record in now}
        known = {record["metadata"]["uid"] for record in (world.berths if world else ())}
        own = {view.berth["metadata"]["uid"] for view in hand.views.values() if view.berth is not None}
        strangers = set(by_uid) - known - own
        for ordinal in waiting:
            view = hand.views[ordinal]
            record = by_uid.get(view.berth["metadata"]["uid"]) if view.berth is not None else None
            if record is None:
                self._lose(ordinal, "its berth was given up by another run of this app")
                continue
            unsure = world is not None and (bool(strangers) or ordinal not in self._made)
            refused = self._refused(now, record) if unsure and recorded(record) == states.SELECTED else ""
            view = replace(view, berth=record, owner=hand.owner(ordinal, alone=False, refused=refused))
            self._carry(ordinal, hand.complete(view, world))

    def _refused(self, now: list[Object], record: Object) -> str:
        world = self._selector.world
        if world is None:
            return ""
        outcome = choose.still_fits(self._hand.app, replace(world, berths=now), record)
        return "" if outcome.placement is not None else outcome.diagnosis.message()

    def _record(self, waiting: Sequence[int]) -> None:
        """All have their locks: Reserved is recorded for each."""
        for ordinal in waiting:
            self._carry(ordinal, replace(self._hand.views[ordinal], owner=self._hand.owner(ordinal)))

    def _carry(self, ordinal: int, view: View) -> None:
        """As far as it comes before volumes and claims; lost where its choice is to be made again."""
        driven = self._driver.drive(view, reserved)
        if not driven.asked:
            refuse(self._hand.title(ordinal), driven.step)
        if isinstance(driven.step, Choose):
            self._lose(ordinal, driven.why)
        else:
            self._hand.views[ordinal] = driven.view

    def _lose(self, ordinal: int, why: str) -> None:
        self._hand.views.pop(ordinal, None)
        self._lost[ordinal] = why
        if ordinal in self._made:
            self._made.remove(ordinal)

    def _undo(self) -> None:
        """Give up what this run has made, highest ordinal first. What cannot be undone now, the next run continues."""
        for ordinal in sorted(self._made, reverse=True):
            view = self._hand.views.get(ordinal)
            if view is not None:
                try:
                    self._driver.give_up(view, "the run that made it could not place all its replicas")
                except BerthError as exc:
                    self._hand.context.warn(f"berth {self._hand.title(ordinal)} could not be given up: {exc.message}")
