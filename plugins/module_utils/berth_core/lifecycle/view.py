# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is of one berth, as the API server says it: all that next_step looks at.

Drivers fill a view once, and bring it up to date with the answers to their own writes. Nothing is remembered between
two questions but what the API server says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, POD, PV, PVC, RESOURCE_CLAIM, Resource
from ..model.tenant import Tenant
from . import states

if TYPE_CHECKING:
    from .lost import Loss
    from .owner import Owner
    from .replacing import Exchange

Object = Mapping[str, Any]
Objects = Mapping[str, Object]

#: Which part of a view holds the objects of a kind, by name.
_PARTS = {
    LOCAL_DISK: "disks",
    LOCAL_DEVICE: "devices",
    PV: "volumes",
    PVC: "claims",
    RESOURCE_CLAIM: "device_claims",
    POD: "pods",
}


@dataclass(frozen=True)
class View:
    """``owner``: what the berth is for; None: that is gone for certain, so the berth is given up.

    The objects are those that the berth names, or that were made for it, by name; what is not there is missing.
    ``hostname``: the label of the berth's node; None: the node is gone. ``lost``: why the owner, which is there, cannot
    be read. ``exchange``: a disk that is to be exchanged. ``heir``: where that is a claim's, the Berth of the claim
    that was made anew. ``quiet``: disks' phases are left to their agents. ``tenant``: of its namespace, read since this
    very Berth (of two the heir), or the claim that it is for, was seen; None: not read yet. ``loss``: of its node.
    ``leaves``: it is released from berth, and goes on as plain Kubernetes.
    """

    key: str
    owner: Owner | None
    berth: Object | None = None
    disks: Objects = field(default_factory=dict)
    devices: Objects = field(default_factory=dict)
    volumes: Objects = field(default_factory=dict)
    claims: Objects = field(default_factory=dict)
    device_claims: Objects = field(default_factory=dict)
    pods: Objects = field(default_factory=dict)
    hostname: str | None = None
    lost: str = ""
    exchange: Exchange | None = None
    heir: Object | None = None
    quiet: bool = False
    tenant: Tenant | None = None
    loss: Loss | None = None
    leaves: bool = False

    def having(self, resource: Resource, live: Object) -> View:
        """The view after ``live`` was answered for an object of it."""
        name = str(live["metadata"]["name"])
        if resource == BERTH:
            part = self._part_of(name)
            before = getattr(self, part)
            same = before is not None and before["metadata"]["uid"] == live["metadata"]["uid"]
            return replace(self._with(part, live), tenant=self.tenant if same else None)
        part = _PARTS[resource]
        return self._with(part, {**getattr(self, part), name: live})

    def lacking(self, resource: Resource, name: str) -> View:
        """The view after that object went."""
        if resource == BERTH:
            return replace(self._with(self._part_of(name), None), tenant=None)
        part = _PARTS[resource]
        return self._with(part, {key: one for key, one in getattr(self, part).items() if key != name})

    def records(self) -> list[Object]:
        """The Berths that are there."""
        return [one for one in (self.berth, self.heir) if one is not None]

    def _part_of(self, berth: str) -> str:
        """Whether a Berth of that name is the one that is looked at, or that of the claim that was made anew."""
        if self.exchange is None or self.exchange.of is None:
            return "berth"
        return "berth" if self.berth is not None and berth == self.berth["metadata"]["name"] else "heir"

    def _with(self, part: str, things: Objects | Object | None) -> View:
        fields: dict[str, Any] = {part: things}
        return replace(self, **fields)


def recorded(record: Object) -> str:
    """The phase that a Berth says it is in."""
    return str((record.get("status") or {}).get("phase") or states.SELECTED)


def going(thing: Object | None) -> bool:
    """Whether it has been asked to go."""
    return thing is not None and bool(thing["metadata"].get("deletionTimestamp"))


def disks_of(record: Object) -> list[Mapping[str, Any]]:
    """``spec.disks``: claim, name, size of each."""
    return list(record["spec"].get("disks") or ())


def devices_of(record: Object) -> list[Mapping[str, Any]]:
    """``spec.devices``: claim, name, shares of each."""
    return list(record["spec"].get("devices") or ())


def claim_name(record: Object, claim: str) -> str:
    """The PersistentVolumeClaim or ResourceClaim of one claim of an app's berth."""
    return f"{claim}-{record['spec']['app']}-{record['spec']['ordinal']}"
