# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler in the cluster: the shipped objects under its own name, filled in as asked for; who waits for it.

Called by the module scheduler. The objects are those of deploy/scheduler, which come in as they are there; their
name becomes the name of any scheduler. Nothing is read or written here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config.configuration import KIND, SchedulerConfiguration
from ..config.names import EXTENDS, POINTS
from ..config.plugin_args import API_VERSION
from ..errors import InputError
from ..plugins.table import TABLE
from .shipped import Object, Pods, check_object_name, check_replicas, digest, fill_in, renamed

#: The name of the shipped objects.
SHIPPED = "berth-scheduler"
FILE = "scheduler.yaml"
#: The names that pods give as their schedulerName.
PROFILES = "berth.dev/scheduler-names"
#: Names that mean the stock scheduler: its Lease, its pods.
_STOCK = ("default-scheduler", "kube-scheduler")
#: Where a plugin from outside may stand, as far as can be known here: one of each of the others is there already.
_OUTSIDE = tuple(point for point in POINTS if point not in ("queueSort", "bind"))
_DEFAULT: Mapping[str, Any] = {"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}


@dataclass(frozen=True)
class Wanted(Pods):
    """One scheduler. ``name``: its Lease, its objects and one of its profiles. None: as it is shipped.

    ``outside_plugins``: those that its image brings; what their arguments are is known there alone.
    ``page_port``: that of the page on each pod's loopback; 0: none.
    """

    config: Mapping[str, Any] | None = None
    outside_plugins: Sequence[str] = ()
    page_port: int = 0


def check_name(name: str) -> None:
    """Refuse what is no name of an object, or means another scheduler (InputError)."""
    check_object_name(name)
    if name in _STOCK:
        raise InputError(
            f"name is {name}: that is the stock scheduler's; expected a name of its own, as berth-scheduler"
        )


def configuration(wanted: Wanted) -> tuple[Object, list[str]]:
    """The document that the daemon reads, and the names of its profiles.

    Whose Lease it is is filled in, and the name of a single profile. Raises InputError with the path of what is wrong.
    """
    known = sorted(set(wanted.outside_plugins) & set(EXTENDS))
    if known:
        raise InputError(f"outside_plugins: {known[0]} is a plugin of the collection, and needs not be named here")
    given = {"profiles": [_DEFAULT]} if wanted.config is None else wanted.config
    document = {"apiVersion": API_VERSION, "kind": KIND, **copy.deepcopy(dict(given))}
    profiles = [{}] if document.get("profiles") in (None, []) else document["profiles"]
    if isinstance(profiles, list) and len(profiles) == 1 and isinstance(profiles[0], Mapping):
        document["profiles"] = [{"schedulerName": wanted.name, **profiles[0]}]
    lease = {} if document.get("leaderElection") is None else document["leaderElection"]
    if isinstance(lease, Mapping):
        document["leaderElection"] = {"resourceName": wanted.name, "resourceNamespace": wanted.namespace, **lease}
    try:
        found = _parsed(document, wanted.outside_plugins)
        _for_a_deployment(found, wanted)
    except InputError as exc:
        raise InputError(f"config.{exc.message}", **{**exc.details, "option": "config"}) from exc
    return document, [profile.scheduler_name for profile in found.profiles]


def _parsed(document: Mapping[str, Any], outside: Sequence[str]) -> SchedulerConfiguration:
    table = TABLE.extended((name, _made_there) for name in sorted(set(outside)))
    found = SchedulerConfiguration.parse(document, table, {**EXTENDS, **dict.fromkeys(outside, _OUTSIDE)})
    found.check()
    return found


def _made_there(_args: Mapping[str, Any], _path: str) -> Any:
    """The daemon makes it, and refuses wrong arguments; here nobody looks at it."""


def _for_a_deployment(found: SchedulerConfiguration, wanted: Wanted) -> None:
    """What the daemon could do and this scheduler may not: its rights are those of one Lease and one account."""
    lease = found.leader_election
    if not lease.leader_elect:
        raise InputError("leaderElection.leaderElect: expected true: of its pods one leads, and the others are ready")
    if (lease.resource_name, lease.resource_namespace) != (wanted.name, wanted.namespace):
        got = f"{lease.resource_namespace}/{lease.resource_name}"
        raise InputError(f"leaderElection: expected the Lease {wanted.namespace}/{wanted.name}, its own, got {got}")
    if found.kubeconfig:
        raise InputError(
            f"clientConnection.kubeconfig: expected none, it is given its own account; got {found.kubeconfig}"
        )
    names = [profile.scheduler_name for profile in found.profiles]
    if wanted.name not in names:
        raise InputError(f"profiles: expected one with schedulerName {wanted.name}, got {', '.join(names)}")
    stock = sorted(set(names) & set(_STOCK))
    if stock:
        raise InputError(f"profiles: {stock[0]} is the stock scheduler's name: its pods would have two schedulers")


def objects(shipped: Sequence[Mapping[str, Any]], wanted: Wanted) -> list[Object]:
    """The objects of that scheduler, in the order of ``shipped``. Raises InputError for what cannot be."""
    check_name(wanted.name)
    check_replicas(wanted.replicas)
    document, profiles = configuration(wanted)
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    made = [renamed(body, SHIPPED, wanted.name, wanted.namespace) for body in shipped]
    for body in made:
        if body["kind"] == "ConfigMap":
            body["data"] = {FILE: text}
        elif body["kind"] == "Deployment":
            _serve_page(body, wanted.page_port)
            fill_in(body, wanted, digest(text), {PROFILES: ",".join(profiles)})
    return made


def _serve_page(deployment: Object, port: int) -> None:
    if not 0 <= port <= 65535:
        raise InputError(f"page_port is {port}: expected 1 to 65535, or 0 for none")
    if port:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            container.setdefault("env", []).append({"name": "BERTH_SCHEDULER_PAGE_PORT", "value": str(port)})


def profiles_of(deployment: Mapping[str, Any] | None, name: str) -> list[str]:
    """The schedulerNames that a live Deployment serves."""
    notes = ((deployment or {}).get("metadata") or {}).get("annotations") or {}
    return [one for one in str(notes.get(PROFILES) or name).split(",") if one]


def waiting_pods(pods: Iterable[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Pods without a node that name one of those schedulers, sorted. Those that end are no reason to stay."""
    return sorted(
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if (pod.get("spec") or {}).get("schedulerName") in names
        and not pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
    )
