# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select -> Reserved, against everybody else who does the same: write down, look at all berths again, lock, record.

Whoever loses a race undoes its own, looks again and chooses again. A run that cannot place all its replicas gives up
the berths that it made itself, unless another run of the same app has carried them further meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...berth_core.app import choose, manifests, states
from ...berth_core.app.choose import Choice
from ...berth_core.app.observed import recorded
from ...berth_core.errors import BerthError, ConflictError, LockError, NotFoundError, StateError
from ...berth_core.model.resources import BERTH
from . import steps
from .hand import Hand, Object
from .selecting import Selector

#: Rounds of choosing again. Every lost round means that another run has won something, so a busy cluster converges.
ROUNDS = 40


class Reservation:
    """``made``: ordinals whose berth was created by this run, and is undone by it if it cannot go on."""

    def __init__(self, hand: Hand, selector: Selector) -> None:
        self._hand = hand
        self._client = hand.client
        self._selector = selector
        self._made: list[int] = []
        self._lost: dict[int, str] = {}
        self._again: list[int] = []

    def discard(self) -> None:
        """Give up choices that were written down, never locked, and no longer suit the request."""
        for ordinal in self._hand.plan.discard:
            steps.unreserve(self._client, self._hand.records.pop(ordinal), keep_data=False)

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
            waiting = sorted({*pending, *(choice.ordinal for choice in choices)})
            if not waiting:
                return
            self._settle(waiting)
            if not self._lost and not self._again:
                return
            self._hand.context.progress(f"lost a race for {self._lost or self._again}; choosing again")
            # Two losers should not meet again in step; nothing secret depends on the number.
            time.sleep(random.uniform(0, 0.02 * 2 ** min(attempt, 5)))  # noqa: S311
            pending = self._again
            choices = self._selector.again(list(self._lost))
        reasons = "; ".join(f"{self._hand.title(ordinal)}: {why}" for ordinal, why in sorted(self._lost.items()))
        raise LockError(f"lost the race for disks or nodes {ROUNDS} times in a row, and gave up: {reasons}")

    def _write_down(self, choice: Choice) -> None:
        """Create the Berth, or take the one that another run of this app has just created."""
        for _attempt in range(ROUNDS):
            record = self._create_or_read(choice)
            if record is not None:
                self._hand.records[choice.ordinal] = record
                return
        title = self._hand.title(choice.ordinal)
        raise LockError(f"{title}: other runs created this berth and gave it up {ROUNDS} times in a row")

    def _create_or_read(self, choice: Choice) -> Object | None:
        """The record; None where it was there when we wrote, and gone when we read."""
        app = self._hand.app
        body = manifests.berth(app, choice.ordinal, choice.node, choice.disks, choice.devices)
        try:
            made = self._client.create(BERTH, body)
        except ConflictError:
            return self._client.find(BERTH, body["metadata"]["name"], app.namespace)
        self._made.append(choice.ordinal)
        return made

    def _settle(self, waiting: Sequence[int]) -> None:
        """Decide each berth that is written down: its locks and its Reserved record, or lost and forgotten."""
        self._lost, self._again = {}, []
        hand, world = self._hand, self._selector.world
        now = self._client.list(BERTH)
        by_uid = {record["metadata"]["uid"]: record for record in now}
        known = {record["metadata"]["uid"] for record in (world.berths if world else ())}
        own = {record["metadata"]["uid"] for record in hand.records.values()}
        strangers = set(by_uid) - known - own
        seen = {disk["metadata"]["name"]: disk for disk in world.disks} if world else dict(hand.seen.disks)
        for ordinal in waiting:
            record = by_uid.get(hand.records[ordinal]["metadata"]["uid"])
            if record is None:
                self._lost[ordinal] = "its berth was given up by another run of this app"
                del hand.records[ordinal]
                continue
            hand.records[ordinal] = record
            fresh = recorded(record) == states.SELECTED
            if fresh and world and (strangers or ordinal not in self._made):
                outcome = choose.still_fits(hand.app, replace(world, berths=now), record)
                if outcome.placement is None:
                    self._lose(ordinal, outcome.diagnosis.message())
                    continue
            self._lock(ordinal, record, seen, fresh)

    def _lock(self, ordinal: int, record: Object, seen: Mapping[str, Mapping[str, Any]], fresh: bool) -> None:
        try:
            self._hand.disks[ordinal] = steps.reserve(self._client, self._hand.app, record, seen)
        except (LockError, NotFoundError) as exc:
            if not fresh:  # its disks carry data: a choice that was final is never made again
                raise StateError(
                    f"berth {self._hand.title(ordinal)} has lost what it held: {exc.message}; "
                    "find out who took it away before anything else is done with this app"
                ) from exc
            self._lose(ordinal, exc.message)

    def _lose(self, ordinal: int, why: str) -> None:
        record = self._hand.records.pop(ordinal)
        if not steps.take_back(self._client, record):
            self._hand.records[ordinal] = record
            self._again.append(ordinal)
            return
        self._lost[ordinal] = why
        if ordinal in self._made:
            self._made.remove(ordinal)

    def _undo(self) -> None:
        """Give up what this run has made, highest ordinal first. What cannot be undone now, the next run continues."""
        for ordinal in sorted(self._made, reverse=True):
            record = self._hand.records.get(ordinal)
            if record is not None:
                try:
                    steps.take_back(self._client, record)
                except BerthError as exc:
                    self._hand.context.warn(f"berth {self._hand.title(ordinal)} could not be given up: {exc.message}")
