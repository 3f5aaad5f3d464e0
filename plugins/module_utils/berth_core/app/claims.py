# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PersistentVolumeClaim of one of berth's classes: what it asks for, when its time has come, and its names.

Called by the steps of a claim and by the controller. Pure; what cannot be served is said, never guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..lifecycle.locks import Holder
from ..model.berth import CLAIM_APP
from ..model.fields import mapping, objects
from ..model.tenant import Tenant
from ..model.volume import LOCAL_PROVISIONER, ClaimInfo, ClassInfo

Object = Mapping[str, Any]

#: The provisioner of berth's classes. It is the name of a CSIDriver object as well: the stock scheduler looks for
#: capacity (CSIStorageCapacity) only where a CSIDriver of the provisioner's name says that there is some.
PROVISIONER = LOCAL_PROVISIONER
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
#: On a claim: whose work its volume is, written by Kubernetes when it hands the claim over; the second is the old name.
HANDED_TO = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
#: On a Berth that was made for a claim: the claim's name, which may be longer than any field of a Berth.
CLAIM_NAME = "berth.dev/claim-name"
#: Holds a Berth until its locks are given up, even while its namespace is being deleted.
FINALIZER = "berth.dev/locks"
BERTH_PREFIX = "pvc-"
APP_PREFIX = CLAIM_APP
_MODES = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
_LIMIT = 63


@dataclass(frozen=True)
class Asked:
    """One claim and its class. ``reclaim_policy`` is the class's."""

    claim: ClaimInfo
    storage_class: ClassInfo
    reclaim_policy: str
    unsupported: str

    @property
    def key(self) -> str:
        """``namespace/claim``, for people."""
        return f"{self.claim.namespace}/{self.claim.name}"

    @property
    def due(self) -> bool:
        """Whether binding may begin: at once, or because a scheduler has chosen the node."""
        return not self.storage_class.waits or bool(self.claim.selected_node)

    @property
    def node(self) -> str | None:
        """The node that the scheduler chose; a claim that is bound at once has none."""
        return self.claim.selected_node if self.storage_class.waits else None


def parse(claim: Object, storage_class: Object) -> Asked:
    """Raises InputError or one of its children, naming the claim, where the objects cannot be read."""
    info = ClaimInfo.from_object(claim)
    policy = str(storage_class.get("reclaimPolicy") or "Delete")
    return Asked(info, ClassInfo.from_object(storage_class), policy, _unsupported(claim, info))


def ours(storage_class: Object | None) -> bool:
    """Whether claims of this class are bound by berth's controller."""
    return storage_class is not None and storage_class.get("provisioner") == PROVISIONER


def provisioned(volume: Object) -> bool:
    """Whether a PersistentVolume was made for a claim of berth's classes."""
    return mapping(mapping(volume, "metadata"), "annotations").get(PROVISIONED_BY) == PROVISIONER


def lost_class(claim: Object, storage_class: Object | None, begun: bool) -> str:
    """Why a claim of berth's cannot be bound any more: its class is gone, or another one has its name. Else empty.

    ``begun``: there is a Berth for the claim. Without one, Kubernetes' word that the claim was handed to berth counts.
    """
    annotations = mapping(mapping(claim, "metadata"), "annotations")
    mine = begun or any(annotations.get(key) == PROVISIONER for key in HANDED_TO)
    if not mine or ours(storage_class) or mapping(claim, "spec").get("volumeName"):
        return ""
    what = "is gone" if storage_class is None else f"is of provisioner {storage_class.get('provisioner')} now"
    advice = f"make it again as it was (provisioner {PROVISIONER}), or delete the claim"
    return f"StorageClass {class_of(claim)} {what}: {advice}"


def class_of(claim: Object) -> str:
    """The name of the claim's class; the old annotation wins over the field, as in Kubernetes."""
    annotations = mapping(mapping(claim, "metadata"), "annotations")
    old = annotations.get("volume.beta.kubernetes.io/storage-class")
    return str(old if old is not None else mapping(claim, "spec").get("storageClassName") or "")


def _unsupported(claim: Object, info: ClaimInfo) -> str:
    """What a local disk cannot be asked for; empty where all is well."""
    modes = set(info.access_modes)
    if not modes or not modes <= _MODES:
        found = ", ".join(sorted(modes)) or "none"
        return f"accessModes {found}: a local disk serves ReadWriteOnce or ReadWriteOncePod alone"
    spec = mapping(claim, "spec")
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        return "dataSource: a local disk is not filled from a snapshot or another claim; restore into the empty volume"
    if info.attributes_class:
        return "volumeAttributesClassName: a local disk has no attributes to change"
    return ""


def berth_name(uid: str) -> str:
    """The Berth of the claim with this uid: a claim that is made anew under its old name gets another."""
    return BERTH_PREFIX + uid


def claim_uid(berth: str) -> str | None:
    """The other way round; None for the berth of an app."""
    return berth[len(BERTH_PREFIX) :] if berth.startswith(BERTH_PREFIX) else None


def app_name(claim: str) -> str:
    """The ``app`` under which a claim holds disks: that of a later claim of the same name too, so it finds its data."""
    return APP_PREFIX + shortened(claim, _LIMIT - len(APP_PREFIX))


def volume_label(claim: str) -> str:
    """The ``claim`` of a lock: the claim's own name, shortened where it has more than 63 characters."""
    return shortened(claim, _LIMIT)


def shortened(name: str, limit: int) -> str:
    """The name, or its beginning and a digest of all of it. ``_`` is in no object's name, so the two never meet."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 11]}_{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def holder(claim: ClaimInfo, berth_uid: str) -> Holder:
    """Who a claim's lock names. ``berth_uid`` is the fencing token."""
    name, tenant = claim.name, Tenant(pod_uid=claim.pod_uid)
    return Holder(claim.namespace, berth_name(claim.uid), berth_uid, app_name(name), 0, volume_label(name), tenant)


def claim_of(record: Object) -> tuple[str, str, str] | None:
    """(namespace, name, uid) of the claim that a Berth was made for; None for the berth of an app."""
    meta = mapping(record, "metadata")
    name, uid = mapping(meta, "annotations").get(CLAIM_NAME), claim_uid(str(meta.get("name", "")))
    return (str(meta.get("namespace", "")), str(name), uid) if name and uid else None


def claims_of_pod(pod: Object) -> tuple[str, ...]:
    """Names of the claims that a pod mounts, generic ephemeral volumes included."""
    meta, names = mapping(pod, "metadata"), []
    for volume in objects(mapping(pod, "spec"), "volumes"):
        if volume.get("persistentVolumeClaim"):
            names.append(str(mapping(volume, "persistentVolumeClaim").get("claimName")))
        elif volume.get("ephemeral"):
            names.append(f"{meta.get('name')}-{volume.get('name')}")
    return tuple(names)
