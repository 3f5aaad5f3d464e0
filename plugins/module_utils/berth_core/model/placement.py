# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of the engine, and what it answers: requests, claims, placements.

Built by front ends (stateful_app, the daemon), read by the framework, its plugins and the snapshot.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import InputError
from .device import WHOLE
from .labels import LabelSelector
from .pod import PodInfo
from .quantity import format_bytes


class Holder(NamedTuple):
    """The replica on whose behalf is asked. Its own data and its own locks are no obstacle to it.

    A tuple: one is made, and looked up, several times for each pod.
    """

    namespace: str
    app: str
    ordinal: int

    @property
    def berth_name(self) -> str:
        """Return the name of the replica's Berth, which is also its pod's name."""
        return f"{self.app}-{self.ordinal}"

    def __str__(self) -> str:
        """Return namespace/app-ordinal."""
        return f"{self.namespace}/{self.berth_name}"


@dataclass(frozen=True)
class DiskClaim:
    """One local disk that is asked for, whole. `size_bytes` is the least size; None and () mean: any.

    `owner`: (namespace, app, ordinal, claim) that the lock will name, where that is not the request's holder and the
    claim's name; `pod_uid`: of the pod whose ephemeral volume it is. Neither is part of what is asked for, so claims
    that differ in them alone share verdicts.
    """

    name: str
    size_bytes: int = 0
    storage_class: str | None = None
    volume_mode: str = "Filesystem"
    fs_type: str | None = None
    selector: LabelSelector | None = None
    disk_names: tuple[str, ...] = ()
    owner: tuple[str, str, int, str] | None = field(default=None, compare=False)
    pod_uid: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Return what is asked for, in the words of a hint."""
        parts = ["a local disk", f"of at least {format_bytes(self.size_bytes)}" if self.size_bytes else ""]
        parts.append(f"of class {self.storage_class}" if self.storage_class is not None else "")
        parts.append("for volumeMode Block" if self.volume_mode == "Block" else "")
        parts.append(f"for {self.fs_type}" if self.fs_type and self.volume_mode != "Block" else "")
        parts.append(f"with labels {self.selector}" if self.selector and self.selector.requirements else "")
        parts.append(f"named {' or '.join(self.disk_names)}" if self.disk_names else "")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class DeviceClaim:
    """`count` different devices of a class, `shares` thousandths of each (1000: whole devices)."""

    name: str
    device_class: str
    count: int = 1
    shares: int = WHOLE

    def __post_init__(self) -> None:
        """Refuse what no device can give."""
        if self.count < 1 or not 1 <= self.shares <= WHOLE:
            raise InputError(
                f"device claim {self.name}: expected a count of at least 1 and shares from 1 to {WHOLE}, "
                f"got count {self.count} and shares {self.shares}",
                claim=self.name,
            )

    def __str__(self) -> str:
        """Return what is asked for, in the words of a hint."""
        plural = "s" if self.count > 1 else ""
        if self.shares == WHOLE:
            return f"{self.count} whole device{plural} of class {self.device_class}"
        return f"{self.shares}/{WHOLE} of {self.count} device{plural} of class {self.device_class}"


@dataclass(frozen=True)
class PlacementRequest:
    """A pod, the disks and devices it needs, and the replica that it is.

    `default_spread`: the selector of the workload's pods, for cluster-wide default spreading where a profile asks for
    it.
    """

    pod: PodInfo
    disks: tuple[DiskClaim, ...] = ()
    devices: tuple[DeviceClaim, ...] = ()
    holder: Holder | None = None
    default_spread: LabelSelector | None = None

    def __post_init__(self) -> None:
        """Refuse two claims of one name: the answer is keyed by it."""
        if not self.disks and not self.devices:
            return
        names = [claim.name for claim in self.disks] + [claim.name for claim in self.devices]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(
                f"claim {twice[0]} is asked for twice: name each disk and device claim once", claim=twice[0]
            )

    @property
    def likeness(self) -> Hashable:
        """Return what decides where the pod may go, without who it is."""
        return (self.pod.shape, self.disks, self.devices, self.default_spread)

    @property
    def owner(self) -> Holder:
        """Return the holder; a pod on its own stands for itself."""
        return self.holder or Holder(self.pod.namespace, self.pod.name, 0)


NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Placement:
    """The choice.

    `disks`: claim -> LocalDisk. `devices`: claim -> ((LocalDevice, shares), ...). `volumes`: PersistentVolumeClaim that
    waited for its pod -> PersistentVolume. `allocations`: uid of a ResourceClaim -> what its status is going to say.
    """

    node: str
    disks: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    allocations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def bare(cls, node: str) -> Placement:
        """Return the choice of a node and nothing more, for one pod of very many: a frozen class is slow to make."""
        made = object.__new__(cls)
        made.__dict__.update(node=node, disks=NOTHING, devices=NOTHING, volumes=NOTHING, allocations=NOTHING)
        return made

    @property
    def chose_nothing(self) -> bool:
        """Tell whether it is a node and nothing more."""
        return not (self.disks or self.devices or self.volumes or self.allocations)
