# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who changes berths in this run, and when: what the history of a berth tells (berth_core.lifecycle.history).

Called by base.Context. The API server says as whom it knows the account; where it does not say so, that is left out.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime, timezone

from ..berth_core.errors import BerthError
from ..berth_core.lifecycle.history import Actor
from ..berth_core.model.resources import Resource
from .client import ApiClient

REVIEW = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


def actor_of(component: str, ran: Mapping[str, str], client: ApiClient) -> Actor:
    """``ran``: playbook, task, host and commit, as far as they are known."""
    known = {key: ran[key] for key in ("playbook", "task", "host", "commit") if ran.get(key)}
    return Actor(component, **{"user": user(client), "host": platform.node(), **known})


def user(client: ApiClient) -> str:
    """The account's name; empty where the API server does not tell it."""
    body = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "metadata": {}}
    try:
        # A review is an answer and no object: as a dry run it counts for no write.
        answer = client.create(REVIEW, body, dry_run=True)
    except BerthError:
        return ""  # what comes next fails by itself where the API server cannot be reached
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")


def now() -> str:
    """The present as the API server writes it, to the microsecond."""
    moment = datetime.now(timezone.utc).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds") + "Z"
