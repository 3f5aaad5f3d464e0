# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ResourceClaims through which locked devices come into containers: which are missing, and whether they can work.

Called by the flow (building, stateful_app). The claims themselves are made in berth_core.app.device_claim.
"""

from __future__ import annotations

import contextlib

from ...berth_core.app.device_claim import DEVICE_CLASS
from ...berth_core.app.wanted import STATEFUL_SET
from ...berth_core.errors import ForbiddenError, StateError
from ...berth_core.model import resources as kinds
from .hand import Hand

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


def _names(hand: Hand) -> str:
    return ", ".join(device.name for device in hand.app.handed)
