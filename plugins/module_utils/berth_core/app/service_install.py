# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler that runs on hosts, outside the cluster: its rights there, and whether it leads.

Called by the module scheduler with mode: service. Account, rights and Lease are those of scheduler_install.py; a host's
process renews its own token besides. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .scheduler_install import PROFILES, SHIPPED, Wanted, check_name, configuration
from .shipped import INSTANCE, NAME_LABEL, PART_OF, Object, leader, renamed

#: What is shipped besides account and rights: the Deployment and what belongs to it.
IN_THE_CLUSTER = ("ConfigMap", "PodDisruptionBudget", "Deployment")
_RBAC = "rbac.authorization.k8s.io"


def objects(shipped: Sequence[Mapping[str, Any]], wanted: Wanted) -> list[Object]:
    """Account and rights. Raises InputError for what cannot be."""
    check_name(wanted.name)
    profiles = configuration(wanted)[1]
    rights = [
        renamed(body, SHIPPED, wanted.name, wanted.namespace) for body in shipped if body["kind"] not in IN_THE_CLUSTER
    ]
    return [*rights, *token_rights(wanted.name, wanted.namespace, profiles)]


def mode_of(live: Mapping[str, Any], name: str) -> str:
    """Which mode of the module an object of that scheduler is of; empty: of both, as account and rights are."""
    if live["kind"] in IN_THE_CLUSTER:
        return "daemon"
    return "service" if live["metadata"]["name"] == token_name(name) else ""


def token_name(name: str) -> str:
    """What its Role is called that only a scheduler on hosts has."""
    return f"{name}-token"


def token_rights(name: str, namespace: str, profiles: Sequence[str] = ()) -> list[Object]:
    """It may ask for tokens of its own account. On the Role stand the names of its profiles."""
    labels = {PART_OF: "berth", NAME_LABEL: SHIPPED, INSTANCE: name}
    meta = {"name": token_name(name), "namespace": namespace, "labels": labels}
    rule = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [name], "verbs": ["create"]}
    noted = {**meta, "annotations": {PROFILES: ",".join(profiles)}}
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": noted, "rules": [rule]}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": dict(meta),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": token_name(name)},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    return [role, binding]


def not_leading(lease: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> str:
    """What is missing until one process leads, as one line; empty when nothing is.

    ``before``: the Lease as it was seen first. Clocks are not compared: who leads has renewed it since.
    """
    holder = leader(lease)
    if not holder:
        return "its Lease is held by nobody"
    if _renewed(lease) == _renewed(before):
        return f"{holder} holds its Lease and has not renewed it since"
    return ""


def _renewed(lease: Mapping[str, Any] | None) -> tuple[str, str]:
    spec = (lease or {}).get("spec") or {}
    return str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
