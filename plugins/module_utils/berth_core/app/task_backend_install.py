# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task backend in the cluster: the shipped objects filled in, in which namespaces it runs tasks, who needs it.

Called by the module task_backend. The objects are those of deploy/tasks, which come in as they are there. There is one
in a cluster: its name is fixed. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from ..errors import InputError
from ..model.names import check_subdomain
from ..model.resources import ROLE_BINDING
from ..tasks import states
from . import daemon_install
from .daemon_install import Wanted
from .shipped import INSTANCE, NAME_LABEL, PART_OF, Object, Owner, is_ours
from .task_backend_settings import checked_flags

#: The name of the shipped objects and of the Lease.
SHIPPED = "berth-tasks"
#: The ClusterRole of a namespace in which tasks run, and the RoleBinding there.
RUNNER = "berth-task-runner"
_PREFIX = "BERTH_TASKS_"
#: Where the keys of the store's Secret are files.
STORE_FILES = "/etc/berth-tasks/store"
#: The volume of the store that the shipped Deployment has.
_EMBEDDED = "embedded-store"


def objects(shipped: Sequence[Mapping[str, Any]], wanted: Wanted, store_secret: str = "") -> list[Object]:
    """The objects of the backend, in the order of ``shipped``. Raises InputError for what cannot be."""
    flags = checked_flags(wanted.flags)
    if store_secret:
        check_subdomain(store_secret, "store_secret")
        if not flags.get("store"):
            raise InputError("store_secret is given without flags.store, which it is for: give both")
    if "store" in flags:
        shipped = [_without_embedded(body) for body in shipped]
    if store_secret:
        shipped = [_with_secret(body, store_secret) for body in shipped]
    return daemon_install.objects(shipped, wanted, SHIPPED, _PREFIX, flags)


def _without_embedded(body: Mapping[str, Any]) -> Object:
    """Another store is given, or none: neither the shipped one's variable nor its volume."""
    made: Object = deepcopy(dict(body))
    if made["kind"] == "Deployment":
        pod = made["spec"]["template"]["spec"]
        _leave_out(pod, "volumes", _EMBEDDED)
        for container in pod["containers"]:
            _leave_out(container, "volumeMounts", _EMBEDDED)
            _leave_out(container, "env", f"{_PREFIX}STORE")
    return made


def _leave_out(body: Object, field: str, name: str) -> None:
    left = [one for one in body.pop(field, ()) if one["name"] != name]
    if left:
        body[field] = left


def _with_secret(body: Mapping[str, Any], name: str) -> Object:
    """Its keys as variables of the containers, which libpq reads, and as files, for certificates."""
    made: Object = deepcopy(dict(body))
    if made["kind"] == "Deployment":
        pod = made["spec"]["template"]["spec"]
        pod.setdefault("volumes", []).append({"name": "store", "secret": {"secretName": name}})
        for container in pod["containers"]:
            container.setdefault("envFrom", []).append({"secretRef": {"name": name}})
            mount = {"name": "store", "mountPath": STORE_FILES, "readOnly": True}
            container.setdefault("volumeMounts", []).append(mount)
    return made


def binding(namespace: str, backend: str) -> Object:
    """Lets the backend, which is in the namespace ``backend``, run tasks in ``namespace``."""
    return {
        "apiVersion": ROLE_BINDING.api_version,
        "kind": ROLE_BINDING.kind,
        "metadata": {
            "name": RUNNER,
            "namespace": namespace,
            "labels": {PART_OF: "berth", NAME_LABEL: SHIPPED, INSTANCE: SHIPPED},
        },
        "roleRef": {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": RUNNER},
        "subjects": [{"kind": "ServiceAccount", "name": SHIPPED, "namespace": backend}],
    }


def bindings(found: Iterable[Object], owner: Owner) -> dict[str, Object]:
    """Those of ``binding`` that the module has made, by their namespace."""
    return {str(one["metadata"]["namespace"]): one for one in found if _labels(one) and is_ours(one, owner)}


def bound_by_hand(found: Iterable[Mapping[str, Any]], backend: str) -> set[str]:
    """The namespaces of RoleBindings that say what ``binding`` does, and that somebody else made."""
    wanted = binding("", backend)
    return {
        str(one["metadata"]["namespace"])
        for one in found
        if not _labels(one) and all(one.get(key) == wanted[key] for key in ("roleRef", "subjects"))
    }


def _labels(body: Mapping[str, Any]) -> Mapping[str, str]:
    return body["metadata"].get("labels") or {}


def needed_by(tasks: Iterable[Mapping[str, Any]], namespaces: Collection[str] | None = None) -> list[str]:
    """Tasks and TaskBatches whose state is not final (``namespace/name``, sorted), of these namespaces or of all."""
    return sorted(
        f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in tasks
        if (each.get("status") or {}).get("state") not in states.FINAL
        and (namespaces is None or each["metadata"]["namespace"] in namespaces)
    )
