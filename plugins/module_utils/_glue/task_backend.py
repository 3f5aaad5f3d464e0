# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module task_backend: berth-tasks in the cluster, with its rights, its pods and the namespaces of its tasks.

Called by plugins/modules/task_backend.py and plugins/action/task_backend.py. The manifests are the collection's own
(deploy/tasks), what is made of them is decided in berth_core/app/task_backend_install.py. Everything is read, and every
refusal made, before the first write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..berth_core.app import task_backend_install as install
from ..berth_core.app.shipped import Owner
from ..berth_core.errors import NotFoundError, StateError
from ..berth_core.model import resources as kinds
from ..berth_core.model.names import check_label, first
from ..berth_core.model.resources import Resource
from . import daemon, installing
from .base import Context, Operation
from .crds import bring
from .installing import Object
from .tried import Change

_WAYS = "wait for them, end them (modules task and task_batch, state: killed), or set force: true"


def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    return bring(arguments, "manifests", "tasks")


def run(context: Context) -> dict[str, Any]:
    owner, shipped = daemon.asked(context, "task_backend", install.SHIPPED)
    for index, name in enumerate(context.params["namespaces"] or ()):
        check_label(name, f"namespaces[{index}]")
    act = _absent if context.params["state"] == "absent" else _present
    return act(context, owner, shipped)


def _present(context: Context, owner: Owner, shipped: list[Object]) -> dict[str, Any]:
    params = context.params
    bodies = install.objects(shipped, daemon.wanted(context, owner), params["store_secret"] or "")
    found = _bindings(context)
    bound, wanted = install.bindings(found, owner), {*(params["namespaces"] or ())}
    left = [] if params["namespaces"] is None else sorted({*bound} - wanted)
    to_bind = _there(context, owner, sorted(wanted - install.bound_by_hand(found, owner.namespace)))
    bodies += [install.binding(namespace, owner.namespace) for namespace in to_bind]
    differing = daemon.changes(context, owner, installing.in_order("task_backend", bodies))
    _refuse_while_tasks(context, f"{owner} does not leave namespace {first(left)}", left)
    diff = installing.write(context, owner, differing)
    diff += installing.remove(context, owner, _changes(bound, left))
    return {**daemon.leading(context, owner, diff), "namespaces": sorted(({*bound} | {*to_bind}) - {*left})}


def _absent(context: Context, owner: Owner, shipped: list[Object]) -> dict[str, Any]:
    bound = install.bindings(_bindings(context), owner)
    found = installing.found_of(context, owner, shipped)
    needing = _refuse_while_tasks(context, f"{owner} is not removed") if found else []
    pods = [each for each in found if each.kind is kinds.DEPLOYMENT]
    diff = installing.remove(context, owner, pods)
    # While something is left that a run that was cut off would find.
    diff += installing.remove_lease(context, owner) if found else []
    diff += installing.remove(context, owner, _changes(bound, sorted(bound)))
    diff += installing.remove(context, owner, [each for each in found if each not in pods])
    return {"changed": bool(diff), "diff": diff, "tasks": needing}


def _there(context: Context, owner: Owner, namespaces: list[str]) -> list[str]:
    """Those of the namespaces in which a binding can be made: its own is made by this run."""
    missing = [
        name for name in namespaces if name != owner.namespace and context.client.find(kinds.NAMESPACE, name) is None
    ]
    if missing:
        installing.refuse(context, f"{owner.kind}: namespaces: {first(missing)} is not there: make it first")
    return [name for name in namespaces if name not in missing]


def _bindings(context: Context) -> list[Object]:
    """Of the name of the module's, in all namespaces."""
    return context.client.list(kinds.ROLE_BINDING, fields=f"metadata.name={install.RUNNER}")


def _changes(bound: Mapping[str, Object], namespaces: list[str]) -> list[Change]:
    return [Change(kinds.ROLE_BINDING, bound[name], bound[name]) for name in namespaces]


def _refuse_while_tasks(context: Context, what: str, namespaces: Collection[str] | None = None) -> list[str]:
    """Tasks that have not ended, of the namespaces, keep it there unless forced (StateError)."""
    if namespaces is not None and not namespaces:
        return []
    needing = install.needed_by([*_listed(context, kinds.TASK), *_listed(context, kinds.TASK_BATCH)], namespaces)
    if needing and not context.params["force"]:
        raise StateError(
            f"{what} while Tasks there have not ended: {first(needing)}. Nobody else would run them, or record how they"
            f" end; {_WAYS}",
            tasks=needing,
        )
    return needing


def _listed(context: Context, kind: Resource) -> list[Object]:
    try:
        return context.client.list(kind)
    except NotFoundError:  # the custom resources are gone, and the tasks with them
        return []


OPERATION = Operation(
    name="task_backend",
    options={
        **daemon.OPTIONS,
        "namespaces": {"type": "list", "elements": "str"},
        "store_secret": {"type": "str", "no_log": False},
    },
    run=run,
    prepare=prepare,
)
