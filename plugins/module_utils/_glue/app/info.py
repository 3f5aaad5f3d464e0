# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is there of an application, for the operation stateful_app_info."""

from __future__ import annotations

from typing import Any

from ...berth_core.app import berth_history, report
from ...berth_core.app.node_loss import LossRules, inventory_of
from ...berth_core.app.observed import Observed, phase
from ...berth_core.app.update_failure import told_by_berths
from ...berth_core.app.wanted import POD, STATEFUL_SET, check_app_name
from ...berth_core.lifecycle import states
from ...berth_core.model.resources import LOCAL_DISK
from ..base import Context
from . import by_controller, losing, revisions
from .observe import observe


def info(context: Context) -> dict[str, Any]:
    params = context.params
    check_app_name(params["name"], params["namespace"], POD)
    rules = LossRules(inventory=inventory_of(params))
    observed = observe(context.client, params["name"], params["namespace"], STATEFUL_SET, params["name"])
    kept = by_controller.found(context)
    if by_controller.is_its(kept):
        by_controller.warn_without_controller(context)
    workload = STATEFUL_SET if observed.stateful_set else POD
    stale = [disk["metadata"]["name"] for disk in observed.stale_disks()]
    ready = sum(phase(ordinal, observed, workload) == states.RUNNING for ordinal in observed.berths)
    return {
        "exists": not observed.empty,
        "workload": workload if observed.stateful_set or observed.pods else None,
        "berths": report.rows(observed, workload),
        "ready": ready,
        "stale_locks": stale,
        "lost": losing.seen(context, observed, workload, rules),
        "revisions": revisions.rows(context, observed),
        "stateful_app": by_controller.brief(kept) if kept is not None else None,
        "update_paused": told_by_berths(observed.berths),
        "history": _history(context, observed),
    }


def _history(context: Context, observed: Observed) -> list[dict[str, Any]]:
    """Of each ordinal; also of one whose Berth is gone, as the disks that keep its data tell it."""
    whole = berth_history.rows(observed.berths.values(), context.client.list(LOCAL_DISK))
    return [row for row in whole if (row["namespace"], row["app"]) == (observed.namespace, observed.name)]
