# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Berth as the engine sees it: the place of one replica and what it takes off its node.

Called by the snapshot and by front ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import InputError
from .fields import Object, integer, mapping, metadata, objects, string, string_map
from .pod import Amounts, HostPort, host_port
from .quantity import Number
from .requests import amount, resource_list

#: Begins the ``app`` of a Berth that was made for a claim without an app. A dot is in no app's name (a DNS-1123 label),
#: so such a claim never meets an app of its name.
CLAIM_APP = "pvc."


@dataclass(frozen=True)
class BerthDisk:
    """A disk of a berth. `size`: bytes that were asked for."""

    claim: str
    name: str
    size: int


@dataclass(frozen=True)
class BerthDevice:
    """Shares (thousandths) of a device of a berth."""

    claim: str
    name: str
    shares: int


def replica_of(namespace: str, name: str, app: str, pod_name: str) -> tuple[str, str]:
    """Namespace and name of the pod whose room a berth of that name keeps.

    One of a claim keeps none: several may name one pod, which takes its own room and may be preempted as any other.
    """
    return (namespace, name if app.startswith(CLAIM_APP) else pod_name or name)


@dataclass(frozen=True)
class BerthRecord:
    """One Berth. `requests` in whole units (cpu in thousandths of a core)."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    app: str
    ordinal: int
    node_name: str
    disks: tuple[BerthDisk, ...]
    devices: tuple[BerthDevice, ...]
    requests: Amounts
    pod_labels: tuple[tuple[str, str], ...]
    host_ports: tuple[HostPort, ...]
    revision: str
    phase: str
    pod_name: str
    terminating: bool

    @property
    def replica(self) -> tuple[str, str]:
        """Namespace and name of the pod whose room the berth keeps: see `replica_of`."""
        return replica_of(self.namespace, self.name, self.app, self.pod_name)

    @property
    def kept_facts(self) -> BerthRecord:
        """All that a berth takes off its node: the record without what changes as it goes on."""
        return replace(self, resource_version="", phase="", pod_name="")

    @classmethod
    def from_object(cls, berth: Object) -> BerthRecord:
        """Read a Berth of the API. Raises InputError or QuantityError that name the berth and the field."""
        namespace, name = metadata(berth, "Berth")
        where = f"Berth {namespace}/{name}"
        meta, spec = mapping(berth, "metadata"), mapping(berth, "spec", f"{where}: spec")
        status = mapping(berth, "status", f"{where}: status")
        requests = resource_list(spec, "requests", f"{where}: spec.requests")
        return cls(
            namespace=namespace,
            name=name,
            uid=string(meta, "uid"),
            resource_version=string(meta, "resourceVersion"),
            app=string(spec, "app", f"{where}: spec.app"),
            ordinal=integer(spec, "ordinal", f"{where}: spec.ordinal"),
            node_name=string(spec, "nodeName", f"{where}: spec.nodeName"),
            disks=tuple(
                BerthDisk(
                    string(one, "claim"), string(one, "name"), integer(one, "size", f"{where}: spec.disks[].size")
                )
                for one in objects(spec, "disks", f"{where}: spec.disks")
            ),
            devices=tuple(
                BerthDevice(
                    string(one, "claim"), string(one, "name"), integer(one, "shares", f"{where}: spec.devices[].shares")
                )
                for one in objects(spec, "devices", f"{where}: spec.devices")
            ),
            requests=tuple(sorted((key, _taken(key, value, where)) for key, value in requests.items())),
            pod_labels=tuple(sorted(string_map(spec, "podLabels", f"{where}: spec.podLabels").items())),
            host_ports=tuple(
                host_port(
                    string(one, "protocol"),
                    string(one, "hostIP"),
                    integer(one, "port", f"{where}: spec.hostPorts[].port"),
                )
                for one in objects(spec, "hostPorts", f"{where}: spec.hostPorts")
            ),
            revision=string(spec, "revision"),
            phase=string(status, "phase"),
            pod_name=string(status, "podName"),
            terminating=meta.get("deletionTimestamp") is not None,
        )


def _taken(key: str, value: Number, where: str) -> int:
    """Return what is taken off the node. Less than nothing would give room that is not there."""
    if value < 0:
        raise InputError(f"{where}: spec.requests.{key}: {value} is below 0: expected what the replica asks for")
    return amount(key, value)
