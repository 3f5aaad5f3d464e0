# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon of which there is one in a cluster: the options of its module, what is asked, what is refused, the wait.

Called by controller.py and task_backend.py, whose daemons they are. Objects are compared and written by installing.py.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app import crd_schemas
from ..berth_core.app.daemon_flags import LOG_LEVELS
from ..berth_core.app.daemon_install import Wanted
from ..berth_core.app.shipped import SHIPPED_NAMESPACE, Owner
from ..berth_core.errors import InputError
from ..berth_core.model import resources as kinds
from . import installing
from .base import Context
from .installing import Object
from .tried import Change

OPTIONS: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "namespace": {"type": "str", "default": SHIPPED_NAMESPACE},
    "image": {"type": "str"},
    "replicas": {"type": "int", "default": 2},
    "log_level": {"type": "str", "choices": list(LOG_LEVELS), "default": "info"},
    "flags": {"type": "dict"},
    **installing.POD_OPTIONS,
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 300},
    "force": {"type": "bool", "default": False},
    "manifests": {"type": "list", "elements": "dict"},
}
_TAKEN = ("namespace", "image", "replicas", "priority_class", "resources", "node_selector", "tolerations", "log_level")


def asked(context: Context, module: str, origin: str) -> tuple[Owner, list[Object]]:
    """Whose the objects called ``origin`` are, and the shipped ones. Raises InputError that names the option."""
    params = context.params
    if not params["manifests"]:
        raise InputError(f"{module}: there are no manifests; run it as a task (its action plugin brings them)")
    shipped = installing.in_order(module, params["manifests"])
    installing.check_pods(params)
    return Owner(module, origin, origin, params["namespace"], several=False), shipped


def wanted(context: Context, owner: Owner) -> Wanted:
    """The daemon that is asked for."""
    params = context.params
    if not params["image"]:
        raise InputError(f"{owner.kind}: image is missing, which state: present runs")
    return Wanted(name=owner.name, flags=params["flags"] or {}, **{key: params[key] for key in _TAKEN})


def changes(context: Context, owner: Owner, bodies: list[Object]) -> list[Change]:
    """What differs; every refusal is made here."""
    found = installing.changes(context, owner, bodies)
    installing.refuse_what_cannot_run(context, owner)
    _refuse_other_schemas(context, owner)
    return found


def leading(context: Context, owner: Owner, diff: list[Object]) -> dict[str, Any]:
    """The result, once a pod leads where that is waited for."""
    result: dict[str, Any] = {"changed": bool(diff), "diff": diff}
    if context.params["wait"] and not context.check_mode:
        result["leader"] = installing.wait_until_it_leads(context, owner)
    return result


def _refuse_other_schemas(context: Context, owner: Owner) -> None:
    """What another release wrote would be read wrongly, or what it writes would be dropped."""
    for name in crd_schemas.SCHEMAS:
        live = context.client.find(kinds.CRD, name)
        problem = (
            crd_schemas.other_schema(name, live) if live else f"{name} is missing: install it with the module crds"
        )
        if problem:
            installing.refuse(context, f"{owner.kind}: {problem}")
