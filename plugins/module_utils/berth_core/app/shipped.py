# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Deployment of deploy/ and what belongs to it, under any name: made of the shipped objects, told from others'.

Called by scheduler_install.py, extender_install.py and controller_install.py, and by the modules that write the
objects. The shipped ones come in as they are there. Nothing is read or written here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, StateError
from .node_agents import is_ready, pod_problem

#: The namespace of the shipped objects.
SHIPPED_NAMESPACE = "berth-system"
PART_OF, NAME_LABEL, INSTANCE = "app.kubernetes.io/part-of", "app.kubernetes.io/name", "app.kubernetes.io/instance"
#: Which configuration a pod began with: another one replaces the pods, one after the other.
CONFIGURATION = "berth.dev/configuration"
#: Of the whole object as it was asked for: what is no longer asked for is a difference too.
ASKED = "berth.dev/asked-for"
#: A Deployment's pods are called after it with up to 17 characters more, and their names are host names.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,44}[a-z0-9])?")

Object = dict[str, Any]


@dataclass(frozen=True)
class Owner:
    """Whose objects they are. ``origin``: the name under which they are shipped; ``several``: others may have names of
    their own."""

    kind: str
    origin: str
    name: str
    namespace: str
    several: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Pods:
    """What may be asked of such a Deployment. None: as it is shipped."""

    name: str
    namespace: str
    image: str
    replicas: int = 2
    priority_class: str = "system-cluster-critical"
    resources: Mapping[str, Any] | None = None
    node_selector: Mapping[str, str] | None = None
    tolerations: Sequence[Mapping[str, Any]] | None = None


def check_object_name(name: str) -> None:
    """Refuse what is no name of such objects (InputError)."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name is {name!r}: expected at most 46 lower-case letters, digits and '-', as in db-scheduler"
        )


def check_replicas(replicas: int) -> None:
    """Refuse less than one (InputError)."""
    if replicas < 1:
        raise InputError(f"replicas is {replicas}: expected 1 or more; 2 for one that works and one that is ready")


def digest(text: str) -> str:
    """What tells one configuration from another, in an annotation."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def renamed(body: Mapping[str, Any], shipped: str, name: str, namespace: str) -> Object:
    """A shipped object as that of another name, with a label that says whose it is."""
    made: Object = _renamed(body, {shipped: name, SHIPPED_NAMESPACE: namespace})
    if body["kind"] != "Namespace":
        made["metadata"]["labels"] = {**(made["metadata"].get("labels") or {}), NAME_LABEL: shipped, INSTANCE: name}
    return made


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Every text that is one of the names, but for the label that says what it is."""
    if isinstance(value, Mapping):
        return {key: one if key == NAME_LABEL else _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def fill_in(body: Object, wanted: Pods, configuration: str, notes: Mapping[str, str] | None = None) -> None:
    """What is asked for, into a renamed Deployment; ``configuration`` is the digest of what its pods read."""
    body["spec"]["replicas"] = wanted.replicas
    template = body["spec"]["template"]
    template["metadata"]["annotations"] = {CONFIGURATION: configuration}
    pod = template["spec"]
    pod["priorityClassName"] = wanted.priority_class
    for container in pod["containers"]:
        container["image"] = wanted.image
        if wanted.resources is not None:
            container["resources"] = dict(wanted.resources)
    if wanted.node_selector:
        pod["nodeSelector"] = dict(wanted.node_selector)
    if wanted.tolerations is not None:
        pod["tolerations"] = [dict(one) for one in wanted.tolerations]
    body["metadata"]["annotations"] = {ASKED: digest(json.dumps(body, sort_keys=True)), **(notes or {})}


def is_ours(live: Mapping[str, Any], owner: Owner) -> bool:
    """Whether an object is one of the owner's. Those of deploy/ may have been applied by hand."""
    labels = live["metadata"].get("labels") or {}
    return labels.get(PART_OF) == "berth" and (labels.get(INSTANCE) or owner.origin) == owner.name


def check_live(live: Mapping[str, Any], owner: Owner, where: str) -> None:
    """Refuse to write over what is not the owner's, or what is its own in another namespace (StateError)."""
    if not is_ours(live, owner):
        remedy = "choose another name" if owner.several else "rename it, or remove it"
        raise StateError(f"{where} is there and is no part of {owner}: nothing was written; {remedy}")
    other = "choose another name" if owner.several else "give that namespace"
    check_place(live, owner, where, f"remove it there first, or {other}")


def check_place(live: Mapping[str, Any], owner: Owner, where: str, advice: str) -> None:
    """Refuse a binding of an account in another namespace: the owner's other objects are there (StateError)."""
    there = {str(one["namespace"]) for one in live.get("subjects") or () if one.get("namespace")}
    if there - {owner.namespace}:
        told = ", ".join(sorted(there))
        raise StateError(f"{owner} is installed in namespace {told} ({where}): nothing was written; {advice}")


def not_rolled_out(deployment: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    """What is missing until all pods are new and Ready, as one line; empty when nothing is."""
    status, spec = deployment.get("status") or {}, deployment["spec"]
    seen = int(status.get("observedGeneration") or 0) >= int(deployment["metadata"].get("generation") or 0)
    wanted = int(spec.get("replicas") or 0)
    updated, available, there = (
        int(status.get(key) or 0) if seen else 0 for key in ("updatedReplicas", "availableReplicas", "replicas")
    )
    if seen and updated == available == there == wanted:
        return ""
    waiting = sorted(pod_problem(pod) for pod in pods if not is_ready(pod))
    told = f"; not Ready: {'; '.join(waiting)}" if waiting else ""
    return f"of {wanted} pods {updated} are new and {available} are available{told}"


def not_leading(
    deployment: Mapping[str, Any], lease: Mapping[str, Any] | None, pods: Sequence[Mapping[str, Any]]
) -> str:
    """What is missing until all pods are new and Ready and one of them leads, as one line; empty when nothing is.

    ``lease`` is only looked at for who holds it: the holder is a pod that is Ready, so that it renews it.
    """
    missing = not_rolled_out(deployment, pods)
    if missing:
        return missing
    holder = leader(lease)
    if holder in {pod["metadata"]["name"] for pod in pods if is_ready(pod)}:
        return ""
    return f"its pods are Ready and none leads: its Lease is held by {holder or 'nobody'}"


def leader(lease: Mapping[str, Any] | None) -> str:
    """The pod that holds the Lease; empty: none. A holder is called after its pod, `_` and a random part."""
    held = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
    return held.rpartition("_")[0]
