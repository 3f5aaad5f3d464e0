# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the declared disks and the LocalDisks of the cluster differ: missing, extra, changed; as data and as text.

Called by local_disk_info. Nothing is decided here: what to do about a difference is its reader's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .disk_change import SETTINGS, read_identity
from .disk_status import expected_filesystem, foreign_signature, observed_of
from .identity import Device, agrees, describe, from_spec, observed_identity
from .phase import MISSING, is_faulted

Disk = Mapping[str, Any]
#: What the API server stores for a setting that is not set.
_UNSET: dict[str, Any] = {"storageClassName": "", "volumeMode": "Filesystem", "reclaimPolicy": "Retain"}
_UNSET.update({"wipeMethod": "signatures", "reserved": False, "mountOptions": [], "fsType": None})


def find_drift(declared: Sequence[Mapping[str, Any]], disks: Sequence[Disk]) -> dict[str, Any]:
    """The differences between ``declared`` (options of local_disk) and the LocalDisks of the same nodes.

    Returns ``{missing, extra, changed: [{name, node, device, what}], text: [line], any: bool}``; ``what`` is a list of
    sentences. ``declared`` with ``observed`` (a record of block_device_info, empty: not found) is compared with that
    look at the host, else with what the LocalDisk's status remembers.
    """
    live = {str(disk["metadata"]["name"]): disk for disk in disks}
    wanted = {str(each["name"]): each for each in declared}
    missing, changed = [], []
    for name in sorted(wanted):
        disk = live.get(name)
        if disk is None:
            node = str(wanted[name].get("node_name") or "")
            missing.append(_finding(name, node, "", ["it is declared, and there is no such LocalDisk"]))
            continue
        gone = _gone(wanted[name], disk)
        if gone:
            missing.append(_of(disk, [gone]))
        found = [*declaration_drift(wanted[name], disk), *_state(wanted[name], disk)]
        if found:
            changed.append(_of(disk, found))
    extra = [_of(live[name], [_why_extra(live[name])]) for name in sorted(set(live) - set(wanted))]
    drift = {"missing": missing, "extra": extra, "changed": changed}
    text = [f"{kind}: {_line(each)}" for kind, found in drift.items() for each in found]
    return {**drift, "text": text, "any": bool(text)}


def swapped_for(disk: Disk, devices: Sequence[Device]) -> str:
    """Which device is there in the stead of a LocalDisk's that was not found, for people; empty when none is.

    One that has some of its keys and contradicts others (another size, another serial behind the same WWN), or one in
    the slot where the disk was last seen.
    """
    identity = from_spec(disk["spec"]["identity"])
    slot = str(((disk.get("status") or {}).get("observed") or {}).get("byPath") or identity.by_path)
    for device in devices:
        found = observed_identity(device, slot if slot in (device.get("by_path") or ()) else "")
        shares = (identity.wwn and found.wwn == identity.wwn) or (identity.serial and found.serial == identity.serial)
        if shares:
            return f"{describe(device)} has some of its keys and not all of them; expected {identity.describe()}"
        if slot and found.by_path == slot:
            return f"in its slot {slot} is now {describe(device)}; expected {identity.describe()}"
    return ""


def _gone(wanted: Mapping[str, Any], disk: Disk) -> str:
    observed = wanted.get("observed")
    phase = (disk.get("status") or {}).get("phase")
    if observed == {} or (observed is None and phase == MISSING):
        return f"its disk ({from_spec(disk['spec']['identity']).describe()}) is not in the node"
    return ""


def declaration_drift(wanted: Mapping[str, Any], disk: Disk) -> Iterable[str]:
    """Sentences: settings and identity that are not those of the inventory."""
    spec, name = disk["spec"], str(disk["metadata"]["name"])
    for option, field in SETTINGS.items():
        value = wanted.get(option)
        is_now = spec.get(field, _UNSET[field])
        if value is not None and (value or None) != (is_now or None):
            yield f"{option} is {_shown(is_now)}, declared {_shown(value)}"
    for key, value in sorted((wanted.get("labels") or {}).items()):
        is_now = (disk["metadata"].get("labels") or {}).get(key)
        if is_now != str(value):
            yield f"label {key} is {_shown(is_now)}, declared {_shown(value)}"
    asked, there = read_identity(wanted.get("identity") or {}, f"LocalDisk {name}"), from_spec(spec["identity"])
    if not agrees(asked, there):
        yield f"its identity is {there.describe()}, declared {asked.describe()}"
    node = wanted.get("node_name")
    if node and node != spec["nodeName"]:
        yield f"it is in node {spec['nodeName']}, declared in {node}"


def _state(wanted: Mapping[str, Any], disk: Disk) -> Iterable[str]:
    """What was seen on the node and should not be so."""
    name, spec, status = str(disk["metadata"]["name"]), disk["spec"], disk.get("status") or {}
    device = wanted.get("observed") or {}
    observed = observed_of(device) if device else status.get("observed") or {}
    if is_faulted(observed):
        yield f"it is faulted{': ' + str(device['problem']) if device.get('problem') else ''}"
    foreign = "" if spec.get("reserved") else foreign_signature(name, spec, observed)
    if foreign:
        belongs = expected_filesystem(name, spec)
        yield f"it carries {foreign}, expected {'filesystem ' + belongs + ' or nothing' if belongs else 'nothing'}"
    held = spec.get("claimRef") or spec.get("retainedFor") or spec.get("reserved")
    if observed.get("holders"):
        yield f"it is held on the host by {', '.join(observed['holders'])}"
    if observed.get("mounts") and not held:
        yield f"it is mounted at {', '.join(observed['mounts'])}, and no berth holds it"


def _why_extra(disk: Disk) -> str:
    ref, kept = disk["spec"].get("claimRef"), disk["spec"].get("retainedFor")
    if ref:
        return f"it is in no inventory, and held by {ref['namespace']}/{ref['name']}"
    if kept:
        return f"it is in no inventory, and keeps the data of {kept['namespace']}/{kept['app']}-{kept['ordinal']}"
    return "it is in no inventory, and free"


def _of(disk: Disk, what: Iterable[str]) -> dict[str, Any]:
    device = ((disk.get("status") or {}).get("observed") or {}).get("devicePath", "")
    return _finding(str(disk["metadata"]["name"]), str(disk["spec"]["nodeName"]), str(device), list(what))


def _finding(name: str, node: str, device: str, what: list[str]) -> dict[str, Any]:
    return {"name": name, "node": node, "device": device, "what": what}


def _line(finding: Mapping[str, Any]) -> str:
    place = " ".join(part for part in (finding["node"], finding["device"]) if part)
    return f"LocalDisk {finding['name']}{f' ({place})' if place else ''}: {'; '.join(finding['what'])}"


def _shown(value: Any) -> str:
    return (
        "not set" if value in (None, "", []) else (",".join(map(str, value)) if isinstance(value, list) else str(value))
    )
