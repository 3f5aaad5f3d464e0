# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fewer replicas, and a quorum: whether enough of those that stay are Ready when the highest ordinals go. Pure.

That ``quorum`` is no more than the new number is checked with the options (app.update_rules). Here it is about a
replica that stays and is down: the votes that count may be just those that would go.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import StateError
from .manifests import quorum_of
from .observed import Observed, ready
from .wanted import AppWanted


def hindrance(app: AppWanted, observed: Observed) -> str:
    """Why the highest ordinals may not go now; empty where they may, or where none that is Ready would go."""
    quorum = quorum_of(app)
    ordinals = {*observed.berths, *range(app.replicas)}
    up = [one for one in sorted(ordinals) if ready(observed.pod(one))]
    stay = [one for one in up if one < app.replicas]
    go = [one for one in up if one >= app.replicas]
    if app.suspended or not go or len(stay) >= quorum:
        return ""
    names = ", ".join(app.berth_name(one) for one in stay) or "none"
    down = ", ".join(app.berth_name(one) for one in range(app.replicas) if one not in stay)
    leave = ", ".join(app.berth_name(one) for one in go)
    return (
        f"{app.namespace}/{app.name}: with replicas: {app.replicas} the Ready {leave} would go, and {len(stay)} would "
        f"be left Ready ({names}), and quorum is {quorum}. Keep replicas: {max(observed.berths) + 1} until "
        f"{quorum - len(stay)} more of those that stay ({down}) are Ready; or give a smaller quorum, or none, where so "
        "few may be left"
    )


def check(app: AppWanted, observed: Observed) -> None:
    """For a run, which a person looks at. Raises StateError."""
    why = hindrance(app, observed)
    if why:
        raise StateError(f"{why}. Nothing was changed")


def held_back(app: AppWanted, observed: Observed) -> tuple[AppWanted, str]:
    """For who looks again: the app with the replicas that it has for as long as some may not go, so that everything
    else is done meanwhile; and why, or empty."""
    why = hindrance(app, observed)
    return (replace(app, replicas=max(observed.berths) + 1), why) if why else (app, "")
