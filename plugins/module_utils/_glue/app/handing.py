# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ResourceClaims through which locked devices come into containers: which are missing, and whether they can work.

Called by the flow (building, stateful_app). The claims themselves are made in berth_core.app.device_claim; I only read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from ...berth_core.app import manifests
from ...berth_core.app.device_claim import DEVICE_CLASS, DRIVER
from ...berth_core.app.observed import device_claim_stands
from ...berth_core.app.wanted import STATEFUL_SET
from ...berth_core.errors import ForbiddenError, StateError
from ...berth_core.model import resources as kinds
from ...berth_core.model.resources import LOCAL_DEVICE, RESOURCE_CLAIM
from .hand import Hand, Object

#: Gives the pods of a StatefulSet their own berths' claims.
POLICY = "berth-device-claims"
_INSTALL = "install deploy/agent/devices.yaml of this collection (the role node_agent does)"


def check(hand: Hand) -> None:
    """Refuse before anything is written where no pod could ever get its devices. Raises StateError."""
    if not hand.app.handed:
        return
    needed = [(kinds.DEVICE_CLASS, DEVICE_CLASS)]
    if hand.app.workload == STATEFUL_SET:
        needed.append((kinds.MUTATING_ADMISSION_POLICY, POLICY))
    for resource, name in needed:
        with contextlib.suppress(ForbiddenError):  # who may not look finds out from the pod's events
            if hand.client.find(resource, name) is None:
                raise StateError(
                    f"{resource.describe(name)} is not there: the devices {_names(hand)} of {hand.app.name} are handed "
                    f"to containers through it; {_INSTALL}, or take the devices out of resources.claims of the "
                    "template to have them locked only"
                )


def missing_claims(hand: Hand, record: Object) -> list[dict[str, Any]]:
    """The ResourceClaims that a berth lacks. One of an earlier berth of this name goes first: it holds no data."""
    spec, found = record["spec"], []
    for wanted in hand.app.handed:
        name = hand.app.claim_name(wanted.name, spec["ordinal"])
        if device_claim_stands(record, name, hand.seen):
            continue
        there = hand.seen.device_claims.get(name)
        if there is not None:
            hand.client.delete(RESOURCE_CLAIM, name, hand.app.namespace, uid=there["metadata"]["uid"])
        entries = [each for each in spec.get("devices") or () if each["claim"] == wanted.name]
        devices = [(_published(hand, each["name"]), each["shares"]) for each in entries]
        found.append(manifests.device_claim(hand.app, record, wanted.name, devices))
    return found


def _published(hand: Hand, name: str) -> Mapping[str, Any]:
    """A LocalDevice that its node's agent can hand over."""
    device = hand.client.get(LOCAL_DEVICE, name)
    if ((device.get("status") or {}).get("observed") or {}).get("driver") != DRIVER:
        raise StateError(
            f"LocalDevice {name} is locked, but the agent of node {device['spec']['nodeName']} does not publish it to "
            f"the kubelet (status.observed.driver is not {DRIVER}; see its condition Published): no container can get "
            "it; start the agent there, or take the device out of resources.claims of the template",
            device=name,
        )
    return device


def _names(hand: Hand) -> str:
    return ", ".join(device.name for device in hand.app.handed)
