# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module scheduler with mode: extender: the extender of the stock kube-scheduler in the cluster.

Called by scheduler.py. Everything is read, and every refusal made, before the first write.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app import extender_install as install
from ..berth_core.app import kube_schedulers, shipped
from ..berth_core.app.shipped import Owner
from ..berth_core.errors import StateError
from ..berth_core.model import resources as kinds
from ..berth_core.model.names import first
from . import installing
from .base import Context
from .installing import Object

_KEYS = tuple(key for key, _begin in install.TLS.values())


def present(context: Context, owner: Owner, manifests: list[Object]) -> dict[str, Any]:
    params = context.params
    taken = ("name", "namespace", "image", "replicas", "priority_class", "resources", "node_selector", "tolerations")
    wanted = install.Wanted(**{key: params[key] for key in taken}, tls=params["tls"], cluster_ip=params["cluster_ip"])
    secret = install.secret(wanted)
    data = _data_of_the_secret(context) if secret is None else secret["data"]
    bodies = installing.in_order("scheduler", install.objects(manifests, wanted, data) + ([secret] if secret else []))
    found = installing.changes(context, owner, bodies)
    installing.refuse_what_cannot_run(context, owner)
    diff = installing.write(context, owner, found, _shown)
    if params["wait"] and not context.check_mode:
        installing.wait_until(context, owner, "answer", lambda: _missing(context, owner))
    (service,) = (body for body in bodies if body["kind"] == kinds.SERVICE.kind)
    live = context.client.find(kinds.SERVICE, params["name"], params["namespace"])
    return {"changed": bool(diff), "diff": diff, "url": install.url(live or service)}


def absent(context: Context, owner: Owner, manifests: list[Object]) -> dict[str, Any]:
    """Everything that is this extender's; a Secret that somebody else made stays."""
    shipped.check_object_name(context.params["name"])
    secret = {"kind": kinds.SECRET.kind, "metadata": {"name": install.SHIPPED, "namespace": shipped.SHIPPED_NAMESPACE}}
    bodies = installing.in_order("scheduler", [*manifests, secret])
    found = installing.found_of(context, owner, bodies)
    waiting = install.waiting_pods(
        context.client.list(kinds.POD, fields="spec.nodeName=,status.phase=Pending") if found else ()
    )
    installing.refuse_while(context, owner, waiting)
    _refuse_while_asked(context, owner, bool(found))
    diff = installing.remove(context, owner, found)
    return {"changed": bool(diff), "diff": diff, "waiting": waiting}


def _refuse_while_asked(context: Context, owner: Owner, there: bool) -> None:
    """kube-scheduler leaves every pod that asks for local disks waiting while its extender does not answer."""
    if not there or context.params["force"]:
        return
    pods = context.client.list(kinds.POD, kube_schedulers.NAMESPACE, kube_schedulers.LABELS)
    asking = kube_schedulers.asking(pods, context.params["given_back"] or ())
    if asking:
        raise StateError(
            f"{owner} is not removed while the kube-schedulers of these nodes ask it: {first(asking)}. Give each its "
            "own configuration back first (role scheduler, scheduler_state: absent, scheduler_mode: extender, "
            "scheduler_kube_scheduler: true), or set force: true",
            asking=asking,
        )


def _data_of_the_secret(context: Context) -> dict[str, str]:
    """Of one that somebody else made. Raises StateError where it is not there or not whole."""
    name, namespace = context.params["name"], context.params["namespace"]
    found = context.client.find(kinds.SECRET, name, namespace)
    lacks = install.missing_keys(found or {})
    if lacks:
        state = f"lacks {', '.join(lacks)}" if found else "does not exist"
        raise StateError(
            f"{kinds.SECRET.describe(name, namespace)} {state}: give tls, or make it with {', '.join(_KEYS)}; nothing "
            "was written"
        )
    return dict((found or {})["data"])


def _shown(body: Object) -> Object:
    return install.veiled(body) if body.get("kind") == kinds.SECRET.kind else body


def _missing(context: Context, owner: Owner) -> str:
    """A pod is Ready when its port is open and its caches are filled."""
    deployment = context.client.get(kinds.DEPLOYMENT, owner.name, owner.namespace)
    return shipped.not_rolled_out(deployment, installing.pods(context, owner))
