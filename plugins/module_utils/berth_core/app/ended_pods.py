# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare pods that have ended: which of a plan's a driver makes anew now, and what is told of the others. Pure.

When each one's time comes, restart_backoff.py says. Called by both drivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..errors import TimeoutExpired
from .observed import Observed
from .plan import Plan
from .restart_backoff import Backoff, held
from .wanted import AppWanted


def into(plan: Plan, observed: Observed, now: datetime, patience: float = 0.0) -> Plan:
    """The plan that leaves alone the pods whose time has not come.

    ``patience``: seconds for which the driver waits itself. Pods whose time comes by then stay in ``restart``.
    """
    waiting: dict[int, Backoff] = {}
    for ordinal in plan.restart:
        pod, record = observed.pod(ordinal), observed.berths.get(ordinal)
        found = held(pod, record, now) if pod is not None and record is not None else None
        if found is not None:
            waiting[ordinal] = found
    late = {ordinal for ordinal, one in waiting.items() if one.seconds > patience}
    return replace(plan, restart=tuple(each for each in plan.restart if each not in late), backoff=waiting)


def left(plan: Plan) -> dict[int, Backoff]:
    """Those that this run, or this look, does not make anew."""
    return {ordinal: one for ordinal, one in plan.backoff.items() if ordinal not in plan.restart}


def in_order(plan: Plan) -> list[int]:
    """The replicas whose pods are made anew, those that wait last, and the shortest wait first."""
    return sorted(plan.restart, key=lambda each: (plan.backoff[each].seconds if each in plan.backoff else 0.0, each))


def told(app: AppWanted, waiting: Mapping[int, Backoff]) -> list[str]:
    """A line for each, for people."""
    return [
        f"pod {app.berth_name(ordinal)} has ended {one.count} times in a row, the last time as {one.ended}: waiting "
        f"until {one.until} before it is made anew"
        for ordinal, one in sorted(waiting.items())
    ]


def rows(app: AppWanted, waiting: Mapping[int, Backoff]) -> list[dict[str, Any]]:
    """The same for a result."""
    return [
        {"pod": app.berth_name(ordinal), "ended": one.ended, "count": one.count, "until": one.until}
        for ordinal, one in sorted(waiting.items())
    ]


def too_late(app: AppWanted, plan: Plan, seconds: float) -> TimeoutExpired:
    """The error of a run that waits for all pods, and for no more than ``seconds``."""
    lines = told(app, left(plan))
    return TimeoutExpired(
        f"{'; '.join(lines)}, which is longer than wait_timeout ({seconds:g} s). Mend the cause, and run the task "
        "again then, or with a longer wait_timeout",
        missing=lines,
        changed=not plan.empty,
    )
