# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads an application, and the world that it is placed in, from the API server: at most one LIST of each kind.

Called by stateful_app and stateful_app_info. Never writes, never decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable

from ...berth_core.app import manifests
from ...berth_core.app.choose import World
from ...berth_core.app.given_beside import BESIDE
from ...berth_core.app.observed import Observed
from ...berth_core.app.wanted import APP_LABEL, MANAGED_LABEL, STATEFUL_SET, AppWanted
from ...berth_core.errors import ForbiddenError, NotFoundError
from ...berth_core.model.resources import (
    BERTH,
    LOCAL_DEVICE,
    LOCAL_DISK,
    NAMESPACE,
    NODE,
    POD,
    PV,
    PVC,
    RESOURCE_CLAIM,
    SERVICE,
    STORAGE_CLASS,
    Resource,
)
from ...berth_core.model.resources import (
    STATEFUL_SET as STATEFUL_SETS,
)
from ..client import ApiClient


def observe(
    client: ApiClient,
    name: str,
    namespace: str,
    workload: str,
    service: str | None,
    devices_handed: bool = False,
    beside: Sequence[Mapping[str, Any]] = (),
) -> Observed:
    """Everything that bears the app's name. Locks are read before berths: see Observed.stale_disks.

    ``devices_handed``: look for ResourceClaims even where no berth has devices yet. ``beside``: other objects of its
    manifest, to be looked for by name.
    """
    label = f"{APP_LABEL}={name}"
    held = client.list(LOCAL_DISK, fields=f"spec.claimRef.app={name}")
    disks = [disk for disk in held if disk["spec"]["claimRef"]["namespace"] == namespace]
    devices = [device for device in client.list(LOCAL_DEVICE) if device["spec"].get("claimRefs")]
    berths = client.list(BERTH, namespace, labels=label)
    tied = devices_handed or any(record["spec"].get("devices") for record in berths)
    wanted = [(STATEFUL_SETS, name)] if workload == STATEFUL_SET else []
    others = [(BESIDE[one["kind"]], one["metadata"]["name"]) for one in beside]
    ours, foreign = _named(client, [*wanted, *others, *([(SERVICE, service)] if service else [])], name, namespace)
    return Observed(
        name,
        namespace,
        berths={record["spec"]["ordinal"]: record for record in berths if record["spec"]["app"] == name},
        disks=_by_name(disks),
        volumes=_by_name(client.list(PV, labels=f"{label},{manifests.NAMESPACE_LABEL}={namespace}")),
        claims=_by_name(client.list(PVC, namespace, labels=label)),
        pods=_by_name(_own_pods(client.list(POD, namespace, labels=label), name)),
        stateful_set=ours.get((STATEFUL_SETS, name)),
        service=ours.get((SERVICE, service or "")),
        beside={(kind.kind, other): ours[kind, other] for kind, other in others if (kind, other) in ours},
        devices=_by_name(devices),
        foreign=tuple(foreign),
        device_claims=_by_name(_device_claims(client, namespace, label)) if tied else {},
    )


def _device_claims(client: ApiClient, namespace: str, label: str) -> list[dict[str, Any]]:
    """None where the cluster has no dynamic resource allocation: devices are only locked there."""
    try:
        return client.list(RESOURCE_CLAIM, namespace, labels=label)
    except NotFoundError:
        return []


def _named(
    client: ApiClient, wanted: list[tuple[Resource, str]], app: str, namespace: str
) -> tuple[dict[tuple[Resource, str], dict[str, Any]], list[str]]:
    """The app's own objects of those names, and what stands there and is not the app's."""
    ours, foreign = {}, []
    for resource, name in wanted:
        found = client.find(resource, name, namespace)
        if found is None:
            continue
        if (found["metadata"].get("labels") or {}).get(APP_LABEL) == app:
            ours[resource, name] = found
        else:
            foreign.append(resource.describe(name, namespace))
    return ours, foreign


def with_beside(client: ApiClient, seen: Observed, warn: Callable[[str], None]) -> Observed:
    """All Services and ConfigMaps that were applied with the app, for its removal: found by their labels, so that
    nobody needs the manifest for it."""
    found = {}
    for kind, resource in BESIDE.items():
        try:
            items = client.list(resource, seen.namespace, labels=f"{APP_LABEL}={seen.name},{MANAGED_LABEL}=berth")
        except ForbiddenError as exc:
            warn(f"{exc.message}: the {kind}s that came with the manifest of {seen.name} are left, if there are any")
            continue
        found.update({(kind, item["metadata"]["name"]): item for item in items})
    if seen.service is not None:
        found.pop((SERVICE.kind, seen.service["metadata"]["name"]), None)
    return replace(seen, beside=found)


def _by_name(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in items}


def _own_pods(pods: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    pattern = re.compile(re.escape(name) + r"-[0-9]+")
    return [pod for pod in pods if pattern.fullmatch(pod["metadata"]["name"])]


def load_world(client: ApiClient, app: AppWanted) -> World:
    """What a choice is made from. Claims and volumes only where the template itself brings some.

    Raises ForbiddenError where the app's namespace may not be read: without its uid, data that an earlier namespace of
    that name has left is not told from the app's own.
    """
    own_claims = _uses_claims(app.template)
    namespace = client.find(NAMESPACE, app.namespace)
    disks, devices = client.list(LOCAL_DISK), client.list(LOCAL_DEVICE)
    return World(
        disks=disks,
        devices=devices,
        berths=client.list(BERTH),
        nodes=client.list(NODE),
        pods=client.list(POD),
        storage_classes=client.list(STORAGE_CLASS),
        volumes=client.list(PV) if own_claims else (),
        claims=client.list(PVC, app.namespace) if own_claims else (),
        namespaces=(namespace,) if namespace is not None else (),
    )


def _uses_claims(template: Mapping[str, Any]) -> bool:
    return any("persistentVolumeClaim" in volume for volume in template["spec"].get("volumes") or ())
