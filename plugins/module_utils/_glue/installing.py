# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Deployment of ours and what belongs to it: what differs from what is there, writing it, removing it, waiting.

Called by scheduler.py, scheduler_service.py and extender.py, whose objects they are. What is whose is decided in
berth_core/app/shipped.py.
"""

from __future__ import annotations

from typing import Any, Callable

from ..berth_core.app import shipped
from ..berth_core.app.compare import differences, prune
from ..berth_core.errors import InputError, StateError, TimeoutExpired
from ..berth_core.model import resources as kinds
from ..berth_core.model.resources import Resource
from .base import Context
from .objects import diff_entry, poll
from .tried import Change, try_all

#: Rights before what uses them; away in the other direction.
KINDS = {
    each.kind: each
    for each in (
        *(kinds.NAMESPACE, kinds.SERVICE_ACCOUNT, kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING, kinds.ROLE),
        *(kinds.ROLE_BINDING, kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE, kinds.POD_DISRUPTION_BUDGET),
        kinds.DEPLOYMENT,
    )
}
_MANAGER = "berth-scheduler-install"
Object = dict[str, Any]


def in_order(bodies: list[Object]) -> list[Object]:
    """Sorted by kind. InputError for kinds that we do not install."""
    unknown = [str(body.get("kind")) for body in bodies if body.get("kind") not in KINDS]
    if unknown:
        raise InputError(f"scheduler: manifests: {unknown[0]} is no kind that we install")
    order = tuple(KINDS)
    return sorted(bodies, key=lambda body: order.index(body["kind"]))


def changes(context: Context, origin: str, wanted: list[Object]) -> list[Change]:
    """What differs from what is there. Nothing that is not of that name is written over (StateError).

    ``origin``: the name under which the objects are shipped.
    """
    found = []
    for body in wanted:
        kind, name, namespace = KINDS[body["kind"]], body["metadata"]["name"], body["metadata"].get("namespace")
        live = context.client.find(kind, name, namespace)
        if live is not None and kind is kinds.NAMESPACE:  # others live there too: it is theirs as well
            continue
        if live is not None:
            shipped.check_live(live, body, origin, context.params["name"], kind.describe(name, namespace))
            if not differences(body, live):
                continue
        found.append(Change(kind, body, live))
    return found


def write(context: Context, found: list[Change], shown: Callable[[Object], Object] = dict) -> list[Object]:
    """Write them, unless in check mode, once the API server would take them all; the diff.

    ``shown``: an object as people may read it.
    """
    try_all(context, found, _MANAGER)
    diff = []
    for kind, body, live in found:
        meta = body["metadata"]
        if not context.check_mode:
            context.client.apply(kind, body, manager=_MANAGER)
        before = shown(prune(live, body)) if live else None
        diff.append(diff_entry(kind, meta["name"], before, shown(body), meta.get("namespace")))
    return diff


def refuse_what_cannot_run(context: Context) -> None:
    """What would leave its pods waiting for ever. In a check mode the play's earlier tasks have made nothing yet."""
    given = context.params["priority_class"]
    if context.client.find(kinds.PRIORITY_CLASS, given) is None:
        _refuse(context, f"scheduler: PriorityClass {given} does not exist, and no pod is admitted without it")
    else:
        refuse_without_resources(context)


def refuse_without_resources(context: Context) -> None:
    """It would wait for ever until it has listed them."""
    if context.client.find(kinds.CRD, f"{kinds.LOCAL_DISK.plural}.{kinds.LOCAL_DISK.group}") is None:
        _refuse(
            context,
            "scheduler: the cluster does not know LocalDisks, which it watches: install them with the module crds",
        )


def _refuse(context: Context, problem: str) -> None:
    if not context.check_mode:
        raise StateError(f"{problem}; nothing was written")
    context.warn(problem)


def pods(context: Context, origin: str) -> list[Object]:
    """Those of its Deployment that are not on their way out."""
    labels = f"{shipped.NAME_LABEL}={origin},{shipped.INSTANCE}={context.params['name']}"
    found = context.client.list(kinds.POD, context.params["namespace"], labels=labels)
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def wait_until(context: Context, what: str, missing: Callable[[], str]) -> None:
    """Until nothing is missing. Raises TimeoutExpired that says where it stands."""
    seconds, problem = context.params["wait_timeout"], ""

    def look() -> bool | None:
        nonlocal problem
        said = missing()
        if said and said != problem:
            context.progress(f"scheduler {context.params['name']}: {said}")
        problem = said
        return None if said else True

    if poll(look, seconds) is None:
        raise TimeoutExpired(f"scheduler {context.params['name']} does not {what} after {seconds} s: {problem}")


def found_of(context: Context, origin: str, bodies: list[Object]) -> list[Change]:
    """What is there under its name and is its own, in the order in which it is removed; all but the namespace, in which
    others live too."""
    name, namespace = context.params["name"], context.params["namespace"]
    found = []
    for body in reversed(bodies):
        kind, meta = KINDS[body["kind"]], shipped.renamed(body, origin, name, namespace)["metadata"]
        live = None if kind is kinds.NAMESPACE else context.client.find(kind, meta["name"], meta.get("namespace"))
        if live is not None and shipped.is_ours(live, origin, name):
            found.append(Change(kind, live, live))
    return found


def refuse_while(context: Context, waiting: list[str]) -> None:
    """Pods that wait for it keep it there, unless forced (StateError)."""
    if waiting and not context.params["force"]:
        told = ", ".join(waiting[:5]) + (f" and {len(waiting) - 5} more" if len(waiting) > 5 else "")
        raise StateError(
            f"scheduler {context.params['name']} is not removed while pods wait for it: {told}. Nobody else would "
            "place them; remove them first, or set force: true",
            waiting=waiting,
        )


def remove(context: Context, origin: str, found: list[Change]) -> list[Object]:
    """Remove them; its pods are waited for before their rights go. The diff."""
    diff = []
    for kind, live, _live in found:
        meta = live["metadata"]
        diff.append(gone(kind, meta["name"], meta.get("namespace")))
        if context.check_mode:
            continue
        context.client.delete(kind, meta["name"], meta.get("namespace"), uid=meta["uid"])
        if kind is kinds.DEPLOYMENT and context.params["wait"]:
            _wait_gone(context, origin)
    return diff


def _wait_gone(context: Context, origin: str) -> None:
    seconds = context.params["wait_timeout"]
    if not poll(lambda: None if pods(context, origin) else True, seconds):
        left = ", ".join(sorted(pod["metadata"]["name"] for pod in pods(context, origin)))
        raise TimeoutExpired(f"scheduler {context.params['name']}: its pods are still there after {seconds} s: {left}")


def gone(kind: Resource, name: str, namespace: str | None) -> Object:
    """The diff of a removal."""
    return diff_entry(kind, name, {"metadata": {"name": name}}, None, namespace, absent=True)
