# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller in the cluster: the shipped objects filled in as asked for; who needs it, what it leaves behind.

Called by the module controller. The objects are those of deploy/controller, which come in as they are there. There is
one controller in a cluster: its name is fixed. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import claims, daemon_install
from .controller_settings import checked_flags
from .crd_schemas import as_text
from .daemon_install import Wanted
from .shipped import Object
from .stateful_app_object import CONTROLLER

#: The name of the shipped objects and of the Lease.
SHIPPED = "berth-controller"
#: The variable of a setting is this and the setting's name.
_PREFIX = "BERTH_CONTROLLER_"


def objects(shipped: Sequence[Mapping[str, Any]], wanted: Wanted) -> list[Object]:
    """The objects of the controller, in the order of ``shipped``. Raises InputError for what cannot be."""
    settings = {**checked_flags(wanted.flags), "schemas": as_text()}
    return daemon_install.objects(shipped, wanted, SHIPPED, _PREFIX, settings)


def schemas_of(deployment: Mapping[str, Any]) -> str:
    """The schemas of the custom resources that a live controller was installed for; empty where it does not say."""
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    given = {one["name"]: one.get("value") for each in containers for one in each.get("env") or ()}
    return str(given.get(f"{_PREFIX}SCHEMAS") or "")


def needed_by(
    found: Iterable[Mapping[str, Any]], classes: Iterable[Mapping[str, Any]], volumes: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Claims that nobody else binds, and those whose volumes nobody else gives up (``namespace/name``, sorted).

    ``found`` are the claims of the cluster. A volume whose claim is gone is still to be given up.
    """
    ours = {each["metadata"]["name"] for each in classes if claims.ours(each)}
    waiting = {_key(each["metadata"]) for each in found if _waits(each, ours)}
    given = [each for each in volumes if claims.provisioned(each)]
    holding = {_key((each.get("spec") or {}).get("claimRef") or each["metadata"]) for each in given}
    return sorted(waiting | holding)


def carried_out(applications: Iterable[Mapping[str, Any]]) -> list[str]:
    """The StatefulApps that the controller carries out, and alone can end (``namespace/name``, sorted)."""
    return sorted(_key(each["metadata"]) for each in applications if each["spec"].get("driver") == CONTROLLER)


def _waits(claim: Mapping[str, Any], ours: set[str]) -> bool:
    if (claim.get("spec") or {}).get("volumeName") or claim["metadata"].get("deletionTimestamp"):
        return False
    notes = claim["metadata"].get("annotations") or {}
    return claims.class_of(claim) in ours or any(notes.get(key) == claims.PROVISIONER for key in claims.HANDED_TO)


def _key(named: Mapping[str, Any]) -> str:
    """``namespace/name``; of a volume without a claim its own name."""
    return "/".join(str(named[key]) for key in ("namespace", "name") if named.get(key))
