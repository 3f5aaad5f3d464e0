# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LocalDevice as the engine sees it: one processing device and the shares of it that are given out.

Called by the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from .disk import HEALTHY, observed_health
from .fields import Object, boolean, integer, mapping, metadata, objects, string, string_map
from .quantity import bytes_

WHOLE = 1000
"""Shares of one whole device."""


@dataclass(frozen=True)
class DeviceClaimRef:
    """The lock on some shares of a device (thousandths)."""

    namespace: str
    name: str
    uid: str
    claim: str
    shares: int

    def __str__(self) -> str:
        """Return namespace/berth."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class LocalDevice:
    """One LocalDevice. `shares` in thousandths of a device, `memory` in bytes where it is declared."""

    name: str
    uid: str
    resource_version: str
    labels: tuple[tuple[str, str], ...]
    node_name: str
    device_class: str
    uuid: str
    shares: int
    memory: int | None
    reserved: bool
    claim_refs: tuple[DeviceClaimRef, ...]
    phase: str
    health: str
    terminating: bool

    @property
    def healthy(self) -> bool:
        """Tell whether nothing bad is known of the device."""
        return self.health.lower() in HEALTHY

    @classmethod
    def from_object(cls, device: Object) -> LocalDevice:
        """Read a LocalDevice of the API. Raises InputError that names the device and the field."""
        _namespace, name = metadata(device, "LocalDevice")
        meta, spec = mapping(device, "metadata"), mapping(device, "spec", f"LocalDevice {name}: spec")
        status = mapping(device, "status", f"LocalDevice {name}: status")
        capacity = mapping(spec, "capacity", f"LocalDevice {name}: spec.capacity")
        memory = capacity.get("memory")
        node_name = string(spec, "nodeName", f"LocalDevice {name}: spec.nodeName")
        if not node_name:
            raise InputError(f"LocalDevice {name}: expected spec.nodeName", device=name)
        return cls(
            name=name,
            uid=string(meta, "uid"),
            resource_version=string(meta, "resourceVersion"),
            labels=tuple(sorted(string_map(meta, "labels", f"LocalDevice {name}: labels").items())),
            node_name=node_name,
            device_class=string(spec, "deviceClass", f"LocalDevice {name}: spec.deviceClass"),
            uuid=string(spec, "uuid"),
            shares=integer(capacity, "shares", f"LocalDevice {name}: spec.capacity.shares", WHOLE),
            memory=None if memory is None else bytes_(memory, f"LocalDevice {name}: spec.capacity.memory"),
            reserved=boolean(spec, "reserved", f"LocalDevice {name}: spec.reserved"),
            claim_refs=tuple(
                DeviceClaimRef(
                    string(one, "namespace"),
                    string(one, "name"),
                    string(one, "uid"),
                    string(one, "claim"),
                    integer(one, "shares", f"LocalDevice {name}: spec.claimRefs[].shares"),
                )
                for one in objects(spec, "claimRefs", f"LocalDevice {name}: spec.claimRefs")
            ),
            phase=string(status, "phase"),
            health=observed_health(status, f"LocalDevice {name}"),
            terminating=meta.get("deletionTimestamp") is not None,
        )
