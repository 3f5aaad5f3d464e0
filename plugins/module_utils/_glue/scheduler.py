# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module scheduler: a scheduler in the cluster, with its rights, configuration, pods and disruption budget.

With mode: extender what stands behind the stock one instead (extender.py), with mode: service the rights of one that
runs on hosts (scheduler_service.py). Which pods are given it: assigning.py.

Called by plugins/modules/scheduler.py and plugins/action/scheduler.py. The manifests are the collection's own
(deploy/scheduler, deploy/extender), what is made of them is decided in berth_core/app/scheduler_install.py. Everything
is read, and every refusal made, before the first write.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app import scheduler_install as install
from ..berth_core.app import service_install
from ..berth_core.app.extender_install import SHIPPED as EXTENDER
from ..berth_core.app.shipped import SHIPPED_NAMESPACE, Owner
from ..berth_core.errors import InputError
from ..berth_core.model import resources as kinds
from . import assigning, extender, installing, policies, scheduler_service
from .base import Context, Operation
from .crds import bring
from .installing import Object
from .tried import Change

#: mode -> folder of deploy/, and the name of its objects there.
_MODES = {
    "daemon": ("scheduler", install.SHIPPED),
    "service": ("scheduler", install.SHIPPED),
    "extender": ("extender", EXTENDER),
}
#: What the names of its profiles stand on.
_NOTED = (kinds.DEPLOYMENT, kinds.ROLE)
#: Of pods that wait, where those that take their place would wait too.
_GIVEN = "; before that state: unassigned, which gives it to no pod that is made anew"
#: option -> the modes that it says something of; of what is not here, all.
_OF = {
    "tls": ("extender",),
    "cluster_ip": ("extender",),
    "given_back": ("extender",),
    "config": ("daemon", "service"),
    "outside_plugins": ("daemon", "service"),
    "image": ("daemon", "extender"),
    "page_port": ("daemon",),
    "resources": ("daemon", "extender"),
    "node_selector": ("daemon", "extender"),
    "tolerations": ("daemon", "extender"),
    "assign_pods": ("daemon", "service"),
    "assign_storage_classes": ("daemon", "service"),
}


def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    folder, name = _MODES.get(str(arguments.get("mode") or "daemon"), _MODES["daemon"])
    if not arguments.get("name"):
        arguments = {**arguments, "name": name}
    return bring(arguments, "manifests", folder)


def run(context: Context) -> dict[str, Any]:
    shipped = context.params["manifests"]
    if not shipped:
        raise InputError("scheduler: there are no manifests; run it as a task (its action plugin brings them)")
    shipped = installing.in_order("scheduler", shipped)
    absent = context.params["state"] == "absent"
    assigning.check(context.params)
    installing.check_pods(context.params)
    _refuse_what_is_of_another_mode(context)
    mode = context.params["mode"]
    owner = Owner("scheduler", _MODES[mode][1], context.params["name"], context.params["namespace"])
    if context.params["state"] == "unassigned":
        return _unassigned(context, owner, shipped)
    if mode == "extender":
        return extender.absent(context, owner, shipped) if absent else extender.present(context, owner, shipped)
    if absent:
        return _absent(context, owner, shipped)
    install.check_name(context.params["name"])
    assigned = assigning.plan(context)
    service = mode == "service"
    result = scheduler_service.present(context, owner, shipped) if service else _present(context, owner, shipped)
    diff = assigning.carry_out(context, assigned)
    result["diff"] += diff
    return {**result, "changed": result["changed"] or bool(diff), "policies": policies.rows(assigned)}


def _refuse_what_is_of_another_mode(context: Context) -> None:
    """A removal needs none of them: it takes the variables with which another mode was installed as they are."""
    params, mode = context.params, context.params["mode"]
    if params["state"] == "absent":
        return
    given = [option for option, modes in _OF.items() if params[option] and mode not in modes]
    if params["state"] == "unassigned" and mode == "extender":
        given.append("state: unassigned")
    if given:
        raise InputError(f"scheduler: {given[0]} is nothing of mode: {mode}; leave it out, or choose another mode")
    if params["state"] == "present" and mode != "service" and not params["image"]:
        raise InputError(f"scheduler: image is missing, which mode: {mode} runs")


def _present(context: Context, owner: Owner, shipped: list[Object]) -> dict[str, Any]:
    params = context.params
    taken = ("name", "namespace", "image", "replicas", "config", "priority_class", "resources", "node_selector")
    more = {key: params[key] for key in ("tolerations", "page_port")}
    more["outside_plugins"] = params["outside_plugins"] or ()
    asked = install.Wanted(**{key: params[key] for key in taken}, **more)
    found = installing.changes(context, owner, install.objects(shipped, asked))
    installing.refuse_what_cannot_run(context, owner)
    diff = installing.write(context, owner, found)
    result: dict[str, Any] = {"changed": bool(diff), "diff": diff, "scheduler_names": install.configuration(asked)[1]}
    if params["wait"] and not context.check_mode:
        result["leader"] = installing.wait_until_it_leads(context, owner)
    return result


def _absent(context: Context, owner: Owner, shipped: list[Object]) -> dict[str, Any]:
    """Two modes of one name are one scheduler: account, rights, Lease and policies stay until the last of them goes."""
    params = context.params
    found, names = _found(context, owner, shipped)
    modes = [service_install.mode_of(each.live or {}, params["name"]) for each in found]
    goes_on = any(mode not in ("", params["mode"]) for mode in modes)
    going = [each for each, mode in zip(found, modes) if mode == params["mode"]] if goes_on else found
    last = bool(going) and not goes_on
    assigned = [] if goes_on else assigning.plan_removal(context)
    waiting = _waiting(context, names) if last else []
    more = _GIVEN if any(one.action == "delete" for one in assigned) else ""
    installing.refuse_while(context, owner, waiting, more)
    # First, so that no pod is given a scheduler that is gone; those of the last moment it still places.
    diff = assigning.carry_out(context, assigned)
    if diff and last:
        waiting = assigning.wait_for_pods(context, lambda: _waiting(context, names))
    diff += installing.remove(context, owner, going)
    diff += installing.remove_lease(context, owner) if last else []
    return {"changed": bool(diff), "diff": diff, "waiting": waiting, "policies": policies.rows(assigned)}


def _unassigned(context: Context, owner: Owner, shipped: list[Object]) -> dict[str, Any]:
    """Nobody is given it any more; it stays, and places those that were."""
    names = _found(context, owner, shipped)[1]
    assigned = assigning.plan_removal(context)
    diff = assigning.carry_out(context, assigned)
    waiting = assigning.wait_for_pods(context, lambda: _waiting(context, names))
    return {"changed": bool(diff), "diff": diff, "waiting": waiting, "policies": policies.rows(assigned)}


def _found(context: Context, owner: Owner, shipped: list[Object]) -> tuple[list[Change], list[str]]:
    """What is there of the scheduler, and the names that its pods give."""
    params = context.params
    install.check_name(params["name"])
    token = service_install.token_rights(params["name"], params["namespace"])
    found = installing.found_of(context, owner, installing.in_order("scheduler", [*shipped, *token]))
    modes = [service_install.mode_of(each.live or {}, params["name"]) for each in found]
    noted = next((one.live for one, mode in zip(found, modes) if mode and one.kind in _NOTED), None)
    return found, install.profiles_of(noted, params["name"])


def _waiting(context: Context, names: list[str]) -> list[str]:
    return install.waiting_pods(context.client.list(kinds.POD, fields="spec.nodeName=,status.phase=Pending"), names)


OPERATION = Operation(
    name="scheduler",
    options={
        "state": {"type": "str", "choices": ["present", "unassigned", "absent"], "default": "present"},
        "mode": {"type": "str", "choices": list(_MODES), "default": "daemon"},
        "name": {"type": "str"},
        "namespace": {"type": "str", "default": SHIPPED_NAMESPACE},
        "image": {"type": "str"},
        "replicas": {"type": "int", "default": 2},
        "config": {"type": "dict"},
        "outside_plugins": {"type": "list", "elements": "str"},
        "page_port": {"type": "int", "default": 0},
        "tls": {
            "type": "dict",
            "options": {
                "certificate": {"type": "str", "required": True},
                "key": {"type": "str", "required": True, "no_log": True},
                "client_ca": {"type": "str", "required": True},
            },
        },
        "cluster_ip": {"type": "str"},
        "given_back": {"type": "list", "elements": "str"},
        "assign_pods": {"type": "bool"},
        "assign_storage_classes": {"type": "list", "elements": "str"},
        **installing.POD_OPTIONS,
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 300},
        "force": {"type": "bool", "default": False},
        "manifests": {"type": "list", "elements": "dict"},
    },
    run=run,
    prepare=prepare,
)
