# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PersistentVolume, PersistentVolumeClaim and StorageClass as the plugin VolumeBinding sees them.

Called by the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from .attachable import Attachable, attachable
from .fields import Object, mapping, metadata, objects, string, string_map, strings
from .labels import LabelSelector, NodeSelector
from .over_disk import disk_below
from .quantity import bytes_

LOCAL_PROVISIONER = "local.berth.dev"
"""Of berth's own classes, whose volumes are local disks."""
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _class_name(obj: Object, spec: Object) -> str:
    # The old annotation wins over the field, in the API server's helpers as here.
    annotations = string_map(mapping(obj, "metadata"), "annotations")
    return annotations[_CLASS_ANNOTATION] if _CLASS_ANNOTATION in annotations else string(spec, "storageClassName")


@dataclass(frozen=True)
class VolumeInfo:
    """A PersistentVolume.

    `capacity` in bytes; `claim` is (namespace, name, uid) of claimRef; no `affinity`: every node reaches it.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    storage_class: str
    capacity: int
    access_modes: tuple[str, ...]
    volume_mode: str
    attributes_class: str
    claim: tuple[str, str, str] | None
    affinity: NodeSelector | None
    phase: str
    terminating: bool
    attachable: Attachable | None = None
    csi: bool = False
    """Made by a CSI driver; else it may be of an old kind that one has taken over."""
    local_disk: str = ""
    """The LocalDisk below it, where it is berth's."""

    @classmethod
    def from_object(cls, volume: Object) -> VolumeInfo:
        """Read a PersistentVolume of the API."""
        _namespace, name = metadata(volume, "PersistentVolume")
        where = f"PersistentVolume {name}"
        meta, spec = mapping(volume, "metadata"), mapping(volume, "spec", f"{where}: spec")
        ref = mapping(spec, "claimRef", f"{where}: spec.claimRef")
        required = mapping(spec, "nodeAffinity", f"{where}: spec.nodeAffinity").get("required")
        return cls(
            name=name,
            labels=tuple(sorted(string_map(meta, "labels").items())),
            storage_class=_class_name(volume, spec),
            capacity=bytes_(
                mapping(spec, "capacity", f"{where}: spec.capacity").get("storage", 0),
                f"{where}: spec.capacity.storage",
            ),
            access_modes=strings(spec, "accessModes", f"{where}: spec.accessModes"),
            volume_mode=string(spec, "volumeMode", default="Filesystem"),
            attributes_class=string(spec, "volumeAttributesClassName"),
            claim=(string(ref, "namespace"), string(ref, "name"), string(ref, "uid")) if ref else None,
            affinity=None if required is None else NodeSelector.parse(required, f"{where}: spec.nodeAffinity.required"),
            phase=string(mapping(volume, "status", f"{where}: status"), "phase"),
            terminating=meta.get("deletionTimestamp") is not None,
            attachable=attachable(spec, f"{where}: spec"),
            csi=spec.get("csi") is not None,
            local_disk=disk_below(volume),
        )

    def bound_to(self, claim: ClaimInfo) -> bool:
        """Tell whether the volume is bound, or was bound beforehand, to this very claim."""
        if self.claim is None or self.claim[:2] != (claim.namespace, claim.name):
            return False
        return self.claim[2] in ("", claim.uid)


@dataclass(frozen=True)
class ClaimInfo:
    """A PersistentVolumeClaim. `bound`: to `volume_name`, and the controller has finished.

    `pod_uid`: of the pod whose generic ephemeral volume it is; such a claim is made anew with every pod of that name.

    `request` in bytes; 0 for one that asks for no size, which is not `sized`.
    """

    namespace: str
    name: str
    uid: str
    storage_class: str
    request: int
    sized: bool
    access_modes: tuple[str, ...]
    volume_mode: str
    attributes_class: str
    selector: LabelSelector | None
    volume_name: str
    bound: bool
    selected_node: str | None
    owner_uid: str
    phase: str
    terminating: bool
    pod_uid: str = ""

    @classmethod
    def from_object(cls, claim: Object) -> ClaimInfo:
        """Read a PersistentVolumeClaim of the API."""
        namespace, name = metadata(claim, "PersistentVolumeClaim")
        where = f"PersistentVolumeClaim {namespace}/{name}"
        meta, spec = mapping(claim, "metadata"), mapping(claim, "spec", f"{where}: spec")
        annotations = string_map(meta, "annotations", f"{where}: metadata.annotations")
        requests = mapping(
            mapping(spec, "resources", f"{where}: spec.resources"), "requests", f"{where}: spec.resources.requests"
        )
        owners = [one for one in objects(meta, "ownerReferences") if one.get("controller") is True]
        volume_name = string(spec, "volumeName")
        return cls(
            namespace=namespace,
            name=name,
            uid=string(meta, "uid"),
            storage_class=_class_name(claim, spec),
            request=bytes_(requests.get("storage", 0), f"{where}: spec.resources.requests.storage"),
            sized="storage" in requests,
            access_modes=strings(spec, "accessModes", f"{where}: spec.accessModes"),
            volume_mode=string(spec, "volumeMode", default="Filesystem"),
            attributes_class=string(spec, "volumeAttributesClassName"),
            selector=LabelSelector.parse(spec.get("selector"), f"{where}: spec.selector"),
            volume_name=volume_name,
            bound=bool(volume_name) and "pv.kubernetes.io/bind-completed" in annotations,
            selected_node=annotations.get("volume.kubernetes.io/selected-node"),
            owner_uid=string(owners[0], "uid") if owners else "",
            phase=string(mapping(claim, "status", f"{where}: status"), "phase"),
            terminating=meta.get("deletionTimestamp") is not None,
            pod_uid=_pod_uid(name, owners),
        )


def _pod_uid(claim: str, owners: list[Object]) -> str:
    """The uid of the pod whose ephemeral volume this claim is, told by its controller and its name (POD-VOLUME).

    A StatefulSet's claim may have a pod as its owner too, while it is scaled down; its name is another (VOLUME-POD).
    """
    for one in owners:
        if (one.get("apiVersion"), one.get("kind")) == ("v1", "Pod") and claim.startswith(f"{one.get('name')}-"):
            return string(one, "uid")
    return ""


@dataclass(frozen=True)
class ClassInfo:
    """A StorageClass. `topologies`: for each allowed topology term, its (key, values) pairs."""

    name: str
    provisioner: str
    waits: bool
    topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()

    @classmethod
    def from_object(cls, source: Object) -> ClassInfo:
        """Read a StorageClass of the API."""
        _namespace, name = metadata(source, "StorageClass")
        return cls(
            name=name,
            provisioner=string(source, "provisioner"),
            waits=string(source, "volumeBindingMode") == "WaitForFirstConsumer",
            topologies=tuple(
                tuple((string(pair, "key"), strings(pair, "values")) for pair in objects(term, "matchLabelExpressions"))
                for term in objects(source, "allowedTopologies", f"StorageClass {name}: allowedTopologies")
            ),
        )

    @property
    def provisions(self) -> bool:
        """Tell whether volumes of this class are made on demand."""
        return self.provisioner not in ("", "kubernetes.io/no-provisioner")

    def allows(self, labels: tuple[tuple[str, str], ...]) -> bool:
        """Tell whether a volume may be made for a node with these labels."""
        have = dict(labels)
        terms = self.topologies
        return not terms or any(bool(term) and all(have.get(key) in values for key, values in term) for term in terms)

    @property
    def has_driver(self) -> bool:
        """Tell whether volumes are made on demand by somebody who may report capacity that is to be believed.

        Berth's own driver reports it for other schedulers. Here LocalDiskFit looks at the disks themselves: they are
        newer than the objects that the controller makes of them, and say more than a size.
        """
        return self.provisions and self.provisioner != LOCAL_PROVISIONER
