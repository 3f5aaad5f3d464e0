# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles, the PriorityClass and the admission policies that the module crds installs with the definitions and
removes after them, and those of a scheduler's assign_pods.

Called by crds and assigning. Reading is one thing and writing another, so that everything is refused before the first
write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..berth_core.app.crd_plan import CrdChange
from ..berth_core.app.policy_plan import KINDS, for_mount_root, is_ours, mount_root_of, plan_policy
from ..berth_core.errors import NotFoundError
from ..berth_core.model import resources
from ..berth_core.model.resources import Resource
from .base import Context
from .exact import installed, write
from .objects import diff_entry

_RESOURCES = {
    each.kind: each
    for each in (
        *(resources.CLUSTER_ROLE, resources.PRIORITY_CLASS, resources.VALIDATING_ADMISSION_POLICY),
        *(resources.VALIDATING_ADMISSION_POLICY_BINDING, resources.MUTATING_ADMISSION_POLICY),
        resources.MUTATING_ADMISSION_POLICY_BINDING,
    )
}
#: API servers before Kubernetes 1.36 have none.
NEWER = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
_OfKind = tuple[Resource, list[Mapping[str, Any]]]


class Planned(NamedTuple):
    """``action``: as in the module's result. ``body``: what is wanted, or what is there and goes."""

    resource: Resource
    change: CrdChange
    body: Mapping[str, Any]
    action: str


def plan_present(
    context: Context,
    policies: Sequence[Mapping[str, Any]],
    mount_root: str | None,
    optional: Collection[str] = (),
) -> list[Planned]:
    """What differs from what is there. One LIST for each kind. Raises StateError where something is not berth's.

    ``mount_root`` None: as it is installed. ``optional``: kinds that are left out where the API server has none.
    """
    found = []
    for resource, bodies, live in _found(context, _by_kind(policies), optional):
        for body in bodies:
            there = live[body["metadata"]["name"]]
            wanted = for_mount_root(body, mount_root or mount_root_of(there))
            change = plan_policy(wanted, there)
            found.append(Planned(resource, change, wanted, change.action))
    return found


def plan_absent(
    context: Context, policies: Sequence[Mapping[str, Any]], optional: Collection[str] = ()
) -> list[Planned]:
    """What is there and berth's, in the order in which it goes: no policy without the roles that it asks for."""
    found = []
    for resource, _bodies, live in _found(context, reversed(_by_kind(policies)), optional):
        for name, there in live.items():
            action = "delete" if there is not None and is_ours(there) else "none"
            found.append(Planned(resource, CrdChange(name, action, {}, {}, there), there or {}, action))
    return found


def carry_out(context: Context, planned: Sequence[Planned]) -> None:
    """Write, or remove, what differs; nothing in check mode."""
    for resource, change, body, action in planned if not context.check_mode else ():
        if action == "delete":
            context.client.delete(resource, change.name, uid=body["metadata"]["uid"])
        elif action != "none":
            write(context, resource, plan_policy, change, body)


def rows(planned: Sequence[Planned]) -> list[dict[str, str]]:
    """For the module's result."""
    return [{"kind": one.resource.kind, "name": one.change.name, "action": one.action} for one in planned]


def diffs(planned: Sequence[Planned]) -> list[dict[str, Any]]:
    """For the module's result: one for each that differs."""
    made = []
    for resource, change, _body, action in planned:
        if action == "delete":
            made.append(diff_entry(resource, change.name, {"metadata": {"name": change.name}}, "", absent=True))
        elif action != "none":
            made.append(diff_entry(resource, change.name, change.before, change.after))
    return made


def _found(
    context: Context, by_kind: Iterable[_OfKind], optional: Collection[str]
) -> Iterator[tuple[Resource, list[Mapping[str, Any]], dict[str, dict[str, Any] | None]]]:
    """With what is installed of each. Raises NotFoundError for a kind that the API server does not have."""
    for resource, bodies in by_kind:
        try:
            live = installed(context, resource, [body["metadata"]["name"] for body in bodies])
        except NotFoundError:
            if resource.kind not in optional:
                raise
            continue
        yield resource, bodies, live


def _by_kind(policies: Sequence[Mapping[str, Any]]) -> list[_OfKind]:
    sorted_out = [(_RESOURCES[kind], [body for body in policies if body["kind"] == kind]) for kind in KINDS]
    return [(resource, bodies) for resource, bodies in sorted_out if bodies]
