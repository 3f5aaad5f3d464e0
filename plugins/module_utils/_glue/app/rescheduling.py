# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""update_strategy: reschedule: finds out whose place a changed template costs.

Called by stateful_app. What is decided is decided in berth_core.app.rescheduling; each replica's turn is leaving.py's.
"""

from __future__ import annotations

from ...berth_core.app import overtaken, rescheduling
from ...berth_core.app.leaving import Due
from ...berth_core.app.observed import Observed
from ...berth_core.app.plan import Plan
from ...berth_core.app.wanted import AppWanted
from ..base import Context
from .hand import Hand, Rules
from .leaving import NOBODY
from .trying import Trial
from .updating import Updater


def look(
    context: Context, app: AppWanted, observed: Observed, plan: Plan, rules: Rules, turn: int | None
) -> Due | None:
    """Whose place the template costs, and because of which fields; None where no template does.

    ``turn``: as leaving.look has it. Raises StateError in a replica's turn where another run has given the app another
    template since.
    """
    if not rescheduling.wanted(app) or app.update is None:
        return None
    live = observed.stateful_set
    if turn not in (None, NOBODY) and live is not None:
        why = overtaken.set_taken(app, live)
        if why:
            raise overtaken.error(app, why)
    if not plan.update:
        return {}
    hand = Hand.of(context, app, observed, plan, rules, {})
    trial = Trial(hand)
    trial.objects()
    return rescheduling.due(app, Updater(hand, app.update, _no_pod, trial.stateful_set).changes())


def _no_pod(ordinal: int) -> None:
    raise AssertionError(f"nothing is made in a look, and no pod of ordinal {ordinal}")
