# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before a bare pod that has ended is made anew: waits for its time, and counts its end in the Berth.

Called by building. Whose time comes when is said in berth_core.app.restart_backoff.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ...berth_core.app.ended_pods import told
from ...berth_core.app.restart_backoff import counted, held, is_counted
from ...berth_core.errors import ConflictError
from ...berth_core.model.resources import BERTH, POD
from ..acting import now
from . import overtaking
from .hand import Hand, Object

#: Tries of one write, of which somebody else's changes of the Berth are in the way.
_TRIES = 8


def begin(hand: Hand, ordinal: int) -> bool:
    """Whether the pod that was seen is to go now; False where somebody else has made it anew meanwhile.

    Raises StateError where another run has taken the app over meanwhile, ConflictError.
    """
    pod = hand.seen.pods[hand.app.berth_name(ordinal)]
    waiting = held(pod, hand.record(ordinal), datetime.now(timezone.utc))
    if waiting is not None:
        hand.context.progress(told(hand.app, {ordinal: waiting})[0])
        time.sleep(waiting.seconds)
        overtaking.check(hand, hand.app.template)
        live = hand.client.find(POD, pod["metadata"]["name"], hand.app.namespace)
        if live is not None and live["metadata"]["uid"] != pod["metadata"]["uid"]:
            return False
    _count(hand, ordinal)
    return True


def _count(hand: Hand, ordinal: int) -> None:
    """Written before the pod goes: with the pod its end is forgotten."""
    record, pod = hand.record(ordinal), hand.seen.pods[hand.app.berth_name(ordinal)]
    for _number in range(_TRIES):
        if is_counted(pod, record):
            hand.views[ordinal] = hand.views[ordinal].having(BERTH, record)
            return
        record = _counted(hand, pod, record)
    raise ConflictError(
        f"berth {hand.title(ordinal)} changed before the write {_TRIES} times in a row", 409, "Conflict"
    )


def _counted(hand: Hand, pod: Mapping[str, Any], record: Object) -> Object:
    """The berth as it is now: written, or as somebody else has written it."""
    meta = record["metadata"]
    try:
        return hand.client.replace(BERTH, counted(pod, record, hand.context.actor, now()))
    except ConflictError:
        live = hand.client.find(BERTH, meta["name"], meta["namespace"])
        if live is None or live["metadata"]["uid"] != meta["uid"]:
            raise
        return live
