# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster must have so that locked devices come into containers. Pure.

Asked for before anything is written, by _glue.app.handing and by berth-controller.
"""

from __future__ import annotations

from ..errors import StateError
from ..model.resources import DEVICE_CLASS as DEVICE_CLASSES
from ..model.resources import MUTATING_ADMISSION_POLICY, Resource
from .device_claim import DEVICE_CLASS
from .wanted import STATEFUL_SET, AppWanted

#: Gives the pods of a StatefulSet their own berths' claims.
POLICY = "berth-device-claims"
_INSTALL = "install deploy/agent/devices.yaml of this collection (the role node_agent does)"


def needed(app: AppWanted) -> list[tuple[Resource, str]]:
    """The objects without which no pod of the app could ever get its devices."""
    if not app.handed:
        return []
    found = [(DEVICE_CLASSES, DEVICE_CLASS)]
    if app.workload == STATEFUL_SET:
        found.append((MUTATING_ADMISSION_POLICY, POLICY))
    return found


def missing(app: AppWanted, resource: Resource, name: str) -> StateError:
    """One of them is not there."""
    names = ", ".join(device.name for device in app.handed)
    return StateError(
        f"{resource.describe(name)} is not there: the devices {names} of {app.name} are handed "
        f"to containers through it; {_INSTALL}, or take the devices out of resources.claims of the "
        "template to have them locked only"
    )
