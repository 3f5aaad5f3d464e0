# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a LocalDisk from one look at its node: what was seen, the phase, the conditions.

Called by local_disk (and by the node agent); the time comes in as an argument. The same look gives the same status, so
that nothing is written when nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model.quantity import format_bytes
from .fsid import filesystem_of
from .phase import AVAILABLE, FAULTED, HEALTH_UNKNOWN, IN_USE, LOCKED, MISSING, RELEASED, disk_phase, is_seen
from .sharing import disk_id, shared_words

#: What a disk keeps while it is not there: its keys, and the slot where it was last seen. Whoever looks for it, or for
#: what is there in its stead, needs them.
_REMEMBERED = ("wwn", "serial", "model", "size", "byPath", "diskID")
_MANY = 64
_TEXT = 256
_MESSAGE = 1024
#: by-id links that name what is on the disk, not the disk.
_NOT_THE_DISK = ("lvm-pv-uuid-", "dm-", "md-")


def observed_of(device: Mapping[str, Any] | None, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """``status.observed`` for a record of block_device_info; None or empty: looked for and not found.

    ``before`` is the previous ``status.observed``; of a disk that is gone its identity is kept, and no device path.
    """
    if not device:
        return {key: value for key, value in (before or {}).items() if key in _REMEMBERED}
    facts = {
        "devicePath": device.get("path"),
        "byId": best_link(device),
        "wwn": device.get("wwn"),
        "serial": device.get("serial"),
        "model": device.get("model"),
        "byPath": next(iter(device.get("by_path") or ()), ""),
        "size": device.get("size"),
        "rotational": bool(device.get("rotational")),
        "readOnly": bool(device.get("read_only")) or None,
        "health": device.get("health"),
        "mounts": list(device.get("mounts") or ())[:_MANY],
        "partlyMounted": bool(device.get("partly_mounted")) or None,
        "holders": list(device.get("holders") or ())[:_MANY],
        "filesystem": _filesystem(device),
        "diskID": disk_id(device),
        # The agent alone looks for it: who does not, keeps what it said.
        "sharedWith": device.get("shared_with", (before or {}).get("sharedWith")),
    }
    return {key: _short(value) for key, value in facts.items() if value not in (None, "", [], {})}


def best_link(device: Mapping[str, Any]) -> str:
    """The by-id link to reach a disk by: one with its serial, else with its WWN, else any; empty without one."""
    links = [link for link in device.get("by_id") or () if not str(link).startswith(_NOT_THE_DISK)]
    serial, wwn = str(device.get("serial") or ""), str(device.get("wwn") or "")

    def rank(link: str) -> tuple[bool, bool, str]:
        return (not (serial and serial in link), not (wwn and wwn in link), link)

    return min(links, key=rank, default="")


def expected_filesystem(name: str, spec: Mapping[str, Any]) -> str:
    """The UUID of the filesystem that belongs on this LocalDisk now; empty when none does (free, or a block volume).

    None does either where the record of whose the data is has an empty uid, as an older schema let it have.
    """
    owner = spec.get("claimRef") or spec.get("retainedFor")
    if not owner or not owner["dataUID"] or spec.get("volumeMode", "Filesystem") == "Block":
        return ""
    return filesystem_of(owner, name)


def content_named(disk: Mapping[str, Any]) -> dict[str, str]:
    """What a request to wipe this LocalDisk says of its content: the filesystem that was seen there, or belongs there.

    Asked again by a cluster whose state was restored, it does not stand for another one. Raw data has no name.
    """
    name, seen = (
        str(disk["metadata"]["name"]),
        ((disk.get("status") or {}).get("observed") or {}).get("filesystem") or {},
    )
    uuid = str(seen.get("uuid") or "") or expected_filesystem(name, disk["spec"])
    return {"filesystemUUID": uuid} if uuid else {}


def foreign_signature(name: str, spec: Mapping[str, Any], observed: Mapping[str, Any]) -> str:
    """What is on the disk and does not belong to its holder, for people; empty when all is in order."""
    found = observed.get("filesystem") or {}
    if not found:
        return ""
    owned = spec.get("claimRef") or spec.get("retainedFor")
    if owned and (
        spec.get("volumeMode") == "Block" or str(found.get("uuid")).lower() == expected_filesystem(name, spec)
    ):
        return ""
    return f"{found.get('type', 'unknown')}{' ' + found['uuid'] if found.get('uuid') else ''}"


def disk_status(
    disk: Mapping[str, Any],
    device: Mapping[str, Any] | None,
    now: str,
    ambiguous: str = "",
    swapped: str = "",
    moved: str = "",
) -> dict[str, Any]:
    """The status of a LocalDisk (an object of the API) after a look at its node, and nothing that others wrote there.

    ``now`` (RFC 3339) becomes the lastTransitionTime of the conditions that changed, and of no other. ``ambiguous``:
    why the identity names no single device although some carry it; ``swapped``: which other disk is there in its stead
    (drift.swapped_for); ``moved``: which node has it now (sharing.gone_words). ``device`` is None then.
    """
    name, spec, before = disk["metadata"]["name"], disk["spec"], disk.get("status") or {}
    observed = observed_of(device, before.get("observed"))
    phase = disk_phase(spec, observed)
    size = observed.get("size") or spec.get("identity", {}).get("size")
    status = {
        "phase": phase,
        "observed": observed,
        "conditions": conditions(
            _unmatched(observed, ambiguous, swapped, moved) or _findings(name, spec, observed, phase, device),
            before.get("conditions") or (),
            now,
        ),
    }
    return {**status, "capacity": format_bytes(size)} if size else status


def beside_others(before: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """``made`` (by `disk_status`) in a status in which others have written too: their fields and conditions stay.

    An agent keeps there what it has begun on the disk: whoever replaces a status must not take that away.
    """
    told = {condition["type"]: condition for condition in made["conditions"]}
    kept = [told.pop(condition["type"], condition) for condition in before.get("conditions") or ()]
    return {**before, **made, "conditions": [*kept, *told.values()]}


def _unmatched(
    observed: Mapping[str, Any], ambiguous: str, swapped: str, moved: str
) -> list[tuple[str, str, str, str]]:
    """(type, status, reason, message) of every condition, of a disk that is not there; empty for one that is."""
    if ambiguous:
        return [
            ("Matched", "False", "Ambiguous", ambiguous[:_MESSAGE]),
            ("Healthy", "Unknown", "Ambiguous", ""),
            ("Ready", "False", "Ambiguous", "no telling which device it is: nothing is done to any of them"),
        ]
    if is_seen(observed):
        return []
    reason, why, ready = "NotFound", "no device of the node carries this identity", "the disk is not in its node"
    if moved:
        reason, why, ready = "Moved", moved, "the disk is in another node"
    elif swapped:
        reason, why, ready = "Drift", swapped, "another disk is there in its stead: nothing is done to that one"
    return [
        ("Matched", "False", reason, why[:_MESSAGE]),
        ("Healthy", "Unknown", "NotFound", ""),
        ("Ready", "False", MISSING, ready),
    ]


def _findings(
    name: str, spec: Mapping[str, Any], observed: Mapping[str, Any], phase: str, device: Mapping[str, Any] | None
) -> list[tuple[str, str, str, str]]:
    """The same, of a disk that is there."""
    health = str(observed.get("health") or HEALTH_UNKNOWN)
    healthy = {HEALTH_UNKNOWN: "Unknown", FAULTED: "False"}.get(health, "False" if phase == FAULTED else "True")
    problem, found = str((device or {}).get("problem") or ""), str((device or {}).get("moved_from") or "")
    shared = str(observed.get("sharedWith") or "")
    if shared:
        matched = ("Matched", "False", "Shared", shared_words(shared, str(observed.get("diskID")))[:_MESSAGE])
        ready = ("Ready", "False", "Shared", "two nodes see this disk")
        return [matched, ("Healthy", healthy, health, problem), ready]
    return [
        ("Matched", "True", "Found", found[:_MESSAGE]),
        ("Healthy", healthy, health, problem),
        ("Ready", *_readiness(name, spec, observed, phase)),
    ]


def _readiness(name: str, spec: Mapping[str, Any], observed: Mapping[str, Any], phase: str) -> tuple[str, str, str]:
    foreign = foreign_signature(name, spec, observed)
    if phase == FAULTED:
        return "False", FAULTED, "the disk is read-only" if observed.get("readOnly") else "the disk is broken"
    if foreign:
        return (
            "False",
            "ForeignSignature",
            f"the disk carries {foreign}, which belongs to nobody on record; it is never formatted",
        )
    if phase == LOCKED and spec.get("volumeMode", "Filesystem") != "Block":
        return "False", "NotMounted", "held, and its filesystem is not mounted yet"
    reasons = {AVAILABLE: "Free", RELEASED: "Retained", IN_USE: "Mounted", LOCKED: "Held"}
    return "True", reasons.get(phase, phase), ""


def conditions(
    findings: Iterable[tuple[str, str, str, str]], before: Iterable[Mapping[str, Any]], now: str
) -> list[dict[str, Any]]:
    """Conditions from (type, status, reason, message): ``before`` tells since when those that did not change hold."""
    known = {condition.get("type"): condition for condition in before}
    made = []
    for kind, status, reason, message in findings:
        old = known.get(kind) or {}
        since = old["lastTransitionTime"] if old.get("status") == status and old.get("lastTransitionTime") else now
        condition = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}
        made.append({**condition, "message": message} if message else condition)
    return made


def _filesystem(device: Mapping[str, Any]) -> dict[str, str]:
    """The signature on a disk; a partition table is one too."""
    facts = {
        "type": device.get("fstype") or device.get("pttype"),
        "uuid": device.get("fsuuid"),
        "label": device.get("label"),
    }
    return {key: str(value)[:64] for key, value in facts.items() if value}


def _short(value: Any) -> Any:
    """Within the schema's limits: a device may call itself anything."""
    if isinstance(value, str):
        return value[:_TEXT]
    return [text[:_TEXT] for text in value] if isinstance(value, list) else value
