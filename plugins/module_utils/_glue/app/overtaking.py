# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks whether another run, or the controller, has taken the application over, and writes what must not undo theirs.

Called by building and updating; what counts as overtaken is said in berth_core.app.overtaken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...berth_core.app import manifests, overtaken
from ...berth_core.app.wanted import APP_LABEL
from ...berth_core.app.wanted import POD as POD_WORKLOAD
from ...berth_core.errors import ConflictError
from ...berth_core.lifecycle.history import noted
from ...berth_core.lifecycle.step import REPLACE, Write
from ...berth_core.model.resources import BERTH, POD, STATEFUL_SET
from ..acting import now
from .by_controller import found
from .hand import Hand

Object = dict[str, Any]
#: How often an object is written that somebody writes without changing what matters here, such as its status.
_TRIES = 8


def check(hand: Hand) -> None:
    """Raises StateError where the app is to become something else by now, or somebody else's to carry out."""
    app, client = hand.app, hand.client
    live = None
    if app.workload == POD_WORKLOAD:
        berths = client.list(BERTH, app.namespace, labels=f"{APP_LABEL}={app.name}")
        why = overtaken.berths_taken(app, berths, hand.plan.replacing)
    else:
        live = client.find(STATEFUL_SET, app.name, app.namespace)
        why = overtaken.set_taken(app, live)
    why = why or overtaken.handed_over(app, found(hand.context))
    if why:
        raise overtaken.error(app, why)
    ours = hand.written or hand.seen.stateful_set
    if ours is not None and live is not None:
        _refuse_hands(hand, overtaken.set_changed(app, ours, live))


def _refuse_hands(hand: Hand, why: str) -> None:
    """Raise StateError where there is a ``why``."""
    if why:
        pods = hand.client.list(POD, hand.app.namespace, labels=f"{APP_LABEL}={hand.app.name}")
        raise overtaken.changed_by_hand(hand.app, why, pods)


def apply_set(hand: Hand, desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> None:
    """Apply the StatefulSet by compare-and-swap; ``live``: as it was read last. Raises StateError where it is not what
    the run was planned for any more, ConflictError."""
    app = hand.app
    for left in reversed(range(_TRIES)):
        _refuse_what_was_not_seen(hand, live)
        version = {"resourceVersion": live["metadata"]["resourceVersion"]} if live is not None else {}
        try:
            hand.written = hand.client.apply(STATEFUL_SET, {**desired, "metadata": {**desired["metadata"], **version}})
            return
        except ConflictError:
            if not left:
                raise
            live = hand.client.find(STATEFUL_SET, app.name, app.namespace)


def _refuse_what_was_not_seen(hand: Hand, live: Mapping[str, Any] | None) -> None:
    """Before this run writes its own."""
    planned = hand.seen.stateful_set
    if planned is None or live is None or live is planned:
        return
    why = overtaken.set_moved(hand.app, planned, live)
    if why:
        raise overtaken.error(hand.app, why)
    _refuse_hands(hand, overtaken.set_changed_meanwhile(hand.app, planned, live))


def refresh(hand: Hand, ordinal: int) -> None:
    """Write the template's new facts (requests, labels, ports, revision) into the berth.

    Raises StateError where another run has written others, ConflictError.
    """
    app, own = hand.app, (hand.record(ordinal)["spec"].get("revision"), hand.app.revision)

    def change(record: Object) -> Object:
        if record["spec"].get("revision") not in own:
            raise overtaken.error(app, overtaken.berths_taken(app, [record]))
        step = Write(REPLACE, BERTH, manifests.refreshed(app, ordinal, record), manifests.REFRESHED)
        return noted(step, record, hand.context.actor, now()).body

    hand.rewrite(ordinal, change)
