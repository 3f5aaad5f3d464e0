# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod whose node has not carried its resize out yet: why, since when, and for how long it is waited for. Pure.

Called by update, for what is told, and by update_failure, for what pauses. A resize that the node refuses for good
(Infeasible) is none of it: such a pod is made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .pod_revision import RESIZING, updating

PENDING, IN_PROGRESS, INFEASIBLE = "PodResizePending", "PodResizeInProgress", "Infeasible"
Object = Mapping[str, Any]


class Waiting(NamedTuple):
    """``why``: reason and message of the condition. ``since``: its time, as the API server writes it; may be empty."""

    why: str
    since: str


def waiting(pod: Object) -> Waiting | None:
    """What the node of a pod waits for that an update has resized; None: for nothing, or it has not looked yet."""
    status, to = pod.get("status") or {}, updating(pod)
    seen, asked = status.get("observedGeneration"), int(pod["metadata"].get("generation") or 0)
    if to is None or RESIZING in to or (seen is not None and int(seen) < asked):
        return None
    for one in status.get("conditions") or ():
        here = one["type"] in (PENDING, IN_PROGRESS) and one["status"] == "True" and one.get("reason") != INFEASIBLE
        if here:
            told = [str(one[key]) for key in ("reason", "message") if one.get(key)]
            return Waiting(": ".join(told) or str(one["type"]), str(one.get("lastTransitionTime") or ""))
    return None


def words(pod: Object, deadline: float | None) -> str:
    """Since when the resize waits, and what ends that: in brackets, behind the reason; empty where that is not known.

    ``deadline``: of the update's rules, in seconds; None: nothing pauses it.
    """
    found = waiting(pod)
    if found is None or not found.since:
        return ""
    ends = f"the update pauses after {deadline:g} s" if deadline is not None else "pause_on_failure sets a deadline"
    return f" (since {found.since}; {ends})"
