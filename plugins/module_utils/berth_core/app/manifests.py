# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of an application, as manifests: berth, volume, claim, workload. Pure: the same app and choice give
the same text.

Called by the plan (for diffs) and by the flow (for writing): both speak of the very same objects.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ..lifecycle.locks import BERTH_ANNOTATION, Holder
from ..model import over_disk
from ..model.one_node import tie
from ..model.pod import PodInfo
from ..model.quantity import exact_bytes
from .device_claim import resource_claim
from .fsid import volume_path
from .given_strategy import ON_DELETE
from .wanted import (
    APP_LABEL,
    MANAGED_LABEL,
    ORDINAL_LABEL,
    REVISION_ANNOTATION,
    STATEFUL_SET,
    AppWanted,
    DiskWanted,
)

#: Which app's claim a volume serves: PVs are cluster-wide, and two namespaces may have apps of one name.
NAMESPACE_LABEL = "berth.dev/namespace"
HOSTNAME_LABEL = "kubernetes.io/hostname"
#: Why a Berth is written that a changed template has outdated.
REFRESHED = "the template has changed"
#: On a bare pod: a hash of what no update in place changes.
BASE_ANNOTATION = "berth.dev/base"

volume_name = over_disk.volume_name


def app_labels(app: AppWanted, ordinal: int | None = None) -> dict[str, str]:
    labels = {APP_LABEL: app.name, MANAGED_LABEL: "berth"}
    if ordinal is not None:
        labels[ORDINAL_LABEL] = str(ordinal)
    return labels


def replica_labels(record: Mapping[str, Any]) -> dict[str, str]:
    """Those of what is made for a Berth, or is its own from now on."""
    return {
        APP_LABEL: record["spec"]["app"],
        MANAGED_LABEL: "berth",
        ORDINAL_LABEL: str(record["spec"]["ordinal"]),
    }


def berth(
    app: AppWanted,
    ordinal: int,
    node: str,
    disks: Mapping[str, str],
    devices: Sequence[tuple[str, str, int]],
    volumes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The Berth of one replica. ``disks``: claim -> LocalDisk; ``devices``: (claim, LocalDevice, shares).

    ``volumes``: claim -> PersistentVolume that was there before berth.
    """
    sizes = {disk.name: disk.size for disk in app.disks}
    spec: dict[str, Any] = {"app": app.name, "ordinal": ordinal, "nodeName": node}
    if disks:
        there = {claim: {"volume": volume} for claim, volume in (volumes or {}).items()}
        spec["disks"] = [
            {"claim": claim, "name": name, "size": sizes[claim], **there.get(claim, {})}
            for claim, name in sorted(disks.items())
        ]
    if devices:
        spec["devices"] = [{"claim": claim, "name": name, "shares": shares} for claim, name, shares in devices]
    spec.update(berth_facts(app, scheduling_pod(app, ordinal)))
    metadata = {"name": app.berth_name(ordinal), "namespace": app.namespace, "labels": app_labels(app, ordinal)}
    return {"apiVersion": "berth.dev/v1alpha1", "kind": "Berth", "metadata": metadata, "spec": spec}


def scheduling_pod(app: AppWanted, ordinal: int) -> PodInfo:
    """What the scheduling plugins see of one replica: what admission made of the template, where it was asked.

    Without the app's own claims: its disks are chosen, not found through volumes.
    """
    source = app.template if app.admitted is None else app.admitted
    spec = dict(source["spec"])
    if app.admitted is not None:
        own = {disk.name for disk in app.disks}
        spec["volumes"] = [each for each in spec.get("volumes") or () if each["name"] not in own]
        spec["resourceClaims"] = app.template["spec"].get("resourceClaims") or []
    labels = {**(source["metadata"].get("labels") or {}), ORDINAL_LABEL: str(ordinal)}
    metadata = {"name": app.berth_name(ordinal), "namespace": app.namespace, "labels": labels}
    return PodInfo.from_manifest({"metadata": metadata, "spec": spec})


def berth_facts(app: AppWanted, pod: PodInfo) -> dict[str, Any]:
    """What of the pod counts against its node before there is a pod, and the revision it was taken from."""
    facts: dict[str, Any] = {"revision": app.revision, "podLabels": dict(pod.labels)}
    if quorum_of(app):
        facts["quorum"] = quorum_of(app)
    requests = {name: _amount(name, value) for name, value in pod.requests if value}
    if requests:
        facts["requests"] = requests
    if pod.host_ports:
        facts["hostPorts"] = [
            {"port": item.port, "protocol": item.protocol, "hostIP": item.ip} for item in pod.host_ports
        ]
    return facts


def quorum_of(app: AppWanted) -> int:
    """How many replicas have to stay Ready, for whoever takes one down; 0: nobody has said it."""
    return app.update.quorum if app.update is not None else 0


def refreshed(app: AppWanted, ordinal: int, record: Mapping[str, Any]) -> dict[str, Any]:
    """A Berth with what the template says now: requests, labels, ports, revision."""
    facts = berth_facts(app, scheduling_pod(app, ordinal))
    fields = {"podLabels": None, "requests": None, "hostPorts": None, "quorum": None, **facts}
    spec = {key: value for key, value in record["spec"].items() if key not in fields}
    spec.update({key: value for key, value in fields.items() if value is not None})
    return {**record, "spec": spec}


def _amount(resource: str, value: int) -> str:
    return f"{value}m" if resource == "cpu" else str(value)


def volume(
    app: AppWanted, record: Mapping[str, Any], claim: str, disk: Mapping[str, Any], hostname: str
) -> dict[str, Any]:
    """The PersistentVolume over one locked disk of a berth."""
    wanted, uid = _wanted(app, claim), record["metadata"]["uid"]
    ordinal, name = record["spec"]["ordinal"], disk["metadata"]["name"]
    terms = [{"matchExpressions": [{"key": HOSTNAME_LABEL, "operator": "In", "values": [hostname]}]}]
    spec: dict[str, Any] = {
        "capacity": {"storage": exact_bytes(disk["spec"]["identity"]["size"])},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": _class(wanted, disk),
        "volumeMode": wanted.volume_mode,
        "local": {"path": volume_path(disk, app.namespace, app.mount_root)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": app.namespace,
            "name": app.claim_name(claim, ordinal),
        },
    }
    labels = {**app_labels(app, ordinal), NAMESPACE_LABEL: app.namespace}
    metadata = {"name": volume_name(name, uid), "labels": labels, "annotations": {BERTH_ANNOTATION: uid}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def hostname_of(node: Mapping[str, Any]) -> str:
    """What a volume's node affinity names: the Node's hostname label, or its name where it has none."""
    meta = node["metadata"]
    return str((meta.get("labels") or {}).get(HOSTNAME_LABEL) or meta["name"])


def volume_of(record: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """The PersistentVolume of one of a Berth's disks: one that was there before berth keeps the name that it has."""
    return str(entry.get("volume") or volume_name(entry["name"], record["metadata"]["uid"]))


def volume_over(record: Mapping[str, Any], disk: str) -> str:
    """The PersistentVolume over that LocalDisk, which the Berth has, or had before an exchange."""
    entry = next((each for each in record["spec"].get("disks") or () if each["name"] == disk), {"name": disk})
    return volume_of(record, entry)


def volume_of_lock(disk: Mapping[str, Any]) -> str:
    """The PersistentVolume over a held LocalDisk, as its lock says."""
    ref = disk["spec"]["claimRef"]
    return str(ref.get("volume") or volume_name(disk["metadata"]["name"], ref["uid"]))


def claim(app: AppWanted, record: Mapping[str, Any], name: str, disk: Mapping[str, Any]) -> dict[str, Any]:
    """The PersistentVolumeClaim that a StatefulSet would make, already tied to its volume."""
    wanted, uid = _wanted(app, name), record["metadata"]["uid"]
    ordinal = record["spec"]["ordinal"]
    metadata = {
        "name": app.claim_name(name, ordinal),
        "namespace": app.namespace,
        "labels": app_labels(app, ordinal),
        "annotations": {BERTH_ANNOTATION: uid},
    }
    spec = {**claim_spec(wanted, _class(wanted, disk)), "volumeName": volume_over(record, disk["metadata"]["name"])}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def claim_spec(wanted: DiskWanted, storage_class: str) -> dict[str, Any]:
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(wanted.size)}},
        "storageClassName": storage_class,
        "volumeMode": wanted.volume_mode,
    }


def device_claim(app: AppWanted, record: Mapping[str, Any], name: str, devices: Sequence[Any]) -> dict[str, Any]:
    """The ResourceClaim of one device claim of a berth, which only its locked devices can satisfy.

    ``devices``: (LocalDevice, shares) of each.
    """
    ordinal = record["spec"]["ordinal"]
    metadata = {"name": app.claim_name(name, ordinal), "labels": app_labels(app, ordinal)}
    return resource_claim(metadata, record, name, devices, app.namespace)


def _entry(record: Mapping[str, Any], claim: str) -> Mapping[str, Any]:
    """Of one disk; of a device's claim there is none."""
    return next((each for each in record["spec"].get("disks") or () if each["claim"] == claim), {})


def _wanted(app: AppWanted, claim: str) -> DiskWanted:
    return next(disk for disk in app.disks if disk.name == claim)


def _class(wanted: DiskWanted, disk: Mapping[str, Any]) -> str:
    return wanted.storage_class if wanted.storage_class is not None else disk["spec"].get("storageClassName", "")


def holder(app: AppWanted, record: Mapping[str, Any], claim: str) -> Holder:
    meta = record["metadata"]
    volume = str(_entry(record, claim).get("volume") or "")
    return Holder(app.namespace, meta["name"], meta["uid"], app.name, record["spec"]["ordinal"], claim, volume=volume)


def stateful_set(app: AppWanted) -> dict[str, Any]:
    """The StatefulSet over the pre-made claims. Its claim templates only give the claims their names."""
    templates = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": disk.name, "labels": app_labels(app)},
            "spec": claim_spec(disk, disk.storage_class or ""),
        }
        for disk in app.disks
    ]
    spec = {
        **app.given.fields,
        "replicas": 0 if app.suspended else app.replicas,
        "serviceName": app.service_name,
        "podManagementPolicy": app.pod_management_policy,
        "selector": {"matchLabels": {APP_LABEL: app.name}},
        "template": copy.deepcopy(dict(app.template)),
        "volumeClaimTemplates": templates,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        # berth brings the template to the pods, and the StatefulSet's controller does not
        "updateStrategy": {"type": ON_DELETE},
    }
    own = app.given.metadata
    annotations = {**own.annotations, REVISION_ANNOTATION: app.set_revision}
    labels = {**own.labels, **app_labels(app)}
    metadata = {"name": app.name, "namespace": app.namespace, "labels": labels, "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": STATEFUL_SET, "metadata": metadata, "spec": spec}


def pod(app: AppWanted, ordinal: int, node: str) -> dict[str, Any]:
    """The bare pod of one ordinal (workload Pod), tied to ``node``."""
    body = untied_pod(app, ordinal)
    metadata = body["metadata"]
    own = {REVISION_ANNOTATION: app.revision, BASE_ANNOTATION: app.base}
    metadata["annotations"] = {**metadata.get("annotations", {}), **own}
    tie(body["spec"], node)
    return body


def untied_pod(app: AppWanted, ordinal: int) -> dict[str, Any]:
    """The pod of one ordinal before it has a node, with its claims and its host name, for either workload."""
    template = copy.deepcopy(dict(app.template))
    spec = template["spec"]
    volumes = [
        {"name": disk.name, "persistentVolumeClaim": {"claimName": app.claim_name(disk.name, ordinal)}}
        for disk in app.disks
    ]
    if volumes:
        spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    spec.setdefault("hostname", app.berth_name(ordinal))
    for claim in spec.get("resourceClaims") or ():
        if claim.get("name") in {device.name for device in app.handed}:
            claim["resourceClaimName"] = app.claim_name(claim["name"], ordinal)
    if app.service:
        spec.setdefault("subdomain", app.service_name)
    labels = {**template["metadata"]["labels"], ORDINAL_LABEL: str(ordinal)}
    metadata = {**template["metadata"], "name": app.berth_name(ordinal), "namespace": app.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
