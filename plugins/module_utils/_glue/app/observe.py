# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads an application, and the world that it is placed in, from the API server: at most one LIST of each kind.

Called by stateful_app and stateful_app_info. Never writes, never decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable

from ...berth_core.app.choose import World
from ...berth_core.app.given_beside import BESIDE
from ...berth_core.app.observed import Observed
from ...berth_core.app.observing import Answers, Question, has_devices, observed, uses_claims
from ...berth_core.app.wanted import OURS, AppWanted
from ...berth_core.app.wanted import POD as POD_WORKLOAD
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
    """Everything that bears the app's name. Locks, volumes and claims are read before berths, berths before pods: see
    Observed.stale_disks and stale_claims.

    ``devices_handed``: look for ResourceClaims even where no berth has devices yet. ``beside``: other objects of its
    manifest, to be looked for by name.
    """
    asked = Question(name, namespace, workload, service, beside)
    held = client.list(LOCAL_DISK, fields=asked.held_fields)
    devices = client.list(LOCAL_DEVICE)
    volumes = client.list(PV, labels=asked.volume_labels)
    claims = client.list(PVC, namespace, labels=asked.labels)
    berths = client.list(BERTH, namespace, labels=asked.labels)
    tied = devices_handed or has_devices(berths)
    found = {each: client.find(*each, namespace) for each in asked.named}
    answers = Answers(
        held,
        devices,
        berths,
        volumes=volumes,
        claims=claims,
        pods=client.list(POD, namespace, labels=asked.pod_labels),
        named={each: one for each, one in found.items() if one is not None},
        device_claims=_device_claims(client, namespace, asked.labels) if tied else (),
    )
    return observed(asked, answers)


def _device_claims(client: ApiClient, namespace: str, label: str) -> list[dict[str, Any]]:
    """None where the cluster has no dynamic resource allocation: devices are only locked there."""
    try:
        return client.list(RESOURCE_CLAIM, namespace, labels=label)
    except NotFoundError:
        return []


def with_beside(client: ApiClient, seen: Observed, warn: Callable[[str], None]) -> Observed:
    """All Services and ConfigMaps that were applied with the app, for its removal: found by their labels, so that
    nobody needs the manifest for it."""
    asked = Question(seen.name, seen.namespace, POD_WORKLOAD, None)
    found = {}
    for kind, resource in BESIDE.items():
        try:
            items = client.list(resource, seen.namespace, labels=asked.beside_labels)
        except ForbiddenError as exc:
            warn(f"{exc.message}: the {kind}s that came with the manifest of {seen.name} are left, if there are any")
            continue
        found.update({(kind, item["metadata"]["name"]): item for item in items})
    if seen.service is not None:
        found.pop((SERVICE.kind, seen.service["metadata"]["name"]), None)
    return replace(seen, beside=found)


def load_world(client: ApiClient, app: AppWanted) -> World:
    """What a choice is made from. Claims, and volumes of others, only where the template itself brings some: berth's
    own volumes tell which disks are below one whose lock is gone.

    Raises ForbiddenError where the app's namespace may not be read: without its uid, data that an earlier namespace of
    that name has left is not told from the app's own.
    """
    own_claims = uses_claims(app.template)
    namespace = client.find(NAMESPACE, app.namespace)
    # Before the disks: a volume is made after its disk's lock, which is then seen with it.
    volumes = client.list(PV, labels=None if own_claims else OURS)
    disks, devices = client.list(LOCAL_DISK), client.list(LOCAL_DEVICE)
    return World(
        disks=disks,
        devices=devices,
        berths=client.list(BERTH),
        nodes=client.list(NODE),
        pods=client.list(POD),
        storage_classes=client.list(STORAGE_CLASS),
        volumes=volumes,
        claims=client.list(PVC, app.namespace) if own_claims else (),
        namespaces=(namespace,) if namespace is not None else (),
    )
