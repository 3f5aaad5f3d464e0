# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module kube_scheduler_info: which stock kube-schedulers are Ready, and with which configuration. Waits where that
is wanted.

Called by plugins/modules/kube_scheduler_info.py and plugins/action/kube_scheduler_info.py. Never writes.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app.kube_schedulers import LABELS, NAMESPACE, scheduler_of, unready
from ..berth_core.errors import TimeoutExpired
from ..berth_core.model.names import check_names
from ..berth_core.model.resources import POD
from .base import Context, Operation
from .objects import poll


def run(context: Context) -> dict[str, Any]:
    params = context.params
    check_names(params["node_names"], "node_names")
    found: dict[str, dict[str, Any]] = {}
    missing: list[str] = []

    def look() -> bool | None:
        found.clear()
        found.update((each["node"], each) for each in map(scheduler_of, context.client.list(POD, NAMESPACE, LABELS)))
        names = sorted(found) if params["node_names"] is None else params["node_names"]
        missing[:] = filter(None, (unready(name, found.get(name), params["configuration"]) for name in names))
        return None if missing else True

    if not params["wait"]:
        look()
    elif not poll(look, params["wait_timeout"]):
        raise TimeoutExpired(f"not Ready after {params['wait_timeout']} s: {'; '.join(missing)}")
    names = params["node_names"]
    listed = [each for node, each in sorted(found.items()) if names is None or node in names]
    return {"changed": False, "schedulers": listed, "unready": missing}


OPERATION = Operation(
    name="kube_scheduler_info",
    options={
        "node_names": {"type": "list", "elements": "str", "aliases": ["node_name"]},
        "configuration": {"type": "str"},
        "wait": {"type": "bool", "default": False},
        "wait_timeout": {"type": "int", "default": 180},
    },
    run=run,
)
