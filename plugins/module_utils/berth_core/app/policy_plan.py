# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do with the admission policies and roles that come with the CustomResourceDefinitions, or with a scheduler.
Called by the modules crds and scheduler.

Like a definition, such an object is wholly berth's: a condition that somebody has added to a policy would switch it
off. So everything is compared, after what the API server fills in by itself. Never looks at the API.
"""

from __future__ import annotations

import copy
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, StateError
from .compare import differences, prune
from .crd_plan import CrdChange
from .fsid import DEFAULT_MOUNT_ROOT, mount_point

#: In the order in which they are made: rights before what asks for them.
KINDS = (
    *("ClusterRole", "PriorityClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
)
#: What only saves work, and may be left out: each (kind, name).
NODE_AFFINITY = (
    ("MutatingAdmissionPolicy", "berth-node-affinity"),
    ("MutatingAdmissionPolicyBinding", "berth-node-affinity"),
)
_PART_OF = "app.kubernetes.io/part-of"
_MOUNT_ROOT = "mountRoot"
#: What is written into a policy's expression between quotes.
_PATH = re.compile(r"/[A-Za-z0-9_./-]+")
#: Fields that the API server adds to ``spec.matchConstraints``.
_MATCH_DEFAULTS: Mapping[str, Any] = {"namespaceSelector": {}, "objectSelector": {}, "matchPolicy": "Equivalent"}


def check_policies(policies: Sequence[Any]) -> None:
    """Refuse what is no list of objects of KINDS with names (InputError)."""
    for index, body in enumerate(policies):
        kind = body.get("kind") if isinstance(body, Mapping) else type(body).__name__
        if not isinstance(body, Mapping) or kind not in KINDS or not (body.get("metadata") or {}).get("name"):
            raise InputError(f"policies[{index}] is a {kind}; expected a {', '.join(KINDS)} with a metadata.name")


def without_node_affinity(
    policies: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """(what is installed, what is removed) where pods that come home are not to name their node."""
    kept = [body for body in policies if (body["kind"], body["metadata"]["name"]) not in NODE_AFFINITY]
    return kept, [{"kind": kind, "metadata": {"name": name}} for kind, name in NODE_AFFINITY]


def for_mount_root(body: Mapping[str, Any], mount_root: str) -> dict[str, Any]:
    """The object for agents that mount disks below ``mount_root``. Raises InputError."""
    mount_point("disk", mount_root)
    root = posixpath.normpath(mount_root)
    if not _PATH.fullmatch(root):
        raise InputError(f"mount_root {mount_root!r} has other signs than letters, digits and _ . / -")
    made = copy.deepcopy(dict(body))
    for variable in _mount_roots(made):
        variable["expression"] = f"'{root}'"
    return made


def mount_root_of(live: Mapping[str, Any] | None) -> str:
    """Where volumes are by an installed object; the default where it does not say."""
    told = [str(variable["expression"])[1:-1] for variable in _mount_roots(live or {})]
    return told[0] if told and _PATH.fullmatch(told[0]) else DEFAULT_MOUNT_ROOT


def _mount_roots(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    variables = (body.get("spec") or {}).get("variables") or ()
    return [variable for variable in variables if variable["name"] == _MOUNT_ROOT]


def plan_policy(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> CrdChange:
    """Compare one object with what is installed. Raises StateError for one of that name that is not berth's.

    A PriorityClass that is there stays, whoever made it: its value never changes, and is the cluster's to choose.
    """
    name, after = str(desired["metadata"]["name"]), _ours(desired)
    if live is None:
        return CrdChange(name, "create", {}, after, None)
    if desired["kind"] == "PriorityClass":
        return CrdChange(name, "none", after, after, live)
    if not is_ours(live):
        raise StateError(
            f"{desired['kind']} {name} is there and is not berth's (label {_PART_OF}): nothing was written; rename or "
            "remove it first"
        )
    before = _ours(live)
    before["metadata"] = prune(before["metadata"], after["metadata"])
    same = not differences(after, before) and not differences(before, after)
    return CrdChange(name, "none" if same else "update", before, after, live)


def is_ours(live: Mapping[str, Any]) -> bool:
    """Whether an object is one that berth installed."""
    return (live["metadata"].get("labels") or {}).get(_PART_OF) == "berth"


def _ours(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest speaks of: labels, and everything but metadata and status, without the API server's defaults."""
    kept = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    match = (kept.get("spec") or {}).get("matchConstraints")
    if match:
        kept["spec"] = {**kept["spec"], "matchConstraints": _without_defaults(match)}
    return {"metadata": {"labels": body["metadata"].get("labels") or {}}, **kept}


def _without_defaults(match: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in match.items() if _MATCH_DEFAULTS.get(key) != value}
    rules = kept.get("resourceRules") or ()
    kept["resourceRules"] = [{key: one for key, one in rule.items() if (key, one) != ("scope", "*")} for rule in rules]
    return kept
