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

    Returns ``{missing, extra, changed, unexpected_filesystem, held_elsewhere: [{name, node, device, what}],
    text: [line], diff: [line], any: bool}``; ``what`` is a list of sentences, ``diff`` is what ``diff -u`` would show.

    ``declared`` with ``observed`` (a record of block_device_info, empty: not found) is compared with that look at the
    host, else with what the LocalDisk's status remembers.
    """
    live = {str(disk["metadata"]["name"]): disk for disk in disks}
    wanted = {str(each["name"]): each for each in declared}
    missing: list[dict[str, Any]] = []
    differs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _DIFFERENT}
    for name in sorted(wanted):
        disk = live.get(name)
        if disk is None:
            node = str(wanted[name].get("node_name") or "")
            missing.append(_finding(name, node, "", ["it is declared, and there is no such LocalDisk"]))
            continue
        gone = _gone(wanted[name], disk)
        if gone:
            missing.append(_of(disk, [gone]))
        for kind, sentences in _DIFFERENT.items():
            found = list(sentences(wanted[name], disk))
            if found:
                differs[kind].append(_of(disk, found))
    extra = [_of(live[name], [_why_extra(live[name])]) for name in sorted(set(live) - set(wanted))]
    drift = {"missing": missing, "extra": extra, **differs}
    text = [f"{kind}: {_line(each)}" for kind, found in drift.items() for each in found]
    return {**drift, "text": text, "diff": drift_diff(wanted, live) if text else [], "any": bool(text)}


def drift_diff(wanted: Mapping[str, Mapping[str, Any]], live: Mapping[str, Disk]) -> list[str]:
    """Declared against observed, both by name, as the lines of a unified diff: each disk is compared with itself."""
    import difflib  # the agent, which must stay small, never comes here

    lines: list[str] = []
    for name in sorted({*wanted, *live}):
        asked, disk = wanted.get(name), live.get(name)
        before, after = [], []
        if asked is not None:
            node = asked.get("node_name") or (disk["spec"]["nodeName"] if disk else "")
            before = [f"LocalDisk {name} ({node})", *_declared_lines(asked)]
        if disk is not None and not (asked is not None and _gone(asked, disk)):
            after = [f"LocalDisk {name} ({disk['spec']['nodeName']})", *_observed_lines(asked or {}, disk)]
        found = list(difflib.unified_diff(before, after, "declared", "observed", lineterm="", n=2))
        lines += found[2:] if lines else found
    return lines


def _declared_lines(asked: Mapping[str, Any]) -> list[str]:
    settings = [f"  {option}: {_shown(asked[option])}" for option in SETTINGS if asked.get(option) is not None]
    return settings + [f"  label {key}: {value}" for key, value in sorted((asked.get("labels") or {}).items())]


def _observed_lines(asked: Mapping[str, Any], disk: Disk) -> list[str]:
    """What is compared (of a disk that nobody declares nothing), and what should not be so."""
    spec, labels = disk["spec"], disk["metadata"].get("labels") or {}
    fields = {option: field for option, field in SETTINGS.items() if asked.get(option) is not None}
    lines = [f"  {option}: {_shown(spec.get(field, _UNSET[field]))}" for option, field in fields.items()]
    lines += [f"  label {key}: {labels[key]}" for key in sorted(asked.get("labels") or {}) if key in labels]
    return lines + [f"  {each}" for state in (_faults, _filesystem, _holders) for each in state(asked, disk)]


def swapped_for(disk: Disk, devices: Sequence[Device]) -> str:
    """Which device is there in the stead of a LocalDisk's that was not found, for people; empty when none is.

    One that has some of its keys and contradicts others (another size, another serial behind the same WWN), or one in
    the slot where the disk was last seen. One without a single byte is a disk that is just going, or an empty reader.
    """
    identity = from_spec(disk["spec"]["identity"])
    slot = str(((disk.get("status") or {}).get("observed") or {}).get("byPath") or identity.by_path)
    for device in (each for each in devices if each.get("size")):
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


def _look(wanted: Mapping[str, Any], disk: Disk) -> Mapping[str, Any]:
    """A fresh look at the host counts before the status."""
    device = wanted.get("observed") or {}
    return observed_of(device) if device else (disk.get("status") or {}).get("observed") or {}


def _faults(wanted: Mapping[str, Any], disk: Disk) -> Iterable[str]:
    problem = (wanted.get("observed") or {}).get("problem")
    if is_faulted(_look(wanted, disk)):
        yield f"it is faulted{': ' + str(problem) if problem else ''}"


def _settings_or_faults(wanted: Mapping[str, Any], disk: Disk) -> Iterable[str]:
    yield from declaration_drift(wanted, disk)
    yield from _faults(wanted, disk)


def _filesystem(wanted: Mapping[str, Any], disk: Disk) -> Iterable[str]:
    name, spec = str(disk["metadata"]["name"]), disk["spec"]
    foreign = "" if spec.get("reserved") else foreign_signature(name, spec, _look(wanted, disk))
    if foreign:
        belongs = expected_filesystem(name, spec)
        yield f"it carries {foreign}, expected {'filesystem ' + belongs + ' or nothing' if belongs else 'nothing'}"


def _holders(wanted: Mapping[str, Any], disk: Disk) -> Iterable[str]:
    """Who on the host has it, and is no berth."""
    spec, observed = disk["spec"], _look(wanted, disk)
    held = spec.get("claimRef") or spec.get("retainedFor") or spec.get("reserved")
    if observed.get("holders"):
        yield f"it is held on the host by {', '.join(observed['holders'])}"
    if observed.get("mounts") and not held:
        yield f"it is mounted at {', '.join(observed['mounts'])}, and no berth holds it"


_DIFFERENT = {
    "changed": _settings_or_faults,
    "unexpected_filesystem": _filesystem,
    "held_elsewhere": _holders,
}


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
