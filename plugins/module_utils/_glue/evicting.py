# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends a pod through the Eviction API, which asks the pod's PodDisruptionBudget in the same step.

Called by maintenance and app/updating.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.app.budgets import eviction, refusal
from ..berth_core.errors import ConflictError, NotFoundError, UnavailableError
from ..berth_core.model.resources import POD
from .client import ApiClient


def evict(client: ApiClient, pod: Mapping[str, Any], dry_run: bool = False) -> str:
    """Evict this very pod. Returns why a budget forbids it now, or an empty text."""
    try:
        client.create(POD, eviction(pod), dry_run=dry_run, subresource="eviction")
    except (NotFoundError, ConflictError):
        return ""  # it went by itself, or another one has its name: the next look tells
    except UnavailableError as exc:
        return refusal(exc)
    return ""
