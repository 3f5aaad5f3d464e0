"""Reads an application, and the world that it is placed in, from the API server itself. Never writes, never decides.

What a cache says may be behind; a look at an app costs a few short lists, and only where something has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from berth_core.app.choose import World
from berth_core.app.contents import asked_for, own_content, with_contents
from berth_core.app.given_beside import BESIDE
from berth_core.app.observed import Observed
from berth_core.app.observing import Answers, Question, has_devices, observed, uses_claims
from berth_core.app.wanted import OURS, AppWanted
from berth_core.errors import NotFoundError
from berth_core.model.resources import (
    BERTH,
    LOCAL_DEVICE,
    LOCAL_DISK,
    NAMESPACE,
    NODE,
    POD,
    PV,
    PVC,
    RESOURCE_CLAIM,
    STORAGE_CLASS,
)

from .requests import Obj, Requests


async def observe(api: Requests, asked: Question, devices_handed: bool = False) -> Observed:
    """Everything that bears the app's name. Locks, volumes and claims are read before berths, berths before pods: see
    Observed.stale_disks and stale_claims."""
    namespace = asked.namespace
    disks = await api.list(LOCAL_DISK, fields=asked.held_fields)
    devices = await api.list(LOCAL_DEVICE)
    volumes = await api.list(PV, labels=asked.volume_labels)
    claims = await api.list(PVC, namespace, labels=asked.labels)
    berths = await api.list(BERTH, namespace, labels=asked.labels)
    tied = devices_handed or has_devices(berths)
    found = {each: await api.find(*each, namespace) for each in asked.named}
    answers = Answers(
        disks,
        devices,
        berths,
        volumes=volumes,
        claims=claims,
        pods=await api.list(POD, namespace, labels=asked.pod_labels),
        named={each: one for each, one in found.items() if one is not None},
        device_claims=await _device_claims(api, asked) if tied else (),
    )
    return observed(asked, answers)


async def _device_claims(api: Requests, asked: Question) -> list[Obj]:
    """None where the cluster has no dynamic resource allocation: devices are only locked there."""
    try:
        return await api.list(RESOURCE_CLAIM, asked.namespace, labels=asked.labels)
    except NotFoundError:
        return []


async def with_beside(api: Requests, asked: Question, seen: Observed) -> Observed:
    """All Services and ConfigMaps that were applied with the app, for its removal: found by their labels."""
    found = {}
    for kind, resource in BESIDE.items():
        items = await api.list(resource, asked.namespace, labels=asked.beside_labels)
        found.update({(kind, item["metadata"]["name"]): item for item in items})
    if seen.service is not None:
        found.pop(("Service", seen.service["metadata"]["name"]), None)
    return replace(seen, beside=found)


async def counted(api: Requests, app: AppWanted, kinds: Sequence[str]) -> AppWanted:
    """The app whose template says what the ConfigMaps and Secrets hold that count as a revision (update_on)."""
    read = {}
    for one in asked_for(app, kinds):
        read[one] = own_content(app, one) or await api.find(one.resource, one.name, app.namespace)
    return with_contents(app, read)


async def load_world(api: Requests, app: AppWanted) -> World:
    """What a choice is made from. Claims, and volumes of others, only where the template itself brings some: berth's
    own volumes tell which disks are below one whose lock is gone."""
    own_claims = uses_claims(app.template)
    namespace = await api.find(NAMESPACE, app.namespace)
    # Before the disks: a volume is made after its disk's lock, which is then seen with it.
    volumes = await api.list(PV, labels=None if own_claims else OURS)
    disks, devices = await api.list(LOCAL_DISK), await api.list(LOCAL_DEVICE)
    return World(
        disks=disks,
        devices=devices,
        berths=await api.list(BERTH),
        nodes=await api.list(NODE),
        pods=await api.list(POD),
        storage_classes=await api.list(STORAGE_CLASS),
        volumes=volumes,
        claims=await api.list(PVC, app.namespace) if own_claims else (),
        namespaces=(namespace,) if namespace is not None else (),
    )
