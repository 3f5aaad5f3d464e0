# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads where an update goes: the template and its revision, and the templates that the pods have.

Called by the Updater.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...berth_core.app import manifests
from ...berth_core.app.observed import Observed
from ...berth_core.app.plan import OWN, lags
from ...berth_core.app.pod_change import with_running_fields
from ...berth_core.app.pod_revision import Target
from ...berth_core.app.wanted import POD as POD_WORKLOAD
from ...berth_core.app.wanted import AppWanted
from ...berth_core.errors import ForbiddenError
from ...berth_core.model.resources import STATEFUL_SET
from ..base import Context
from ..objects import poll
from .hand import Hand, Object
from .revisions import listed, seen_by_its_controller

#: The mark of a revision that the StatefulSet's controller has not named yet.
_NEW = "(new)"
#: Seconds for which the StatefulSet's controller is waited for where only the plan would be less exact.
_MOMENT = 5.0


def caught_up(context: Context, app: AppWanted, observed: Observed) -> Observed:
    """What was seen, with the StatefulSet a moment later where its controller has not looked at it yet."""

    def seen() -> Observed | None:
        found = context.client.find(STATEFUL_SET, app.name, app.namespace)
        later = replace(observed, stateful_set=found)
        return None if lags(app, later) else later

    return (poll(seen, _MOMENT) if lags(app, observed) else None) or observed


class UpdateTarget:
    """Read once before the StatefulSet is written, and once after. ``tried``: it as a dry run returned it."""

    def __init__(self, hand: Hand, tried: Object | None) -> None:
        self._hand, self._tried = hand, tried
        self._known: Target | None = None

    def written(self) -> None:
        """The StatefulSet is written: its controller is asked what its revision is called."""
        if self._tried is not None:
            self._known = self._tried = None

    def get(self) -> Target:
        """Read where nobody has yet."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> Target:
        app = self._hand.app
        if app.workload == POD_WORKLOAD:
            return Target(app.revision, app.template, self._bare_templates(), OWN, comes_back=False)
        if self._tried is not None:
            return Target(_NEW, self._tried["spec"]["template"], self._revisions())
        # First: then all revisions are there that pods may have.
        live = seen_by_its_controller(self._hand.client, app.name, app.namespace, self._hand.timeout)
        return Target(str(live["status"]["updateRevision"]), live["spec"]["template"], self._revisions())

    def _bare_templates(self) -> dict[str, Any]:
        """The templates of bare pods that differ from the new one in nothing but what a running pod takes."""
        app, found = self._hand.app, {}
        for pod in self._hand.seen.pods.values():
            base = (pod["metadata"].get("annotations") or {}).get(manifests.BASE_ANNOTATION)
            if base == app.base:
                found[OWN.of(pod) or ""] = with_running_fields(app.template, pod)
        return found

    def _revisions(self) -> dict[str, Any]:
        """The templates that the StatefulSet's controller has kept, by the label of their pods."""
        app = self._hand.app
        try:
            kept = listed(self._hand.client, app.name, app.namespace)
        except ForbiddenError as exc:
            self._hand.context.warn(f"{exc.message}: every pod is made anew, because what has changed is not known")
            return {}
        return {one["metadata"]["name"]: one["data"]["spec"]["template"] for one in kept}
