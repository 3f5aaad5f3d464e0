"""What the API server has, by list-watch, reduced to what is looked at; and own writes until the watches tell them.

Everybody in this room reads here. Nothing that is given out is ever changed. Makes no requests but list and watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from berth_core.app import claims
from berth_core.app.capacity import SELECTOR
from berth_core.app.claim_disks import Place, place_of
from berth_core.app.claim_pods import ClaimPod, claim_pod
from berth_core.app.claims import claims_of_pod
from berth_core.app.observed import ready
from berth_core.app.wanted import OURS
from berth_core.errors import InputError
from berth_core.model.disk import LocalDisk
from berth_core.model.over_disk import disks_below
from berth_core.model.resources import (
    BERTH,
    CSI_STORAGE_CAPACITY,
    LIVING,
    LOCAL_DEVICE,
    LOCAL_DISK,
    NODE,
    POD,
    PV,
    PVC,
    STATEFUL_APP,
    STATEFUL_SET,
    STORAGE_CLASS,
    Resource,
)
from berth_kube.client import KubeClient
from berth_kube.informer import Informer
from berth_kube.store import Key, key_of
from berth_kube.written import Written, is_last

Obj = dict[str, Any]


def slim(*parts: str) -> Callable[[Obj], Obj]:
    """A transform that keeps metadata and these top-level parts."""

    def transform(item: Obj) -> Obj:
        return {key: item[key] for key in ("apiVersion", "kind", "metadata", *parts) if key in item}

    return transform


def slim_node(node: Obj) -> Obj:
    """A node's heartbeats change nothing that is looked at."""
    meta, spec = node["metadata"], node.get("spec") or {}
    ready = [one for one in (node.get("status") or {}).get("conditions") or () if one.get("type") == "Ready"]
    kept = {key: spec[key] for key in ("unschedulable", "taints") if key in spec}
    told = ("type", "status", "reason", "lastTransitionTime")
    status = {"conditions": [{key: one[key] for key in told if key in one} for one in ready]}
    return {"metadata": meta, "spec": kept, "status": status}


def bare(item: Obj) -> Obj:
    """That it is there."""
    return {"metadata": {key: item["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}}


def slim_app_pod(pod: Obj) -> Obj:
    """A pod of an app: that it is there, and whether it is Ready."""
    return {**bare(pod), "ready": ready(pod)}


def slim_pod(pod: Obj) -> Obj | None:
    """A pod that mounts claims: which, whether it is Pending, and what their Berths say of it. None: it mounts none."""
    found = claims_of_pod(pod)
    if not found:
        return None
    pending = (pod.get("status") or {}).get("phase") == "Pending"
    return {**bare(pod), "claims": list(found), "pending": pending, "seen": claim_pod(pod)}


def _claim_index(claim: Obj) -> list[str]:
    return [f"{claim['metadata']['namespace']}/{claim['metadata']['uid']}"]


def _data_index(claim: Obj) -> list[str]:
    return [f"{claim['metadata']['namespace']}/{claims.app_name(claim['metadata']['name'])}"]


def _disk_index(record: Obj) -> list[str]:
    return [disk["name"] for disk in record["spec"].get("disks") or ()]


def _app_index(record: Obj) -> list[str]:
    return [f"{record['metadata']['namespace']}/{record['spec']['app']}"]


def _node_index(record: Obj) -> list[str]:
    return [record["spec"]["nodeName"]]


def _pod_index(pod: Obj) -> list[str]:
    return [f"{pod['metadata']['namespace']}/{name}" for name in pod["claims"]]


class Caches:
    """One informer for each kind. ``namespace`` is that of the capacity objects."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        of_claims = {"uid": _claim_index, "data": _data_index}
        self.claims = Informer(client, PVC, transform=slim("spec", "status"), indexers=of_claims)
        self.classes = Informer(client, STORAGE_CLASS)
        self.disks = Informer(client, LOCAL_DISK)
        self.devices = Informer(client, LOCAL_DEVICE)
        self.berths = Informer(client, BERTH, indexers={"disk": _disk_index, "node": _node_index, "app": _app_index})
        self.volumes = Informer(client, PV, labels=OURS, indexers={"disk": disks_below})
        self.nodes = Informer(client, NODE, transform=slim_node)
        self.pods = Informer(client, POD, fields=LIVING, transform=slim_pod, indexers={"claim": _pod_index})
        self.app_pods = Informer(client, POD, labels=OURS, transform=slim_app_pod)
        self.sets = Informer(client, STATEFUL_SET, labels=OURS, transform=bare)
        self.apps = Informer(client, STATEFUL_APP, optional=True)
        self.capacities = Informer(client, CSI_STORAGE_CAPACITY, namespace, labels=SELECTOR)
        self.written = Written()
        self._parsed: dict[str, tuple[str, LocalDisk]] = {}
        for informer in (self.disks, self.berths, self.volumes, self.claims):
            told = {"listed": partial(self._listed, informer), "rewound": partial(self._rewound, informer)}
            informer.on(delete=partial(self._gone, informer), **told)

    def all(self) -> list[Informer]:
        """Every informer, to be run."""
        return [one for one in vars(self).values() if isinstance(one, Informer)]

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(*(informer.run() for informer in self.all()))

    def _gone(self, informer: Informer, item: Obj) -> None:
        self.written.bury(informer.resource, item, informer.version)

    def _listed(self, informer: Informer) -> None:
        for answer in self.written.listed(informer.resource, informer.store.marks(), informer.version):
            informer.settle(answer)

    def _rewound(self, informer: Informer) -> None:
        self.written.rewound(informer.resource)
        self._parsed.clear()  # by versions that may stand for something else now

    async def wait_synced(self) -> None:
        """Until every kind was listed once."""
        await asyncio.gather(*(informer.wait_synced() for informer in self.all()))

    @property
    def synced(self) -> bool:
        return all(informer.synced for informer in self.all())

    # -- what the room asks for ------------------------------------------------------------------------------------

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj | None:
        """A LocalDisk, Berth, volume or claim as it is known now, own writes and questions included."""
        key = Key(namespace or "", name)
        return self.written.newest(resource, key, self._cached(resource, key))

    def volumes_over(self, disk: str) -> list[Obj]:
        """The volumes of berth's that stand for that LocalDisk, whoever they were made for."""
        found = (self.written.newest(PV, key_of(one), one) for one in self.volumes.by_index("disk", disk))
        return [one for one in found if one is not None]

    def wrote(self, resource: Resource, answer: Obj) -> None:
        """Keep the answer to an own write, unless it was the last that was heard of the object."""
        if is_last(answer):
            self.written.gone(resource, answer)
        else:
            self.written.put(resource, answer)

    def heard(self, resource: Resource, before: Obj | None, found: Obj | None) -> None:
        """What is there now, asked for; ``before`` was known when it was asked."""
        if found is not None:
            self.written.put(resource, found)
        elif before is not None:
            self.written.gone(resource, before)

    def disk(self, name: str) -> Obj | None:
        return self.get(LOCAL_DISK, name)

    def claim_by_uid(self, namespace: str, uid: str) -> Obj | None:
        found = self.claims.by_index("uid", f"{namespace}/{uid}")
        claim = self.written.newest(PVC, key_of(found[0]), found[0]) if found else None
        return claim if claim is not None and claim["metadata"]["uid"] == uid else None

    def _cached(self, resource: Resource, key: Key) -> Obj | None:
        """An object as the watch told it last."""
        informers = {LOCAL_DISK: self.disks, BERTH: self.berths, PV: self.volumes, PVC: self.claims}
        return informers[resource].get(key.name, key.namespace)

    def class_of(self, claim: Obj) -> Obj | None:
        """The StorageClass of a claim, if it is one of berth's."""
        storage_class = self.classes.get(claims.class_of(claim))
        return storage_class if claims.ours(storage_class) else None

    def parsed_disks(self) -> list[LocalDisk]:
        """Every LocalDisk that can be read, own writes included."""
        found = []
        for item in self.disks.all():
            name = item["metadata"]["name"]
            disk = self.parse(self.disk(name) or item)
            if disk is not None:
                found.append(disk)
        return found

    def parse(self, item: Obj | None) -> LocalDisk | None:
        """The LocalDisk, where it is there and can be read. The latest of each name is kept."""
        if item is None:
            return None
        name, version = item["metadata"]["name"], item["metadata"]["resourceVersion"]
        known = self._parsed.get(name)
        if known is None or known[0] != version:
            try:
                known = (version, LocalDisk.from_object(item))
            except InputError:  # the schema refuses such a thing; it is no disk to be given out
                return None
            self._parsed[name] = known
        return self._with_volume(known[1])

    def _with_volume(self, disk: LocalDisk) -> LocalDisk:
        """A disk that is nobody's with the volume that has stayed over it: it changes without the disk."""
        if not disk.unowned:
            return disk
        over = self.volumes_over(disk.name)
        return replace(disk, volume=over[0]["metadata"]["name"]) if over else disk

    def places(self) -> dict[str, Place]:
        """Every node that can be read."""
        return {node["metadata"]["name"]: place_of(node) for node in self.nodes.all()}

    def hostname(self, node: str) -> str | None:
        found = self.nodes.get(node)
        return place_of(found).hostname if found is not None else None

    def has_pod(self, namespace: str, claim: str) -> bool:
        """Whether the watch has told of a pending pod that mounts the claim."""
        return any(pod["pending"] for pod in self.pods.by_index("claim", f"{namespace}/{claim}"))

    def pods_of(self, claim: Obj) -> tuple[ClaimPod, ...]:
        """What is to be known of the pods that mount the claim, those that have ended left out."""
        meta = claim["metadata"]
        return tuple(pod["seen"] for pod in self.pods.by_index("claim", f"{meta['namespace']}/{meta['name']}"))

    def claims_beside(self, namespace: str, name: str, pods: Iterable[Obj] = ()) -> Iterable[Obj]:
        """The other claims of the pending pods that mount this claim; ``pods``: more of them, as `slim_pod` has it."""
        told = (pod for pod in self.pods.by_index("claim", f"{namespace}/{name}") if pod["pending"])
        seen = [*told, *(pod for pod in pods if name in pod["claims"])]
        names = {one for pod in seen for one in pod["claims"]}
        found = (self.claims.get(one, namespace) for one in sorted(names - {name}))
        return [one for one in found if one is not None]
