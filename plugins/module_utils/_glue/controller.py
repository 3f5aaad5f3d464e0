# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module controller: the controller in the cluster, with its rights, its pods and the CSIDriver of its provisioner.

Called by plugins/modules/controller.py and plugins/action/controller.py. The manifests are the collection's own
(deploy/controller), what is made of them is decided in berth_core/app/controller_install.py. Everything is read, and
every refusal made, before the first write.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app import capacity
from ..berth_core.app import controller_install as install
from ..berth_core.app.shipped import Owner
from ..berth_core.errors import NotFoundError, StateError
from ..berth_core.model import resources as kinds
from ..berth_core.model.names import first
from . import daemon, installing
from .base import Context, Operation
from .crds import bring
from .installing import Object


def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    return bring(arguments, "manifests", "controller")


def run(context: Context) -> dict[str, Any]:
    owner, shipped = daemon.asked(context, "controller", install.SHIPPED)
    act = _absent if context.params["state"] == "absent" else _present
    return act(context, owner, shipped)


def _present(context: Context, owner: Owner, shipped: list[Object]) -> dict[str, Any]:
    found = daemon.changes(context, owner, install.objects(shipped, daemon.wanted(context, owner)))
    return daemon.leading(context, owner, installing.write(context, owner, found))


def _absent(context: Context, owner: Owner, shipped: list[Object]) -> dict[str, Any]:
    found = installing.found_of(context, owner, shipped)
    claims = _claims(context) if found else []
    if claims and not context.params["force"]:
        raise StateError(
            f"{owner} is not removed while claims need it: {first(claims)}. Nobody else would bind them, or "
            "give their disks up; delete them first, or set force: true",
            claims=claims,
        )
    applications = _applications(context) if found else []
    if applications and not context.params["force"]:
        raise StateError(
            f"{owner} is not removed while it carries StatefulApps out: {first(applications)}. Nobody else would give "
            "their berths up; delete them first, give them driver: playbook, or set force: true",
            claims=claims,
        )
    pods = [each for each in found if each.kind is kinds.DEPLOYMENT]
    diff = installing.remove(context, owner, pods)
    # While something is left that a run that was cut off would find.
    diff += installing.remove_lease(context, owner) + _remove_capacities(context) if found else []
    diff += installing.remove(context, owner, [each for each in found if each not in pods])
    return {"changed": bool(diff), "diff": diff, "claims": claims}


def _claims(context: Context) -> list[str]:
    """Those that need the controller."""
    of = (context.client.list(kind) for kind in (kinds.PVC, kinds.STORAGE_CLASS, kinds.PV))
    return install.needed_by(*of)


def _applications(context: Context) -> list[str]:
    try:
        return install.carried_out(context.client.list(kinds.STATEFUL_APP))
    except NotFoundError:  # custom resources of an earlier release
        return []


def _remove_capacities(context: Context) -> list[Object]:
    """What it told the stock scheduler: nobody would keep it true; the diff."""
    namespace, diff = context.params["namespace"], []
    for each in context.client.list(kinds.CSI_STORAGE_CAPACITY, namespace, labels=capacity.SELECTOR):
        name = each["metadata"]["name"]
        diff.append(installing.gone(kinds.CSI_STORAGE_CAPACITY, name, namespace))
        if not context.check_mode:
            context.client.delete(kinds.CSI_STORAGE_CAPACITY, name, namespace)
    return diff


OPERATION = Operation(
    name="controller",
    options=daemon.OPTIONS,
    run=run,
    prepare=prepare,
)
