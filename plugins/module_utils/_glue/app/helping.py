# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes and deletes the helper pods of an update, nominates pods, and takes the time. Decides nothing: app.update,
app.pre_pull and app.update_hold do.

Called by the Updater; by the flow for those that nobody asks for any more, and for what has to be there beforehand.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ...berth_core.app import helper_pods, pre_pull, update_hold, update_step
from ...berth_core.app.helped import Helped
from ...berth_core.errors import ApiError, ConflictError, ForbiddenError, NotFoundError
from ...berth_core.model.resources import POD, PRIORITY_CLASS
from ..client import ApiClient
from .hand import Hand

Object = Mapping[str, Any]


def delete(client: ApiClient, pods: Iterable[Object]) -> None:
    """Delete these very helper pods."""
    for pod in pods:
        meta = pod["metadata"]
        client.delete(POD, meta["name"], meta["namespace"], uid=meta["uid"])


def priorities(hand: Hand) -> dict[str, int]:
    """The values of the PriorityClasses that count where rooms are to be held; empty: none is held.

    Raises StateError where the cluster has no class for hold pods.
    """
    rules, app = hand.app.update, hand.app
    if rules is None or not rules.hold or not hand.plan.update:
        return {}
    try:
        names = update_hold.classes(app.template, hand.seen.pods.values())
        found = {name: hand.client.find(PRIORITY_CLASS, name) for name in names}
    except ForbiddenError as exc:
        hand.context.warn(update_hold.not_known(exc.message))
        return {}
    return update_hold.values(found)


class Helper:
    """``values``: see priorities. ``seconds``: for how long this run has waited for the images of each replica."""

    def __init__(self, hand: Hand, values: Mapping[str, int]) -> None:
        self._hand, self._helped = hand, Helped(hand.app.name, values)
        self._since: dict[int, float] = {}
        self._warned: set[str] = set()
        self.seconds: dict[int, float] = {}

    def begin(self) -> None:
        """What an earlier run could not have pulled is tried anew by this one: its kubelet may wait for minutes."""
        now, hand = datetime.now(timezone.utc), self._hand
        pulls = helper_pods.of_app(hand.seen.helpers, hand.app.name, helper_pods.PULL)
        delete(hand.client, [pod for pod in pulls.values() if pre_pull.troubled(pod, now)])

    def pulls(self, pods: Mapping[str, Object]) -> pre_pull.Pulls:
        """What app.update has to know of ``pods``, all of the app, that pull."""
        return self._helped.pulls(pods)

    def holds(self, pods: Mapping[str, Object]) -> update_hold.Holds:
        """Likewise of those that hold."""
        return self._helped.holds(pods, self._hand.views)

    def do(self, act: update_step.Act) -> bool:
        """Carry the act out, if it is one of a helper pod. A replica's time ends with its next act of another kind."""
        if act.do == update_step.PULL:
            self._since.setdefault(act.ordinal, time.monotonic())
            self._make(act)
        elif act.do == update_step.DROP:
            delete(self._hand.client, [act.body])
        else:
            if act.ordinal in self._since:
                self.seconds[act.ordinal] = round(time.monotonic() - self._since.pop(act.ordinal), 1)
            if act.do == update_step.HOLD:
                self._make(act)
            elif act.nomination is not None:
                self._nominate(act.ordinal, act.nomination)
            else:
                return False
        return True

    def went_without(self, ordinal: int) -> bool:
        """Whether the replica's room was not held, although that was asked for."""
        return self._helped.went_without(ordinal)

    def _make(self, act: update_step.Act) -> None:
        try:
            self._hand.client.create(POD, act.body)
        except ConflictError:
            return  # somebody has made it: it is looked at again
        except ApiError as exc:
            if not helper_pods.refused(exc):
                raise
            self._goes_on_without(act.do, act.ordinal, exc.message)

    def _nominate(self, ordinal: int, nomination: update_hold.Nomination) -> None:
        """The room changes hands in one go: between the two writes a scheduler may try the pod, and take it back."""
        meta = nomination.pod["metadata"]
        try:
            self._hand.client.patch(POD, meta["name"], meta["namespace"], nomination.patch, "status")
        except (ConflictError, NotFoundError):
            return  # it is looked at again
        except ApiError as exc:
            if not helper_pods.refused(exc):
                raise
            self._goes_on_without(update_step.HOLD, ordinal, update_hold.no_right(exc.message))
        delete(self._hand.client, nomination.drop)

    def _goes_on_without(self, kind: str, ordinal: int, why: str) -> None:
        self.warn([self._helped.goes_on_without(kind, ordinal, why)])

    def warn(self, notes: Iterable[str]) -> None:
        """Each note once."""
        for note in notes:
            if note not in self._warned:
                self._warned.add(note)
                self._hand.context.warn(note)
