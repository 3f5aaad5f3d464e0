# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation behind the module crds: install, upgrade and remove the CustomResourceDefinitions, and with them the
roles and admission policies that say who may do what to their objects.

What to do is decided in berth_core/app/crd_plan.py and policy_plan.py; here it is carried out. Everything is read, and
every refusal made, before the first write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..berth_core.app.crd_plan import check_definitions, established, loss_message, plan_crd
from ..berth_core.app.policy_plan import check_policies, without_node_affinity
from ..berth_core.errors import ForbiddenError, InputError, NotFoundError, StateError, TimeoutExpired
from ..berth_core.model.resources import CRD, Resource
from . import policies
from .base import Context, Operation
from .exact import installed, write
from .objects import diff_entry, poll

try:
    import yaml
except ImportError:  # only the controller reads YAML, and Ansible brings it there
    yaml = None


def read_definitions(part: str = "crds") -> list[dict[str, Any]]:
    """The collection's own manifests (deploy/``part``), sorted by file name; a file holds one object or a List."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "deploy", part)
    found: list[dict[str, Any]] = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".yaml"):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                body = yaml.load(stream, Loader=_loader())
            found += body["items"] if body["kind"] == "List" else [body]
    return found


def _loader() -> Any:
    """The safe loader in C where PyYAML has it: the manifests are long enough for the difference to be felt."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def bring(arguments: dict[str, Any], option: str, part: str) -> dict[str, Any]:
    """On the controller: the default manifests travel with the arguments, also to another machine or into async."""
    if arguments.get(option) is None:
        return {**arguments, option: read_definitions(part)}
    return arguments


def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    """Who brings definitions of their own brings what comes with them, too."""
    if arguments.get("definitions") is None:
        arguments = bring(arguments, "policies", "policies")
    return bring(arguments, "definitions", "crds")


def run(context: Context) -> dict[str, Any]:
    definitions = context.params["definitions"]
    if not definitions:
        raise InputError(
            "crds: there are no definitions; give definitions, or run it as a task "
            "(its action plugin fills in the default)"
        )
    check_definitions(definitions)
    brought = context.params["policies"] or []
    check_policies(brought)
    if context.params["state"] == "absent":
        return _absent(context, [str(body["metadata"]["name"]) for body in definitions], brought)
    return _present(context, definitions, brought)


# -- present -------------------------------------------------------------------------------------------------------


def _present(
    context: Context, definitions: Sequence[Mapping[str, Any]], brought: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    live = installed(context, CRD, [str(body["metadata"]["name"]) for body in definitions])
    changes = [plan_crd(body, live[body["metadata"]["name"]]) for body in definitions]
    changed = [change for change in changes if change.action != "none"]
    off: Sequence[Mapping[str, Any]] = ()
    if not context.params["node_affinity"]:
        brought, off = without_node_affinity(brought)
    beside = policies.plan_present(context, brought, context.params["mount_root"], policies.NEWER)
    beside += policies.plan_absent(context, off, policies.NEWER)
    policies.carry_out(context, beside)  # first: no object of a definition is ever without them
    if not context.check_mode:
        for change, body in zip(changes, definitions):
            if change.action != "none":
                live[change.name] = write(context, CRD, plan_crd, change, body)
        if context.params["wait"]:
            _wait_established(context, live, {change.name for change in changed})
    diff = [diff_entry(CRD, change.name, change.before, change.after) for change in changed] + policies.diffs(beside)
    return {
        "changed": bool(diff),
        "crds": [
            {"name": change.name, "action": change.action, "versions": _versions(change.after)} for change in changes
        ],
        "policies": policies.rows(beside),
        "diff": diff,
    }


def _wait_established(context: Context, live: Mapping[str, Mapping[str, Any] | None], changed: set[str]) -> None:
    pending = {
        name: body for name, body in live.items() if body is not None and (name in changed or not established(body))
    }

    def probe() -> bool | None:
        there = [body for body in (context.client.get(CRD, name) for name in pending) if established(body)]
        for body in there:
            _begin(context, body)
        for body in there:
            if _served(context, body):
                del pending[body["metadata"]["name"]]
        return None if pending else True

    if pending and not poll(probe, context.params["wait_timeout"]):
        raise TimeoutExpired(
            f"not Established after {context.params['wait_timeout']} s: {', '.join(sorted(pending))}; "
            "see their status.conditions",
            missing=sorted(pending),
            changed=bool(changed),
        )


def _begin(context: Context, body: Mapping[str, Any]) -> None:
    """Have the API server fill its cache of a kind, as it does at the first request: a list would be told to come again
    in a second, and so each kind would cost one. An object is read past the cache."""
    resource = _resource(body)
    try:
        context.client.find(resource, "none", "default" if resource.namespaced else None)
    except ForbiddenError:
        return


def _served(context: Context, body: Mapping[str, Any]) -> bool:
    """Established is said a moment before the kind answers; the next task of a play wants it to answer."""
    try:
        context.client.list(_resource(body), fields="metadata.name=-")
    except NotFoundError:
        return False
    except ForbiddenError:  # whoever may install definitions need not be allowed to read objects
        return True
    return True


# -- absent --------------------------------------------------------------------------------------------------------


def _absent(context: Context, names: Sequence[str], brought: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    live = {name: body for name, body in installed(context, CRD, names).items() if body is not None}
    beside = policies.plan_absent(context, brought, policies.NEWER)
    lost = {name: _objects(context, body) for name, body in live.items()}
    if any(lost.values()) and not context.params["force"]:
        raise StateError(
            f"the CRDs still have objects, and removing them would lose {loss_message(lost)}; nothing was removed. "
            "Remove the objects first, or say force: true",
            lost=lost,
        )
    if not context.check_mode:
        for name, body in live.items():
            context.client.delete(CRD, name, uid=body["metadata"]["uid"])
        if context.params["wait"]:
            _wait_gone(context, live)
    policies.carry_out(context, beside)
    if any(lost.values()):
        context.warn(f"{'would be lost' if context.check_mode else 'lost'} with the CRDs: {loss_message(lost)}")
    diff = [diff_entry(CRD, name, {"spec": body["spec"]}, "", absent=True) for name, body in live.items()]
    diff += policies.diffs(beside)
    return {
        "changed": bool(diff),
        "crds": [
            {"name": name, "action": "delete" if name in live else "none", "versions": _versions(live.get(name))}
            for name in names
        ],
        "policies": policies.rows(beside),
        "lost": lost,
        "diff": diff,
    }


def _objects(context: Context, body: Mapping[str, Any]) -> list[str]:
    """The names of all objects of a kind, NAMESPACE/NAME where it is namespaced."""
    try:
        items = context.client.list(_resource(body))
    except NotFoundError:  # never established, or removed meanwhile: nothing can be stored
        return []
    return sorted(
        "/".join(filter(None, (item["metadata"].get("namespace"), item["metadata"]["name"]))) for item in items
    )


def _wait_gone(context: Context, live: Mapping[str, Mapping[str, Any]]) -> None:
    pending = {name: body["metadata"]["uid"] for name, body in live.items()}

    def probe() -> bool | None:
        for name, uid in list(pending.items()):
            body = context.client.find(CRD, name)
            if body is None or body["metadata"]["uid"] != uid:
                del pending[name]
        return None if pending else True

    if pending and not poll(probe, context.params["wait_timeout"]):
        raise TimeoutExpired(
            f"not gone after {context.params['wait_timeout']} s: {', '.join(sorted(pending))}; "
            "objects with finalizers hold them",
            missing=sorted(pending),
            changed=True,
        )


# -- both ----------------------------------------------------------------------------------------------------------


def _resource(body: Mapping[str, Any]) -> Resource:
    spec = body["spec"]
    served = [version["name"] for version in spec["versions"] if version.get("served")]
    stored = [version["name"] for version in spec["versions"] if version.get("storage") and version.get("served")]
    version = (stored or served or [spec["versions"][0]["name"]])[0]
    return Resource(
        spec["group"], version, spec["names"]["plural"], spec["names"]["kind"], spec["scope"] == "Namespaced"
    )


def _versions(body: Mapping[str, Any] | None) -> list[str]:
    return [version["name"] for version in body["spec"]["versions"]] if body else []


OPERATION = Operation(
    name="crds",
    options={
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "definitions": {"type": "list", "elements": "dict"},
        "policies": {"type": "list", "elements": "dict"},
        "mount_root": {"type": "path"},
        "node_affinity": {"type": "bool", "default": True},
        "force": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 60},
    },
    run=run,
    prepare=prepare,
)
