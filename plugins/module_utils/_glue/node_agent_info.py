# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_agent_info: which agents live, Ready and with which configuration, and which disks are held on their
nodes. Waits where that is wanted.

Called by plugins/modules/node_agent_info.py and plugins/action/node_agent_info.py. Never writes.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ..berth_core.app.node_agents import LEASE_PREFIX, NAMESPACE, absent_agent, agent_of, held_disks, unready
from ..berth_core.errors import NotFoundError, TimeoutExpired
from ..berth_core.model.names import check_names
from ..berth_core.model.resources import LEASE, LOCAL_DISK
from .base import Context, Operation
from .objects import poll


def run(context: Context) -> dict[str, Any]:
    params = context.params
    check_names(params["node_names"], "node_names")
    found: list[dict[str, Any]] = []
    missing: list[str] = []

    def look() -> bool | None:
        found[:] = _agents(context)
        missing[:] = list(filter(None, (unready(each, params["configuration"], params["version"]) for each in found)))
        return None if missing else True

    if not params["wait"]:
        look()
    elif not poll(look, params["wait_timeout"]):
        raise TimeoutExpired(f"not Ready after {params['wait_timeout']} s: {'; '.join(missing)}", agents=found)
    return {"changed": False, "agents": found, "unready": missing, "held": _held(context)}


def _agents(context: Context) -> list[dict[str, Any]]:
    """Those that are asked for, whether they have been heard of or not; by default all that have."""
    now, names = datetime.now(timezone.utc), context.params["node_names"]
    leases = context.client.list(LEASE, NAMESPACE)
    heard = [agent_of(each, now) for each in leases if str(each["metadata"]["name"]).startswith(LEASE_PREFIX)]
    known = {agent["node"]: agent for agent in heard}
    return [known.get(name) or absent_agent(name) for name in sorted(known if names is None else names)]


def _held(context: Context) -> list[dict[str, str]]:
    try:
        return held_disks(context.client.list(LOCAL_DISK), context.params["node_names"])
    except NotFoundError:  # the custom resources are not installed
        return []


OPERATION = Operation(
    name="node_agent_info",
    options={
        "node_names": {"type": "list", "elements": "str", "aliases": ["node_name"]},
        "configuration": {"type": "str"},
        "version": {"type": "str"},
        "wait": {"type": "bool", "default": False},
        "wait_timeout": {"type": "int", "default": 180},
    },
    run=run,
)
