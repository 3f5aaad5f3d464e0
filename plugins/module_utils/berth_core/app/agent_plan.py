# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the node agent makes of its configuration: LocalDisks to create, and how each that is there stands to it.

Called by the node agent after each look at its node; the rules are those of the role local_disks (disk_plan). An agent
creates what is missing. It never changes the spec of what is there and never deletes: a difference is a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .disk_change import new_disk
from .disk_plan import Evaluate, Plan, plan_disks
from .disk_status import conditions, disk_status
from .drift import declaration_drift
from .identity import Device
from .phase import AVAILABLE, PENDING
from .sharing import ALONE, Neighbour, gone_words, moved_words

Disk = Mapping[str, Any]
#: The condition that says whether a LocalDisk is what the agent's configuration declares.
DECLARED = "Declared"
#: The condition types that the agent's frame owns; every other belongs to somebody else.
OWN_CONDITIONS = ("Matched", "Healthy", "Ready", DECLARED)
#: Reason of Matched while nobody has looked whether another node sees the disk.
NOT_COMPARED = "NotCompared"
_WORDS = ("disks", "disk_selectors")
_MESSAGE = 1024


class Declarations(NamedTuple):
    """``create``: whole LocalDisks. ``standing``: (status, reason, message) by LocalDisk. ``refused``: for people."""

    create: list[dict[str, Any]]
    standing: dict[str, tuple[str, str, str]]
    refused: list[str]


def plan_declarations(
    node: str,
    entries: Sequence[Mapping[str, Any]],
    selectors: Sequence[Mapping[str, Any]],
    devices: Sequence[Device],
    existing: Sequence[Disk],
    evaluate: Evaluate,
) -> Declarations:
    """Compare a node's configuration with its devices and LocalDisks. Arguments as in `plan_disks`.

    An entry that is refused keeps every LocalDisk from being created: a selector could take the disk that it means.
    """
    plan = plan_disks(node, entries, selectors, devices, existing, evaluate, _WORDS)
    there = {str(disk["metadata"]["name"]): disk for disk in existing}
    wanted = [disk for disk in plan.disks if "identity" in disk and disk["name"] not in there]
    create = [] if plan.errors else [new_disk(disk, f"LocalDisk {disk['name']}") for disk in wanted]
    configured = bool(entries or selectors)
    standing = {name: _standing(disk, plan) for name, disk in there.items()} if configured else {}
    return Declarations(create, standing, [*plan.errors, *plan.unclear])


def _standing(disk: Disk, plan: Plan) -> tuple[str, str, str]:
    name = str(disk["metadata"]["name"])
    if plan.errors:
        return "Unknown", "Refused", f"the configuration of this node is refused: {plan.errors[0]}"
    if name in plan.extra:
        return (
            "False",
            "Undeclared",
            "no entry and no selector of this node's configuration means it; it stays as it is",
        )
    declared = next((each for each in plan.disks if each["name"] == name and "identity" in each), None)
    if declared is None:
        return "Unknown", "NotFound", "the disk is not found on the node; a selector may mean it"
    drift = list(declaration_drift(declared, disk))
    return ("False", "Drift", "; ".join(drift)) if drift else ("True", "AsDeclared", "")


def agent_status(
    disk: Disk,
    device: Device | None,
    now: str,
    ambiguous: str,
    standing: tuple[str, str, str] | None,
    swapped: str = "",
    other: Neighbour | None = ALONE,
) -> dict[str, Any]:
    """The status that the agent's frame applies to a LocalDisk: everything that it owns, and nothing else.

    ``other``: the LocalDisk of another node that shows the same disk; None: nobody has looked for one yet.
    """
    neighbour = other or ALONE
    if device is not None:
        found = {"shared_with": neighbour.node if neighbour.sees_it else "", "moved_from": moved_words(neighbour)}
        device = {**device, **found}
    status = disk_status(disk, device, now, ambiguous, swapped, gone_words(neighbour))
    before = (disk.get("status") or {}).get("conditions") or ()
    if other is None:
        words = "whether another node sees this disk is not known yet"
        told = conditions([("Matched", "Unknown", NOT_COMPARED, words)], before, now)
        status["conditions"] = [*told, *(each for each in status["conditions"] if each["type"] != "Matched")]
        status["phase"] = PENDING if status["phase"] == AVAILABLE else status["phase"]
    if standing is not None:
        status["conditions"] += conditions([(DECLARED, *standing[:2], standing[2][:_MESSAGE])], before, now)
    return status


def is_same_status(disk: Disk, status: Mapping[str, Any]) -> bool:
    """Whether the object of the API says already what the agent would apply; then nothing is written."""
    live = disk.get("status") or {}
    if any(live.get(key) != status.get(key) for key in ("phase", "observed", "capacity")):
        return False
    own = {each["type"]: each for each in live.get("conditions") or () if each.get("type") in OWN_CONDITIONS}
    return own == {each["type"]: each for each in status["conditions"]}
