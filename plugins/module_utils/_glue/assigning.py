# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module scheduler's assign_pods: the admission policies that give pods the scheduler, made last and removed first.

Called by scheduler.py. What the policies say is decided in berth_core/app/assign_pods.py; as those of the module crds
they are compared, written and removed by policies.py.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Callable

from ..berth_core.app import assign_pods
from ..berth_core.errors import InputError, NotFoundError, StateError
from ..berth_core.model import resources as kinds
from ..berth_core.model.names import check_names, first
from . import policies
from .base import Context
from .objects import poll
from .policies import Planned
from .tried import Change, try_all

POLICY = kinds.MUTATING_ADMISSION_POLICY
#: An API server looks for changed policies every second (policyRefreshInterval of k8s.io/apiserver).
_TAKEN_UP = 3.0


def check(params: Mapping[str, Any]) -> None:
    """Raises InputError that names the option."""
    classes = params["assign_storage_classes"]
    check_names(classes, "assign_storage_classes")
    if classes and not params["assign_pods"]:
        raise InputError("assign_storage_classes says which pods are given the scheduler: it needs assign_pods: true")
    if params["assign_pods"] and not params["wait"] and params["state"] == "present":
        raise InputError(
            "assign_pods needs wait: true, since pods are given to a scheduler that leads; leave wait out, or assign "
            "them by a later task"
        )


def plan(context: Context) -> list[Planned]:
    """What differs from what assign_pods asks for; nothing where it is not given. Tried on the API server."""
    params = context.params
    if params["assign_pods"] is None:
        return []
    if not params["assign_pods"]:
        return plan_removal(context)
    _refuse_unknown_classes(context)
    wanted = assign_pods.objects(params["name"], params["namespace"], params["assign_storage_classes"] or ())
    try:
        found = policies.plan_present(context, wanted, None)
    except NotFoundError as exc:
        raise StateError(f"{too_old(params['name'])}; nothing was written") from exc
    changed = [one for one in found if one.action != "none"]
    try_all(context, [Change(one.resource, dict(one.body), _live(one)) for one in changed])
    return found + policies.plan_absent(context, assign_pods.absent(params["name"], wanted))


def too_old(scheduler: str) -> str:
    """Of an API server that does not serve POLICY."""
    return (
        "assign_pods: this API server has no MutatingAdmissionPolicy (admissionregistration.k8s.io/v1, Kubernetes "
        f"1.36 and later): write schedulerName: {scheduler} into the pods instead, and leave assign_pods out"
    )


def _live(one: Planned) -> dict[str, Any] | None:
    return None if one.change.live is None else dict(one.change.live)


def _refuse_unknown_classes(context: Context) -> None:
    """A misspelt one would assign nothing, in silence. In a check mode an earlier task may have made none yet."""
    for name in context.params["assign_storage_classes"] or ():
        if context.client.find(kinds.STORAGE_CLASS, name) is None:
            problem = f"assign_storage_classes: {kinds.STORAGE_CLASS.describe(name)} does not exist"
            if not context.check_mode:
                raise StateError(f"{problem}; nothing was written")
            context.warn(problem)


def plan_removal(context: Context) -> list[Planned]:
    """What is there of them and goes; an API server that has no such policies has none of them."""
    try:
        return policies.plan_absent(context, assign_pods.absent(context.params["name"]))
    except NotFoundError:
        return []


def carry_out(context: Context, planned: list[Planned]) -> list[dict[str, Any]]:
    """Write and remove, and wait until API servers have taken it up; the diff."""
    policies.carry_out(context, planned)
    diff = policies.diffs(planned)
    if diff and not context.check_mode:
        time.sleep(_TAKEN_UP)
    return diff


def wait_for_pods(context: Context, waiting: Callable[[], list[str]]) -> list[str]:
    """Those that were given the scheduler until a moment ago are placed, while it is there. Raises StateError."""
    if context.check_mode or context.params["force"]:
        return waiting()
    params = context.params
    seconds = params["wait_timeout"] if params["wait"] else 0
    if poll(lambda: None if waiting() else True, seconds):
        return []
    left = waiting()
    raise StateError(
        f"scheduler {params['name']} is given no pods any more, and stays for those that wait for it after {seconds} "
        f"s: {first(left)}. Remove them (those that are made anew are not given to it), and run it again, "
        "or set force: true",
        waiting=left,
        changed=True,
    )
