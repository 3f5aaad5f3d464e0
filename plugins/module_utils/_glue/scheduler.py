# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module scheduler: a scheduler in the cluster, with its rights, configuration, pods and disruption budget.

Called by plugins/modules/scheduler.py and plugins/action/scheduler.py. The manifests are the collection's own
(deploy/scheduler), what is made of them is decided in berth_core/app/scheduler_install.py. Everything is read, and
every refusal made, before the first write.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app import scheduler_install as install
from ..berth_core.app.compare import differences, prune
from ..berth_core.errors import InputError, StateError, TimeoutExpired
from ..berth_core.model import resources as kinds
from ..berth_core.model.resources import Resource
from .base import Context, Operation
from .crds import bring
from .objects import diff_entry, poll

_KINDS = {
    each.kind: each
    for each in (
        *(kinds.NAMESPACE, kinds.SERVICE_ACCOUNT, kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING, kinds.ROLE),
        *(kinds.ROLE_BINDING, kinds.CONFIG_MAP, kinds.POD_DISRUPTION_BUDGET, kinds.DEPLOYMENT),
    )
}
#: Rights before what uses them; away in the other direction.
_ORDER = tuple(_KINDS)
_MANAGER = "berth-scheduler-install"
Bodies = list[tuple[Resource, dict[str, Any]]]


def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    return bring(arguments, "manifests", "scheduler")


def run(context: Context) -> dict[str, Any]:
    shipped = context.params["manifests"]
    if not shipped:
        raise InputError("scheduler: there are no manifests; run it as a task (its action plugin brings them)")
    unknown = [str(body.get("kind")) for body in shipped if body.get("kind") not in _KINDS]
    if unknown:
        raise InputError(f"scheduler: manifests: {unknown[0]} is no kind that we install")
    shipped = sorted(shipped, key=lambda body: _ORDER.index(body["kind"]))
    return _absent(context, shipped) if context.params["state"] == "absent" else _present(context, shipped)


# -- present -------------------------------------------------------------------------------------------------------


def _present(context: Context, shipped: list[dict[str, Any]]) -> dict[str, Any]:
    params = context.params
    taken = ("name", "namespace", "image", "replicas", "config", "priority_class", "resources", "node_selector")
    more = {"tolerations": params["tolerations"], "outside_plugins": params["outside_plugins"] or ()}
    asked = install.Wanted(**{key: params[key] for key in taken}, **more)
    wanted = [(_KINDS[body["kind"]], body) for body in install.objects(shipped, asked)]
    changes = _changes(context, wanted)
    _refuse_what_cannot_run(context)
    diff = []
    for kind, body, live in changes:
        meta = body["metadata"]
        if not context.check_mode:
            context.client.apply(kind, body, manager=_MANAGER)
        before = prune(live, body) if live else None
        diff.append(diff_entry(kind, meta["name"], before, body, meta.get("namespace")))
    result: dict[str, Any] = {"changed": bool(diff), "diff": diff, "scheduler_names": install.configuration(asked)[1]}
    if params["wait"] and not context.check_mode:
        result["leader"] = _wait_leads(context)
    return result


def _changes(context: Context, wanted: Bodies) -> list[tuple[Resource, dict[str, Any], dict[str, Any] | None]]:
    """What differs from what is there. Nothing that is not this scheduler's is written over."""
    found = []
    for kind, body in wanted:
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
        live = context.client.find(kind, name, namespace)
        if live is not None and kind is kinds.NAMESPACE:  # others live there too: it is theirs as well
            continue
        if live is not None:
            install.check_live(live, body, context.params["name"], kind.describe(name, namespace))
            if not differences(body, live):
                continue
        found.append((kind, body, live))
    return found


def _refuse_what_cannot_run(context: Context) -> None:
    """What would leave its pods waiting for ever. In a check mode the play's earlier tasks have made nothing yet."""
    given = context.params["priority_class"]
    problem = ""
    if context.client.find(kinds.PRIORITY_CLASS, given) is None:
        problem = f"scheduler: PriorityClass {given} does not exist, and no pod is admitted without it"
    elif context.client.find(kinds.CRD, f"{kinds.LOCAL_DISK.plural}.{kinds.LOCAL_DISK.group}") is None:
        problem = "scheduler: the cluster does not know LocalDisks, which it watches: install them with the module crds"
    if problem and not context.check_mode:
        raise StateError(f"{problem}; nothing was written")
    if problem:
        context.warn(problem)


def _wait_leads(context: Context) -> str:
    """Until every pod is new and Ready and one leads; its name. Raises TimeoutExpired that says where it stands."""
    name, namespace, seconds = (context.params[key] for key in ("name", "namespace", "wait_timeout"))
    problem = ""

    def look() -> str | None:
        nonlocal problem
        deployment = context.client.get(kinds.DEPLOYMENT, name, namespace)
        lease = context.client.find(kinds.LEASE, name, namespace)
        said = install.not_leading(deployment, lease, _pods(context))
        if said and said != problem:
            context.progress(f"scheduler {name}: {said}")
        problem = said
        return None if said else install.leader(lease)

    found = poll(look, seconds)
    if found is None:
        raise TimeoutExpired(f"scheduler {name} does not lead after {seconds} s: {problem}")
    return found


def _pods(context: Context) -> list[dict[str, Any]]:
    labels = f"{install.NAME_LABEL}={install.SHIPPED},{install.INSTANCE}={context.params['name']}"
    found = context.client.list(kinds.POD, context.params["namespace"], labels=labels)
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


# -- absent --------------------------------------------------------------------------------------------------------


def _absent(context: Context, shipped: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that is this scheduler's but the namespace, in which others live too."""
    name, namespace = context.params["name"], context.params["namespace"]
    install.check_name(name)
    found: list[tuple[Resource, dict[str, Any]]] = []
    for body in reversed(shipped):
        kind, meta = _KINDS[body["kind"]], install.renamed(body, name, namespace)["metadata"]
        live = None if kind is kinds.NAMESPACE else context.client.find(kind, meta["name"], meta.get("namespace"))
        if live is not None and install.is_ours(live, name):
            found.append((kind, live))
    waiting = _refuse_while_pods_wait(context, found)
    diff = []
    for kind, live in found:
        meta = live["metadata"]
        diff.append(_gone(kind, meta["name"], meta.get("namespace")))
        if not context.check_mode:
            context.client.delete(kind, meta["name"], meta.get("namespace"), uid=meta["uid"])
            if kind is kinds.DEPLOYMENT:  # they give their Lease back, for which they need their rights
                _wait_gone(context)
    diff += _remove_lease(context) if found else []
    return {"changed": bool(diff), "diff": diff, "waiting": waiting}


def _refuse_while_pods_wait(context: Context, found: list[tuple[Resource, dict[str, Any]]]) -> list[str]:
    name = context.params["name"]
    deployment = next((live for kind, live in found if kind is kinds.DEPLOYMENT), None)
    names = install.profiles_of(deployment, name)
    waiting = install.waiting_pods(context.client.list(kinds.POD, fields="spec.nodeName=") if found else (), names)
    if waiting and not context.params["force"]:
        told = ", ".join(waiting[:5]) + (f" and {len(waiting) - 5} more" if len(waiting) > 5 else "")
        raise StateError(
            f"scheduler {name} is not removed while pods wait for it: {told}. Nobody else would place them; remove "
            "them first, or set force: true",
            waiting=waiting,
        )
    return waiting


def _wait_gone(context: Context) -> None:
    if not context.params["wait"]:
        return
    seconds = context.params["wait_timeout"]
    if not poll(lambda: None if _pods(context) else True, seconds):
        left = ", ".join(sorted(pod["metadata"]["name"] for pod in _pods(context)))
        raise TimeoutExpired(f"scheduler {context.params['name']}: its pods are still there after {seconds} s: {left}")


def _remove_lease(context: Context) -> list[dict[str, Any]]:
    name, namespace = context.params["name"], context.params["namespace"]
    if context.client.find(kinds.LEASE, name, namespace) is None:
        return []
    if not context.check_mode:
        context.client.delete(kinds.LEASE, name, namespace)
    return [_gone(kinds.LEASE, name, namespace)]


def _gone(kind: Resource, name: str, namespace: str | None) -> dict[str, Any]:
    return diff_entry(kind, name, {"metadata": {"name": name}}, None, namespace, absent=True)


OPERATION = Operation(
    name="scheduler",
    options={
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "name": {"type": "str", "default": install.SHIPPED},
        "namespace": {"type": "str", "default": install.SHIPPED_NAMESPACE},
        "image": {"type": "str"},
        "replicas": {"type": "int", "default": 2},
        "config": {"type": "dict"},
        "outside_plugins": {"type": "list", "elements": "str"},
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
    required_if=(("state", "present", ("image",)),),
    prepare=prepare,
)
