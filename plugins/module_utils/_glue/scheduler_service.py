# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module scheduler with mode: service: what a scheduler on hosts needs in the cluster, and whether it leads.

Called by scheduler.py. What is on the hosts is the role's. Everything is read, and every refusal made, before the first
write.
"""

from __future__ import annotations

import json
from typing import Any

from ..berth_core.app import scheduler_install, service_install
from ..berth_core.app.scheduler_install import Wanted
from ..berth_core.app.shipped import Owner, leader
from . import installing
from .base import Context
from .installing import Object


def present(context: Context, owner: Owner, manifests: list[Object]) -> dict[str, Any]:
    params = context.params
    taken = {key: params[key] for key in ("name", "namespace", "config")}
    wanted = Wanted(image="", outside_plugins=params["outside_plugins"] or (), **taken)
    bodies = installing.in_order("scheduler", service_install.objects(manifests, wanted))
    found = installing.changes(context, owner, bodies)
    installing.refuse_without_resources(context, owner)
    diff = installing.write(context, owner, found)
    document, profiles = scheduler_install.configuration(wanted)
    result = {
        "changed": bool(diff),
        "diff": diff,
        "scheduler_names": profiles,
        "configuration": json.dumps(document, indent=2, sort_keys=True) + "\n",
    }
    before = installing.lease(context, owner)
    if params["wait"] and not context.check_mode:
        installing.wait_until(
            context, owner, "lead", lambda: service_install.not_leading(installing.lease(context, owner), before)
        )
        before = installing.lease(context, owner)
    return {**result, "leader": leader(before)}
