# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Deployment of berth's and what belongs to it: what differs from what is there, writing it, removing it, waiting.

Called by scheduler.py, scheduler_service.py, extender.py and controller.py, whose objects they are. What is whose is
decided in berth_core/app/shipped.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..berth_core.app import shipped
from ..berth_core.app.compare import differences, prune
from ..berth_core.app.shipped import Owner
from ..berth_core.errors import InputError, StateError, TimeoutExpired
from ..berth_core.model import resources as kinds
from ..berth_core.model.names import check_image, check_label, check_subdomain, first
from ..berth_core.model.requests import check_requirements
from ..berth_core.model.resources import Resource
from ..berth_core.model.taint import parse_tolerations
from .base import Context
from .objects import diff_entry, label_map, poll
from .tried import Change, put, try_all

#: Rights before what uses them; away in the other direction.
KINDS = {
    each.kind: each
    for each in (
        *(kinds.NAMESPACE, kinds.SERVICE_ACCOUNT, kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING, kinds.ROLE),
        *(kinds.ROLE_BINDING, kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE, kinds.POD_DISRUPTION_BUDGET),
        *(kinds.PRIORITY_CLASS, kinds.CSI_DRIVER, kinds.DEPLOYMENT),
    )
}
#: More would be a mistake: of the pods one works.
_REPLICAS = 100
#: What may be said of the pods of any of these Deployments.
POD_OPTIONS: dict[str, dict[str, Any]] = {
    "priority_class": {"type": "str", "default": "system-cluster-critical"},
    "resources": {"type": "dict"},
    "node_selector": {"type": "dict"},
    "tolerations": {"type": "list", "elements": "dict"},
}
Object = dict[str, Any]


def check_pods(params: Mapping[str, Any]) -> None:
    """What was asked for the pods, and where they run. Raises InputError that names the option."""
    check_label(params["namespace"], "namespace")
    check_subdomain(params["priority_class"], "priority_class")
    if params["image"]:
        check_image(params["image"], "image")
    if params["replicas"] > _REPLICAS:
        raise InputError(f"replicas is {params['replicas']}: expected 1 to {_REPLICAS}, of which one works")
    check_requirements(params["resources"] or {}, "resources")
    label_map("node_selector", params["node_selector"])
    parse_tolerations({"tolerations": params["tolerations"]}, "tolerations")


def in_order(module: str, bodies: list[Object]) -> list[Object]:
    """Sorted by kind. InputError for kinds that the module does not install."""
    unknown = [str(body.get("kind")) for body in bodies if body.get("kind") not in KINDS]
    if unknown:
        raise InputError(f"{module}: manifests: {unknown[0]} is no kind that this module installs")
    order = tuple(KINDS)
    return sorted(bodies, key=lambda body: order.index(body["kind"]))


def changes(context: Context, owner: Owner, wanted: list[Object]) -> list[Change]:
    """What differs from what is there. Nothing that is not the owner's is written over (StateError)."""
    found = []
    for body in wanted:
        kind, name, namespace = KINDS[body["kind"]], body["metadata"]["name"], body["metadata"].get("namespace")
        live = context.client.find(kind, name, namespace)
        if live is not None and kind is kinds.NAMESPACE:  # others live there too: it is theirs as well
            continue
        if live is not None:
            shipped.check_live(live, owner, kind.describe(name, namespace))
            if not differences(body, live):
                continue
        found.append(Change(kind, body, live))
    return found


def write(
    context: Context, owner: Owner, found: list[Change], shown: Callable[[Object], Object] = dict
) -> list[Object]:
    """Write them, unless in check mode, once the API server would take them all; the diff.

    ``shown``: an object as people may read it.
    """
    manager = f"berth-{owner.kind}-install"
    left = try_all(context, found, manager)
    diff = []
    for change in found:
        kind, body, live = change
        meta = body["metadata"]
        if not context.check_mode:
            put(context, change, left, manager)
        before = shown(prune(live, body)) if live else None
        diff.append(diff_entry(kind, meta["name"], before, shown(body), meta.get("namespace")))
    return diff


def refuse_what_cannot_run(context: Context, owner: Owner) -> None:
    """What would leave its pods waiting for ever."""
    given = context.params["priority_class"]
    if context.client.find(kinds.PRIORITY_CLASS, given) is None:
        refuse(context, f"{owner.kind}: PriorityClass {given} does not exist, and no pod is admitted without it")
    else:
        refuse_without_resources(context, owner)


def refuse_without_resources(context: Context, owner: Owner) -> None:
    """It would wait for ever until it has listed them."""
    if context.client.find(kinds.CRD, kinds.LOCAL_DISK.definition) is None:
        refuse(
            context,
            f"{owner.kind}: the cluster does not know LocalDisks, which it watches: install them with the module crds",
        )


def refuse(context: Context, problem: str) -> None:
    """Raise StateError before anything is written. In a check mode the play's earlier tasks have made nothing yet: then
    it is a warning."""
    if not context.check_mode:
        raise StateError(f"{problem}; nothing was written")
    context.warn(problem)


def pods(context: Context, owner: Owner) -> list[Object]:
    """Those of its Deployment that are not on their way out."""
    labels = f"{shipped.NAME_LABEL}={owner.origin},{shipped.INSTANCE}={owner.name}"
    found = context.client.list(kinds.POD, owner.namespace, labels=labels)
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def lease(context: Context, owner: Owner) -> Object | None:
    """That of its name, by which one of its processes leads."""
    return context.client.find(kinds.LEASE, owner.name, owner.namespace)


def wait_until_it_leads(context: Context, owner: Owner) -> str:
    """Until every pod is new and Ready and one of them leads: that one."""

    def missing() -> str:
        deployment = context.client.get(kinds.DEPLOYMENT, owner.name, owner.namespace)
        return shipped.not_leading(deployment, lease(context, owner), pods(context, owner))

    wait_until(context, owner, "lead", missing)
    return shipped.leader(lease(context, owner))


def wait_until(context: Context, owner: Owner, what: str, missing: Callable[[], str]) -> None:
    """Until nothing is missing. Raises TimeoutExpired that says where it stands."""
    seconds, problem = context.params["wait_timeout"], ""

    def look() -> bool | None:
        nonlocal problem
        said = missing()
        if said and said != problem:
            context.progress(f"{owner}: {said}")
        problem = said
        return None if said else True

    if poll(look, seconds) is None:
        raise TimeoutExpired(f"{owner} does not {what} after {seconds} s: {problem}")


def found_of(context: Context, owner: Owner, bodies: list[Object]) -> list[Change]:
    """What is there under its name and is its own, in the order in which it is removed; all but the namespace, in which
    others live too. Raises StateError where it is installed in another one."""
    found = []
    for body in reversed(bodies):
        kind = KINDS[body["kind"]]
        meta = shipped.renamed(body, owner.origin, owner.name, owner.namespace)["metadata"]
        live = None if kind is kinds.NAMESPACE else context.client.find(kind, meta["name"], meta.get("namespace"))
        if live is not None and shipped.is_ours(live, owner):
            where = kind.describe(meta["name"], meta.get("namespace"))
            shipped.check_place(live, owner, where, "give that namespace to remove it")
            found.append(Change(kind, live, live))
    return found


def refuse_while(context: Context, owner: Owner, waiting: list[str], more: str = "") -> None:
    """Pods that wait for a scheduler keep it there, unless forced (StateError). ``more``: what else is to be done."""
    if waiting and not context.params["force"]:
        raise StateError(
            f"{owner} is not removed while pods wait for it: {first(waiting)}. Nobody else would "
            f"place them; remove them first, or set force: true{more}",
            waiting=waiting,
        )


def remove(context: Context, owner: Owner, found: list[Change]) -> list[Object]:
    """Remove them; its pods are waited for before their rights go. The diff."""
    diff = []
    for kind, live, _live in found:
        meta = live["metadata"]
        diff.append(gone(kind, meta["name"], meta.get("namespace")))
        if context.check_mode:
            continue
        context.client.delete(kind, meta["name"], meta.get("namespace"), uid=meta["uid"])
        if kind is kinds.DEPLOYMENT and context.params["wait"]:
            _wait_gone(context, owner, live)
    return diff


def _wait_gone(context: Context, owner: Owner, deployment: Object) -> None:
    """Those on their way out too: such a pod still writes, and would make its Lease anew."""
    labels = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())

    def there() -> list[str]:
        found = context.client.list(kinds.POD, owner.namespace, labels=labels)
        return sorted(pod["metadata"]["name"] for pod in found)

    seconds = context.params["wait_timeout"]
    if not poll(lambda: None if there() else True, seconds):
        left = ", ".join(there())
        raise TimeoutExpired(f"{owner}: its pods are still there after {seconds} s: {left}")


def remove_lease(context: Context, owner: Owner) -> list[Object]:
    """The Lease of its name, which its processes made; the diff."""
    if lease(context, owner) is None:
        return []
    if not context.check_mode:
        context.client.delete(kinds.LEASE, owner.name, owner.namespace)
    return [gone(kinds.LEASE, owner.name, owner.namespace)]


def gone(kind: Resource, name: str, namespace: str | None) -> Object:
    """The diff of a removal."""
    return diff_entry(kind, name, {"metadata": {"name": name}}, None, namespace, absent=True)
