# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that are wholly berth's, definitions and what comes with them: what is installed, and writing one over it.

Called by crds and policies. What to do with each is decided in berth_core/app/crd_plan.py and policy_plan.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from ..berth_core.app.crd_plan import CrdChange, updated
from ..berth_core.errors import ConflictError, NotFoundError
from ..berth_core.model.resources import Resource
from .base import Context

Object = dict[str, Any]
Plan = Callable[[Mapping[str, Any], Optional[Mapping[str, Any]]], CrdChange]
_LABELS = "app.kubernetes.io/part-of=berth"
_ATTEMPTS = 5


def installed(context: Context, resource: Resource, names: Sequence[str]) -> dict[str, Object | None]:
    """One LIST by berth's label; only what carries another label, or is not there, is asked for by name."""
    found: dict[str, Object | None] = {
        item["metadata"]["name"]: item for item in context.client.list(resource, labels=_LABELS)
    }
    return {name: found[name] if name in found else context.client.find(resource, name) for name in names}


def write(context: Context, resource: Resource, plan: Plan, change: CrdChange, body: Mapping[str, Any]) -> Object:
    """Create or replace; whoever writes the same object meanwhile makes this look again, a bounded number of times."""
    for _attempt in range(_ATTEMPTS):
        try:
            if change.action == "create":
                return context.client.create(
                    resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body}
                )
            return context.client.replace(resource, updated(change))
        except ConflictError as exc:
            conflict = exc
        except NotFoundError as exc:  # removed between the reading and the writing
            conflict = ConflictError(exc.message, exc.status, exc.reason, exc.causes)
        live = context.client.find(resource, change.name)
        change = plan(body, live)
        if change.action == "none" and live is not None:
            return live
    raise conflict
