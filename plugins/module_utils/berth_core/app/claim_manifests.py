# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that stand for a claim without an app: its Berth, its PersistentVolume, its wipe request.

Called by the steps of a claim. They look like those of a stateful app, so that every list, lock and check of berth
reads them without knowing who made them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..lifecycle.locks import BERTH_ANNOTATION, DISK_ANNOTATION
from ..model.quantity import exact_bytes
from ..model.resources import BERTH, PV, PVC
from . import claims
from .claims import Asked
from .disk_status import content_named
from .fsid import DEFAULT_MOUNT_ROOT, volume_path
from .manifests import HOSTNAME_LABEL, NAMESPACE_LABEL, volume_name
from .wanted import APP_LABEL, MANAGED_LABEL, ORDINAL_LABEL

Object = Mapping[str, Any]

DELETE = "Delete"
RETAIN = "Retain"


def berth(asked: Asked, disk: str, node: str) -> dict[str, Any]:
    """The Berth of one claim. It takes nothing off its node but the disk: the pod is counted where it is scheduled."""
    claim = asked.claim
    metadata = {
        "name": claims.berth_name(claim.uid),
        "namespace": claim.namespace,
        "labels": _labels(claim.name),
        "annotations": {claims.CLAIM_NAME: claim.name},
        "finalizers": [claims.FINALIZER],
    }
    spec = {
        "app": claims.app_name(claim.name),
        "ordinal": 0,
        "nodeName": node,
        "disks": [{"claim": claims.volume_label(claim.name), "name": disk, "size": claim.request}],
    }
    return {"apiVersion": BERTH.api_version, "kind": BERTH.kind, "metadata": metadata, "spec": spec}


def volume(
    asked: Asked, record: Object, disk: Object, hostname: str, mount_root: str = DEFAULT_MOUNT_ROOT
) -> dict[str, Any]:
    """The PersistentVolume over the locked disk, tied to this very claim (by uid) and to the disk's node."""
    claim, uid, name = asked.claim, record["metadata"]["uid"], disk["metadata"]["name"]
    terms = [{"matchExpressions": [{"key": HOSTNAME_LABEL, "operator": "In", "values": [hostname]}]}]
    spec: dict[str, Any] = {
        "capacity": {"storage": exact_bytes(disk["spec"]["identity"]["size"])},
        "accessModes": list(claim.access_modes),
        "persistentVolumeReclaimPolicy": reclaim_policy(asked.reclaim_policy, disk),
        "storageClassName": claim.storage_class,
        "volumeMode": claim.volume_mode,
        "local": {"path": volume_path(disk, claim.namespace, mount_root)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        "claimRef": {
            "apiVersion": "v1",
            "kind": PVC.kind,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        },
    }
    annotations = {BERTH_ANNOTATION: uid, DISK_ANNOTATION: name, claims.PROVISIONED_BY: claims.PROVISIONER}
    labels = {**_labels(claim.name), NAMESPACE_LABEL: claim.namespace}
    metadata = {"name": volume_name(name, uid), "labels": labels, "annotations": annotations}
    return {"apiVersion": PV.api_version, "kind": PV.kind, "metadata": metadata, "spec": spec}


def reclaim_policy(of_class: str, disk: Object) -> str:
    """Delete only where both the class and the disk say so: one careful word is enough to keep the data."""
    return DELETE if of_class == DELETE and disk["spec"].get("reclaimPolicy") == DELETE else RETAIN


def wipe_request(disk: Object, berth_uid: str, claim: str) -> dict[str, Any]:
    """``spec.wipe`` of a disk whose claim is gone. One berth asks once: its uid is the request's name."""
    return {
        "requestID": berth_uid,
        "identity": dict(disk["spec"]["identity"]),
        "requestedBy": f"PersistentVolumeClaim {claim}"[:253],
        **content_named(disk),
    }


def _labels(claim: str) -> dict[str, str]:
    return {APP_LABEL: claims.app_name(claim), ORDINAL_LABEL: "0", MANAGED_LABEL: "berth"}
