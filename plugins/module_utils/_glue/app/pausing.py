# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes in the Berth of a replica that its update has failed, and that this is over. What that means says
berth_core.app.update_failure."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ...berth_core.app.update_failure import noted, refuse, row, with_failure, words
from ...berth_core.app.update_rules import Failure
from ...berth_core.errors import StateError
from .hand import Hand


def _record(hand: Hand, ordinal: int, failure: Failure | None) -> None:
    """Raises ConflictError where somebody writes the Berth without pause."""
    hand.rewrite(ordinal, lambda live: with_failure(live, failure))


def pause(hand: Hand, ordinal: int, why: str, missing: list[Any] | None = None) -> StateError:
    """Write the failure down. Returns the error with which the run ends."""
    failure = noted(hand.app, ordinal, why, datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    _record(hand, ordinal, failure)
    left = [one for one in hand.plan.update if one != ordinal]
    more = {} if missing is None else {"missing": missing}
    return StateError(words(hand.app, failure, left), changed=True, update_paused=row(failure), **more)


def settle(hand: Hand) -> None:
    """Take back what is written of failures that are over."""
    for ordinal in hand.plan.settled:
        _record(hand, ordinal, None)


def told(hand: Hand) -> dict[str, Any]:
    """For the result: for which failure the update is paused. In check mode a warning says what a run ends with."""
    app, left = hand.app, hand.plan.outdated
    failure = app.update.failure if app.update is not None else None
    if failure is None:
        return {}
    if hand.context.check_mode and left:
        hand.context.warn(words(app, failure, left))
    return {"update_paused": row(failure)}


def refuse_to_go_on(hand: Hand) -> None:
    """Raise StateError where the update is paused for a failure, and replicas have another template."""
    refuse(hand.app, hand.plan.outdated, not hand.plan.empty)


def ended(hand: Hand, result: dict[str, Any], turn: int | None) -> dict[str, Any]:
    """The result of a run, or, where all else is done, the error that the update is paused. ``turn``: of a replica that
    leaves its node: the run around it says it."""
    if turn is None and not hand.context.check_mode:
        refuse_to_go_on(hand)
    return result
