# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tries on the API server, without writing (dryRun=All), what a run is going to create; in check mode too.

Called by the flow before the choice. What is tried and what a refusal means is decided in berth_core.app.trial. One
request for all objects that are alike; none where nothing is to be created or changed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...berth_core.app import manifests, quota, trial
from ...berth_core.app.choose import Choice, World
from ...berth_core.app.limit_range import with_defaults
from ...berth_core.app.wanted import STATEFUL_SET
from ...berth_core.errors import (
    AdmissionError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InputError,
    UnauthorizedError,
    UnavailableError,
)
from ...berth_core.model.resources import LIMIT_RANGE, POD, RESOURCE_QUOTA, Resource
from ...berth_core.model.resources import STATEFUL_SET as STATEFUL_SETS
from .hand import Hand

Object = dict[str, Any]
#: Seconds for which the service account of a new namespace is waited for.
_NEW_NAMESPACE = 10.0


class Trial:
    """``stateful_set``: as it would be, where it changes.

    ``_full``: refusals by a quota, which is held against everything at once when that is known.
    """

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        self.stateful_set: Object | None = None
        self._full: list[tuple[Resource, ApiError]] = []

    def objects(self) -> None:
        """Try them, and take into the hand what admission makes of a pod. Raises InputError for the first refusal."""
        hand = self._hand
        if hand.plan.empty:
            return
        if trial.needs_pod(hand.plan):
            hand.app = replace(hand.app, admitted=self._admitted())
        for resource, body in trial.workload(hand.app, hand.seen):
            tried = self._try(resource, body, apply=True)
            if resource == STATEFUL_SETS:
                self.stateful_set = tried
        for resource, body in trial.storage(hand.app, hand.seen):
            with contextlib.suppress(ConflictError):  # it is there: whose it is, the lifecycle finds out
                self._try(resource, body)

    def quotas(self, choices: Sequence[Choice], world: World | None) -> None:
        """Hold everything that will be created against the quotas of the namespace. Raises InputError."""
        hand = self._hand
        if hand.plan.empty:
            return
        class_of = trial.Classes(hand.seen, choices, world)
        wanted = [one for one in trial.demands(hand.app, hand.seen, hand.plan, class_of) if one.count > 0]
        if not wanted:
            return  # what is only replaced makes its own room
        lines = quota.refusals(self._listed(RESOURCE_QUOTA, "they are not checked for all replicas at once"), wanted)
        if lines:
            raise InputError(trial.exceeded(hand.app, lines))
        for resource, refused in self._full:
            raise trial.refusal(hand.app, resource, refused) from refused

    def _try(self, resource: Resource, body: Mapping[str, Any], apply: bool = False) -> Object | None:
        """The object as it would be; None where only a quota says no. Raises ConflictError."""
        client = self._hand.client
        try:
            return (client.apply if apply else client.create)(resource, body, dry_run=True)
        except (ConflictError, UnauthorizedError, UnavailableError):
            raise
        except ApiError as exc:
            if trial.is_quota(exc):
                self._full.append((resource, exc))
                return None
            if isinstance(exc, ForbiddenError) and not isinstance(exc, AdmissionError):
                raise
            raise trial.refusal(self._hand.app, resource, exc) from exc

    def _admitted(self) -> Object:
        """A pod of the app as admission returns it, or, where that cannot be had, with the defaults of LimitRanges."""
        hand = self._hand
        try:
            try:
                found = self._pod(trial.trial_pod(hand.app, hand.seen))
            except ConflictError:  # somebody else's pod, or a new one: another name tells as much
                found = self._pod(trial.trial_pod(hand.app, hand.seen, aside=True))
        except ForbiddenError as exc:
            if hand.app.workload != STATEFUL_SET:
                raise
            hand.context.warn(f"{exc.message}: what admission makes of the pods is only known from LimitRanges")
            found = None
        if found is None:
            ranges = self._listed(LIMIT_RANGE, "what they add to the pods is not counted")
            found = with_defaults(manifests.untied_pod(hand.app, 0), ranges)
        return found

    def _pod(self, body: Object) -> Object | None:
        """Try it; a namespace that was just made gets its service account a moment later."""
        deadline = time.monotonic() + _NEW_NAMESPACE
        while True:
            try:
                return self._try(POD, body)
            except InputError as exc:
                if not trial.is_new_namespace(exc) or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _listed(self, resource: Resource, without: str) -> list[Object]:
        namespace = self._hand.app.namespace
        try:
            return self._hand.client.list(resource, namespace)
        except ForbiddenError as exc:
            self._hand.context.warn(f"{exc.message}: {without}")
            return []
