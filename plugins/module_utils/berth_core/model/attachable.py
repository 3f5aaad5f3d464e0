# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that are attached to nodes: CSI volumes, and those of old kinds that CSI drivers have taken over.

Called by the models of pods and PersistentVolumes and by the snapshot, for the plugins NodeVolumeLimits and
VolumeRestrictions.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fields import Object, boolean, integer, mapping, metadata, objects, string, strings

IN_TREE = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com", "diskURI"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org", "volumeID"),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com", "volumeID"),
}
"""Old kinds of volumes: the names of the provisioner and of the CSI driver that has taken it over; the id's field."""

DRIVER_OF = {plugin: driver for plugin, driver, _field in IN_TREE.values()}
NOT_MIGRATED = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
"""Provisioners with a CSI driver to which kube-scheduler does not count their volumes."""


@dataclass(frozen=True)
class Attachable:
    """One volume as a CSI driver knows it."""

    driver: str
    handle: str


def attachable(source: Object, path: str) -> Attachable | None:
    """Return the driver's name and handle of a volume source; None for one that no CSI driver attaches."""
    csi = mapping(source, "csi", f"{path}.csi")
    if csi:
        return Attachable(string(csi, "driver", f"{path}.csi.driver"), string(csi, "volumeHandle"))
    return _migrated(source, path)


def _migrated(source: Object, path: str) -> Attachable | None:
    for field, (_plugin, driver, key) in IN_TREE.items():
        if source.get(field) is not None:
            handle = string(mapping(source, field, f"{path}.{field}"), key, f"{path}.{field}.{key}")
            return Attachable(driver, handle.rpartition("/")[2] if field == "awsElasticBlockStore" else handle)
    return None


@dataclass(frozen=True)
class InlineVolume:
    """A volume that a pod names itself, without a claim.

    `kind` and `identity` say which one it is ("" for a kind that may be used by any number of pods); of two for Ceph
    one of the `monitors` must be the same too. `read_only`: may be shared with others that only read.
    """

    kind: str
    identity: tuple[str, ...] = ()
    monitors: tuple[str, ...] = ()
    read_only: bool = False
    attachable: Attachable | None = None

    def conflicts(self, other: InlineVolume) -> bool:
        """Tell whether pods with these two volumes cannot be on one node."""
        if not self.kind or (self.kind, self.identity) != (other.kind, other.identity):
            return False
        if self.kind == "rbd" and not set(self.monitors) & set(other.monitors):
            return False
        return not (self.read_only and other.read_only)


def parse_inline(source: Object, path: str) -> InlineVolume | None:
    """Read one of a pod's volumes; None for one that neither is attached nor excludes another."""
    found = _migrated(source, path)
    for kind, field, keys in (
        ("gce", "gcePersistentDisk", ("pdName",)),
        ("iscsi", "iscsi", ("iqn",)),
        ("rbd", "rbd", ("pool", "image")),
    ):
        if source.get(field) is not None:
            volume = mapping(source, field, f"{path}.{field}")
            default = {"pool": "rbd"}  # the API's own
            identity = tuple(string(volume, key, f"{path}.{field}.{key}", default.get(key, "")) for key in keys)
            read_only = boolean(volume, "readOnly", f"{path}.{field}.readOnly")
            return InlineVolume(kind, identity, strings(volume, "monitors"), read_only, found)
    if source.get("awsElasticBlockStore") is not None:
        # One pod at a time, even to read.
        volume = mapping(source, "awsElasticBlockStore", path)
        return InlineVolume("aws", (string(volume, "volumeID", f"{path}.volumeID"),), attachable=found)
    return InlineVolume("", attachable=found) if found else None


@dataclass(frozen=True)
class CsiNode:
    """A CSINode: per driver how many of its volumes may be attached to the node."""

    name: str
    limits: tuple[tuple[str, int], ...]

    @classmethod
    def from_object(cls, source: Object) -> CsiNode:
        """Read a CSINode of the API; drivers without a limit are left out."""
        _namespace, name = metadata(source, "CSINode")
        where = f"CSINode {name}: spec.drivers"
        limits = []
        for driver in objects(mapping(source, "spec", f"CSINode {name}: spec"), "drivers", where):
            allocatable = mapping(driver, "allocatable", f"{where}: allocatable")
            if allocatable.get("count") is not None:
                limits.append((string(driver, "name"), integer(allocatable, "count", f"{where}: allocatable.count")))
        return cls(name, tuple(limits))


@dataclass(frozen=True)
class Attachment:
    """A VolumeAttachment of a PersistentVolume."""

    name: str
    node_name: str
    attacher: str
    volume_name: str

    @classmethod
    def from_object(cls, source: Object) -> Attachment:
        """Read a VolumeAttachment of the API."""
        _namespace, name = metadata(source, "VolumeAttachment")
        spec = mapping(source, "spec", f"VolumeAttachment {name}: spec")
        volume = mapping(spec, "source", f"VolumeAttachment {name}: spec.source")
        return cls(name, string(spec, "nodeName"), string(spec, "attacher"), string(volume, "persistentVolumeName"))
