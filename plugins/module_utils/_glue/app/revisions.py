# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the revisions of an application from the API server. Never writes; what they mean says app.revisions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ...berth_core.app import revisions
from ...berth_core.app.observed import Observed
from ...berth_core.app.wanted import APP_LABEL, AppWanted
from ...berth_core.errors import ForbiddenError, TimeoutExpired
from ...berth_core.model.resources import CONTROLLER_REVISION, STATEFUL_SET
from ..base import Context
from ..client import ApiClient
from ..objects import poll


def listed(client: ApiClient, name: str, namespace: str) -> list[dict[str, Any]]:
    """The ControllerRevisions that bear the app's name."""
    return client.list(CONTROLLER_REVISION, namespace, labels=f"{APP_LABEL}={name}")


def is_seen(live: Mapping[str, Any]) -> bool:
    """Whether the StatefulSet's controller has named the revision of its template."""
    status = live.get("status") or {}
    current = int(status.get("observedGeneration") or 0) >= int(live["metadata"]["generation"])
    return current and bool(status.get("updateRevision"))


def seen_by_its_controller(client: ApiClient, name: str, namespace: str, seconds: float) -> dict[str, Any]:
    """The StatefulSet, once its controller has named the revision of its template. Raises TimeoutExpired."""

    def seen() -> dict[str, Any] | None:
        live = client.get(STATEFUL_SET, name, namespace)
        return live if is_seen(live) else None

    found = poll(seen, seconds)
    if found is None:
        raise TimeoutExpired(
            f"waited {seconds:g} s for StatefulSet {namespace}/{name} to be seen by its controller: is "
            "kube-controller-manager running? Run the task again to go on",
            changed=True,
        )
    return found


def rows(context: Context, observed: Observed) -> list[dict[str, Any]]:
    """For stateful_app_info."""
    now = datetime.now(timezone.utc)
    if observed.stateful_set is None:
        return revisions.bare_rows(observed, now)
    try:
        kept = listed(context.client, observed.name, observed.namespace)
    except ForbiddenError as exc:
        context.warn(f"{exc.message}: the revisions are not known")
        return []
    return revisions.set_rows(revisions.of_set(kept, observed.stateful_set), observed, now)


def applied_last(context: Context, observed: Observed) -> dict[str, Any] | None:
    """The template that the StatefulSet was given last; None: it is not known, or may not be read."""
    try:
        kept = listed(context.client, observed.name, observed.namespace)
    except ForbiddenError:
        return None
    return revisions.applied_last(kept, observed.stateful_set)


def rolled_back(context: Context, app: AppWanted, observed: Observed) -> AppWanted:
    """The app with the template that ``rollback_to`` asks for, where it does."""
    asked = context.params["rollback_to"]
    if asked is None:
        return app
    live = observed.stateful_set
    kept = listed(context.client, app.name, app.namespace) if live is not None else []
    return revisions.rolled_back(app, asked, live, revisions.of_set(kept, live))
