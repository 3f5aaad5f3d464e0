# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before a bare pod that has ended is made anew: waits for its time, and counts its end in the Berth.

Called by building. Whose time comes when is said in berth_core.app.restart_backoff.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone

from ...berth_core.app.ended_pods import told
from ...berth_core.app.restart_backoff import counted, held, is_counted
from ...berth_core.model.resources import POD
from ..acting import now
from . import overtaking
from .hand import Hand, Object


def begin(hand: Hand, ordinal: int) -> bool:
    """Whether the pod that was seen is to go now; False where somebody else has made it anew meanwhile.

    Raises StateError where another run has taken the app over meanwhile, ConflictError.
    """
    pod = hand.seen.pods[hand.app.berth_name(ordinal)]
    waiting = held(pod, hand.record(ordinal), datetime.now(timezone.utc))
    if waiting is not None:
        hand.context.progress(told(hand.app, {ordinal: waiting})[0])
        time.sleep(waiting.seconds)
        overtaking.check(hand)
        live = hand.client.find(POD, pod["metadata"]["name"], hand.app.namespace)
        if live is not None and live["metadata"]["uid"] != pod["metadata"]["uid"]:
            return False
    _count(hand, ordinal)
    return True


def _count(hand: Hand, ordinal: int) -> None:
    """Written before the pod goes: with the pod its end is forgotten."""
    pod = hand.seen.pods[hand.app.berth_name(ordinal)]

    def change(record: Object) -> Object | None:
        return None if is_counted(pod, record) else counted(pod, record, hand.context.actor, now())

    hand.rewrite(ordinal, change)
