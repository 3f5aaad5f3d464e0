# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What both drivers of an update know of its helper pods, beside the pods themselves: whose was refused. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..lifecycle.view import View
from . import helper_pods, pre_pull, update_hold
from .helper_pods import HOLD, PULL

Object = Mapping[str, Any]


class Helped:
    """Of one app. ``values``: of PriorityClasses (update_hold.values)."""

    def __init__(self, app: str, values: Mapping[str, int]) -> None:
        self._app, self._values = app, values
        self._without: dict[str, set[int]] = {PULL: set(), HOLD: set()}

    def pulls(self, pods: Mapping[str, Object]) -> pre_pull.Pulls:
        """What app.update has to know of ``pods``, all of the app, that pull."""
        return pre_pull.Pulls(helper_pods.of_app(pods, self._app, PULL), frozenset(self._without[PULL]))

    def holds(self, pods: Mapping[str, Object], views: Mapping[int, View]) -> update_hold.Holds:
        """Likewise of those that hold."""
        berths = {ordinal: view.berth for ordinal, view in views.items() if view.berth is not None}
        found = helper_pods.of_app(pods, self._app, HOLD)
        return update_hold.Holds(found, berths, self._values, frozenset(self._without[HOLD]))

    def goes_on_without(self, kind: str, ordinal: int, why: str) -> str:
        """From now on the replica does without that kind of helper pod; the warning."""
        self._without[kind].add(ordinal)
        words = pre_pull.goes_on_without if kind == PULL else update_hold.goes_on_without
        return words(f"{self._app}-{ordinal}", why)

    def went_without(self, ordinal: int) -> bool:
        """Whether the replica's room was not held, although that was asked for."""
        return ordinal in self._without[HOLD]
