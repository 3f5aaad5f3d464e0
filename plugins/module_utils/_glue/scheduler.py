# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module scheduler: a scheduler in the cluster, with its rights, configuration, pods and disruption budget.

With mode: extender what stands behind the stock one instead (extender.py), with mode: service the rights of one that
runs on hosts (scheduler_service.py).

Called by plugins/modules/scheduler.py and plugins/action/scheduler.py. The manifests are the collection's own
(deploy/scheduler, deploy/extender), what is made of them is decided in berth_core/app/scheduler_install.py. Everything
is read, and every refusal made, before the first write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.app import scheduler_install as install
from ..berth_core.app import service_install
from ..berth_core.app.extender_install import SHIPPED as EXTENDER
from ..berth_core.app.shipped import SHIPPED_NAMESPACE
from ..berth_core.errors import InputError
from ..berth_core.model import resources as kinds
from ..berth_core.model.names import check_image, check_label, check_subdomain
from ..berth_core.model.requests import check_requirements
from ..berth_core.model.taint import parse_tolerations
from . import extender, installing, scheduler_service
from .base import Context, Operation
from .crds import bring
from .installing import Object
from .objects import label_map

#: mode -> folder of deploy/, and the name of its objects there.
_MODES = {
    "daemon": ("scheduler", install.SHIPPED),
    "service": ("scheduler", install.SHIPPED),
    "extender": ("extender", EXTENDER),
}
#: More would be a mistake: of a scheduler's pods one works.
_REPLICAS = 100
#: What the names of its profiles stand on.
_NOTED = (kinds.DEPLOYMENT, kinds.ROLE)
#: option -> the modes that it says something of; of what is not here, all.
_OF = {
    "tls": ("extender",),
    "cluster_ip": ("extender",),
    "config": ("daemon", "service"),
    "outside_plugins": ("daemon", "service"),
    "image": ("daemon", "extender"),
    "page_port": ("daemon",),
    "resources": ("daemon", "extender"),
    "node_selector": ("daemon", "extender"),
    "tolerations": ("daemon", "extender"),
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
    shipped = installing.in_order(shipped)
    absent = context.params["state"] == "absent"
    _check(context.params)
    _refuse_what_is_of_another_mode(context)
    if context.params["mode"] == "extender":
        return extender.absent(context, shipped) if absent else extender.present(context, shipped)
    if absent:
        return _absent(context, shipped)
    service = context.params["mode"] == "service"
    return scheduler_service.present(context, shipped) if service else _present(context, shipped)


def _check(params: Mapping[str, Any]) -> None:
    """Raises InputError that names the option."""
    check_label(params["namespace"], "namespace")
    check_subdomain(params["priority_class"], "priority_class")
    if params["image"]:
        check_image(params["image"], "image")
    if params["replicas"] > _REPLICAS:
        raise InputError(f"replicas is {params['replicas']}: expected 1 to {_REPLICAS}, of which one works")
    check_requirements(params["resources"] or {}, "resources")
    label_map("node_selector", params["node_selector"])
    parse_tolerations({"tolerations": params["tolerations"]}, "tolerations")


def _refuse_what_is_of_another_mode(context: Context) -> None:
    params, mode = context.params, context.params["mode"]
    given = [option for option, modes in _OF.items() if params[option] and mode not in modes]
    if given:
        raise InputError(f"scheduler: {given[0]} is nothing of mode: {mode}; leave it out, or choose another mode")
    if params["state"] == "present" and mode != "service" and not params["image"]:
        raise InputError(f"scheduler: image is missing, which mode: {mode} runs")


def _present(context: Context, shipped: list[Object]) -> dict[str, Any]:
    params = context.params
    taken = ("name", "namespace", "image", "replicas", "config", "priority_class", "resources", "node_selector")
    more = {key: params[key] for key in ("tolerations", "page_port")}
    more["outside_plugins"] = params["outside_plugins"] or ()
    asked = install.Wanted(**{key: params[key] for key in taken}, **more)
    found = installing.changes(context, install.SHIPPED, install.objects(shipped, asked))
    installing.refuse_what_cannot_run(context)
    diff = installing.write(context, found)
    result: dict[str, Any] = {"changed": bool(diff), "diff": diff, "scheduler_names": install.configuration(asked)[1]}
    if params["wait"] and not context.check_mode:
        installing.wait_until(context, "lead", lambda: _missing(context))
        result["leader"] = install.leader(_lease(context))
    return result


def _lease(context: Context) -> Object | None:
    return context.client.find(kinds.LEASE, context.params["name"], context.params["namespace"])


def _missing(context: Context) -> str:
    deployment = context.client.get(kinds.DEPLOYMENT, context.params["name"], context.params["namespace"])
    return install.not_leading(deployment, _lease(context), installing.pods(context, install.SHIPPED))


def _absent(context: Context, shipped: list[Object]) -> dict[str, Any]:
    """Two modes of one name are one scheduler: account, rights and Lease stay until the last of them goes."""
    params = context.params
    install.check_name(params["name"])
    token = service_install.token_rights(params["name"], params["namespace"])
    found = installing.found_of(context, install.SHIPPED, installing.in_order([*shipped, *token]))
    modes = [service_install.mode_of(each.live or {}, params["name"]) for each in found]
    goes_on = any(mode not in ("", params["mode"]) for mode in modes)
    going = [each for each, mode in zip(found, modes) if mode == params["mode"]] if goes_on else found
    noted = next((one.live for one, mode in zip(found, modes) if mode and one.kind in _NOTED), None)
    names = install.profiles_of(noted, params["name"])
    last = bool(going) and not goes_on
    waiting = install.waiting_pods(context.client.list(kinds.POD, fields="spec.nodeName=") if last else (), names)
    installing.refuse_while(context, waiting)
    diff = installing.remove(context, install.SHIPPED, going)
    diff += _remove_lease(context) if last else []
    return {"changed": bool(diff), "diff": diff, "waiting": waiting}


def _remove_lease(context: Context) -> list[Object]:
    name, namespace = context.params["name"], context.params["namespace"]
    if _lease(context) is None:
        return []
    if not context.check_mode:
        context.client.delete(kinds.LEASE, name, namespace)
    return [installing.gone(kinds.LEASE, name, namespace)]


OPERATION = Operation(
    name="scheduler",
    options={
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
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
        "priority_class": {"type": "str", "default": "system-cluster-critical"},
        "resources": {"type": "dict"},
        "node_selector": {"type": "dict"},
        "tolerations": {"type": "list", "elements": "dict"},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 300},
        "force": {"type": "bool", "default": False},
        "manifests": {"type": "list", "elements": "dict"},
    },
    run=run,
    prepare=prepare,
)
