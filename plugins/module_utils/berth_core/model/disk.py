# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LocalDisk as the engine sees it: one physical disk, who holds it, whose data is on it.

Called by the snapshot and by front ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..errors import InputError
from .fields import Object, boolean, integer, mapping, metadata, objects, string, string_map
from .tenant import UNKNOWN, Tenant

HEALTHY = ("", "unknown", "ok", "good", "healthy", "passed")
"""What an agent may report of a device that can be given out, in lower case. "" and unknown: nothing was measured."""


@dataclass(frozen=True)
class DiskClaimRef:
    """The lock: the berth that holds the disk, and for which of its claims."""

    namespace: str
    name: str
    uid: str
    app: str
    ordinal: int
    claim: str
    data_uid: str
    tenant: Tenant = UNKNOWN

    def __str__(self) -> str:
        """Return namespace/berth."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class RetainedFor:
    """Whose data is on a disk that nobody holds."""

    namespace: str
    app: str
    ordinal: int
    claim: str
    data_uid: str
    tenant: Tenant = UNKNOWN

    def __str__(self) -> str:
        """Return namespace/app-ordinal."""
        return f"{self.namespace}/{self.app}-{self.ordinal}"


@dataclass(frozen=True)
class LocalDisk:
    """One LocalDisk. `size` in bytes. `fsType` "" means: whatever the claim asks for."""

    name: str
    uid: str
    resource_version: str
    labels: tuple[tuple[str, str], ...]
    node_name: str
    size: int
    wwn: str
    serial: str
    model: str
    by_path: str
    storage_class: str
    volume_mode: str
    fs_type: str
    reclaim_policy: str
    reserved: bool
    claim_ref: DiskClaimRef | None
    retained_for: RetainedFor | None
    phase: str
    health: str
    rotational: bool | None
    terminating: bool
    wiping: bool = False
    cordoned: bool = False
    volume: str = ""
    """A PersistentVolume of berth's over it, where nobody holds it and it keeps nobody's data: see over_disk."""

    @property
    def unowned(self) -> bool:
        """Tell whether nobody is on record for it: neither locked, nor with data that is kept for somebody."""
        return self.claim_ref is None and self.retained_for is None

    @property
    def tenant(self) -> Tenant:
        """Return whose it is beside the names: of the lock, else of the data that it keeps."""
        owner = self.claim_ref or self.retained_for
        return owner.tenant if owner is not None else UNKNOWN

    @property
    def healthy(self) -> bool:
        """Tell whether nothing bad is known of the disk."""
        return self.health.lower() in HEALTHY

    @classmethod
    def from_object(cls, disk: Object) -> LocalDisk:
        """Read a LocalDisk of the API. Raises InputError that names the disk and the field."""
        _namespace, name = metadata(disk, "LocalDisk")
        meta, spec = mapping(disk, "metadata"), mapping(disk, "spec", f"LocalDisk {name}: spec")
        status = mapping(disk, "status", f"LocalDisk {name}: status")
        identity = mapping(spec, "identity", f"LocalDisk {name}: spec.identity")
        observed = mapping(status, "observed", f"LocalDisk {name}: status.observed")
        rotational = observed.get("rotational")
        size = integer(identity, "size", f"LocalDisk {name}: spec.identity.size")
        node_name = string(spec, "nodeName", f"LocalDisk {name}: spec.nodeName")
        if size <= 0 or not node_name:
            raise InputError(f"LocalDisk {name}: expected spec.nodeName and spec.identity.size above 0", disk=name)
        return cls(
            name=name,
            uid=string(meta, "uid"),
            resource_version=string(meta, "resourceVersion"),
            labels=tuple(sorted(string_map(meta, "labels", f"LocalDisk {name}: labels").items())),
            node_name=node_name,
            size=size,
            wwn=string(identity, "wwn"),
            serial=string(identity, "serial"),
            model=string(identity, "model"),
            by_path=string(identity, "byPath"),
            storage_class=string(spec, "storageClassName"),
            volume_mode=string(spec, "volumeMode", default="Filesystem"),
            fs_type=string(spec, "fsType"),
            reclaim_policy=string(spec, "reclaimPolicy", default="Retain"),
            reserved=boolean(spec, "reserved", f"LocalDisk {name}: spec.reserved"),
            claim_ref=_claim_ref(spec, name),
            retained_for=_retained_for(spec, name),
            phase=string(status, "phase"),
            health=observed_health(status, f"LocalDisk {name}"),
            rotational=rotational if isinstance(rotational, bool) else None,
            terminating=meta.get("deletionTimestamp") is not None,
            wiping=bool(mapping(spec, "wipe", f"LocalDisk {name}: spec.wipe")),
            cordoned=boolean(spec, "unschedulable", f"LocalDisk {name}: spec.unschedulable"),
        )


class Condition(IntEnum):
    """What keeps a disk from being given out, whoever asks."""

    GOOD = 0
    GONE = 1
    RESERVED = 2
    PENDING = 3
    FAULTED = 4
    MISSING = 5
    UNHEALTHY = 6
    TERMINATING = 7
    IN_USE = 8
    WIPING = 9
    CORDONED = 10
    STALE = 11
    VOLUME_LEFT = 12


#: A disk of these phases is somebody's. Where nobody is named, somebody has taken the lock, or the word whose data is
#: kept, off the object, and its agent has not looked since: the phase of before says nothing of what is on it.
_SOMEBODYS = ("Locked", "InUse", "Released")


def condition_of(disk: LocalDisk) -> Condition:
    """Judge a disk by itself.

    A disk that is nobody's is given out when its agent has said so: one that is still reported in use may be mounted,
    and one that is still Locked or Released may carry data. Nor is one over which a volume of berth's has stayed.
    """
    phases = {
        "Faulted": Condition.FAULTED,
        "Missing": Condition.MISSING,
        "Pending": Condition.PENDING,
        "": Condition.PENDING,
    }
    if disk.terminating:
        return Condition.TERMINATING
    if disk.reserved:
        return Condition.RESERVED
    if disk.wiping:
        return Condition.WIPING
    if disk.cordoned:
        return Condition.CORDONED
    if disk.phase in phases:
        return phases[disk.phase]
    if not disk.healthy:
        return Condition.UNHEALTHY
    if not disk.unowned:
        return Condition.GOOD
    if disk.phase in _SOMEBODYS:
        return Condition.IN_USE if disk.phase == "InUse" else Condition.STALE
    return Condition.VOLUME_LEFT if disk.volume else Condition.GOOD


def observed_health(status: Object, where: str) -> str:
    """Return the observed health; a false condition Healthy or Matched counts as bad health and gives its reason."""
    health = string(
        mapping(status, "observed", f"{where}: status.observed"), "health", f"{where}: status.observed.health"
    )
    if health.lower() not in HEALTHY:
        return health
    for condition in objects(status, "conditions", f"{where}: status.conditions"):
        if condition.get("type") in ("Healthy", "Matched") and condition.get("status") == "False":
            return str(condition.get("reason") or f"Not{condition.get('type')}")
    return health


def _claim_ref(spec: Object, name: str) -> DiskClaimRef | None:
    source = mapping(spec, "claimRef", f"LocalDisk {name}: spec.claimRef")
    if not source:
        return None
    return DiskClaimRef(
        namespace=string(source, "namespace"),
        name=string(source, "name"),
        uid=string(source, "uid"),
        app=string(source, "app"),
        ordinal=integer(source, "ordinal", f"LocalDisk {name}: spec.claimRef.ordinal"),
        claim=string(source, "claim"),
        data_uid=string(source, "dataUID"),
        tenant=Tenant.on_record(source),
    )


def _retained_for(spec: Object, name: str) -> RetainedFor | None:
    source = mapping(spec, "retainedFor", f"LocalDisk {name}: spec.retainedFor")
    if not source:
        return None
    return RetainedFor(
        namespace=string(source, "namespace"),
        app=string(source, "app"),
        ordinal=integer(source, "ordinal", f"LocalDisk {name}: spec.retainedFor.ordinal"),
        claim=string(source, "claim"),
        data_uid=string(source, "dataUID"),
        tenant=Tenant.on_record(source),
    )
