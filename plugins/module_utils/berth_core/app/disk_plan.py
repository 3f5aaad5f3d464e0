# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a host's inventory and what was found on it to its LocalDisks: adopted, kept, missing, refused, extra.

Called by the module local_disk_plan, before anything is written. A disk that already is a LocalDisk of the node stays
one: what berth has put on it since is no reason against it. JMESPath comes in as a callable; nothing is looked up here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import BerthError, IdentityError, InputError
from ..lifecycle.locks import keeps_from_before
from .disk_change import check_settings, read_identity
from .identity import (
    Device,
    Identity,
    describe,
    describe_all,
    disk_name,
    from_spec,
    match,
    names_same,
    observed_identity,
)

#: What a declaration that does not mention a setting means. None: see `_settings`.
DEFAULTS: dict[str, Any] = {
    "storage_class": "",
    "volume_mode": "Filesystem",
    "fs_type": None,
    "mount_options": (),
    "reclaim_policy": "Retain",
    "wipe_method": "signatures",
    "reserved": False,
}
DEFAULT_FS_TYPE = "ext4"
#: What an inventory calls its entries and its selectors.
INVENTORY = ("berth_disks", "berth_disk_selectors")
_IDENTITY_KEYS = ("wwn", "serial", "model", "size", "by_path")
#: For a selector, a disk that is berth's already looks as it did when it was adopted.
_AS_ADOPTED: dict[str, Any] = {
    **dict.fromkeys(("fstype", "fsuuid", "label", "pttype"), ""),
    "mounts": [],
    "holders": [],
    "refusals": [],
    "usable": True,
}

Disk = Mapping[str, Any]
Evaluate = Callable[[str, list[Any]], Any]


class Row(NamedTuple):
    """One line of the plan for people. ``action``: adopt, keep, missing, refuse, extra."""

    action: str
    disk: str
    device: str
    size: int
    source: str
    why: str


class Plan(NamedTuple):
    """``disks``: options for local_disk. ``errors``: entries that are refused; nothing may be applied then.

    ``unclear``: disks that a selector means, and that cannot be told from others (no serial, or one that several have).
    """

    disks: list[dict[str, Any]]
    rows: list[Row]
    errors: list[str]
    extra: list[str]
    unclear: list[str]


class _Refused(Exception):
    """One disk is refused; caught in this file."""


class Planner:
    """The plan of one host, built entry by entry. Use `plan_disks`."""

    def __init__(
        self,
        node: str,
        devices: Sequence[Device],
        existing: Sequence[Disk],
        words: tuple[str, str] = INVENTORY,
        looking: bool = False,
    ) -> None:
        self.node = node
        self.words = words
        self.looking = looking
        self.records = {str(device["name"]): device for device in devices}
        self.whole = [device for device in devices if device.get("type") != "part"]
        self.existing = {str(disk["metadata"]["name"]): disk for disk in existing}
        self.rows: list[Row] = []
        self.errors: list[str] = []
        self.unclear: list[str] = []
        self.disks: dict[str, dict[str, Any]] = {}
        self.taken: dict[str, str] = {}  # device path -> the entry that took it
        self.device_of: dict[str, Device] = {}  # LocalDisk -> device
        self.known: dict[str, str] = {}  # device path -> LocalDisk
        self.has_selectors = False
        for name, disk in self.existing.items():
            self._recognise(name, disk)

    def _recognise(self, name: str, disk: Disk) -> None:
        """Find the device of a LocalDisk that is there already."""
        try:
            device = match(from_spec(disk["spec"]["identity"]), self.whole)
        except IdentityError as exc:
            self.errors.append(f"LocalDisk {name}: {exc.message}")
            return
        if device is None:
            return
        other = self.known.setdefault(str(device["path"]), name)
        if other != name:
            self.errors.append(f"{describe(device)} is two LocalDisks, {other} and {name}: delete the one that is free")
            return
        self.device_of[name] = device

    def entry(self, index: int, entry: Mapping[str, Any]) -> None:
        """One entry of berth_disks: a disk by its identity."""
        where = f"{self.words[0]}[{index}]"
        try:
            identity = read_identity(entry, where)
            check_settings(entry, where)
            device = self._find(identity, where)
            name = self._name(entry, identity, device)
            if device is not None:
                self._check_entry(entry, identity, device, self.existing.get(self.known.get(str(device["path"]), "")))
        except (_Refused, BerthError) as exc:
            text = str(exc) if str(exc).startswith(where) else f"{where}: {exc}"
            self.errors.append(text)
            self.rows.append(Row("refuse", "", "", 0, where, text))
            return
        self._take(where, name, entry, identity, device)

    def _find(self, identity: Identity, where: str) -> Device | None:
        device = match(identity, self.whole)
        if device is not None:
            taken = self.taken.get(str(device["path"]))
            if taken:
                raise _Refused(f"{where}: {describe(device)} is the disk of {taken} already")
            return device
        if not self._recorded(identity):
            raise _Refused(
                f"{where}: no disk of this host is {identity.describe()}. Its disks: {describe_all(self.whole)}"
            )
        return None

    def _recorded(self, identity: Identity) -> list[str]:
        """The LocalDisks that are recorded under this identity, wherever the disk may be."""
        known = ((name, from_spec(disk["spec"]["identity"])) for name, disk in self.existing.items())
        return [name for name, whole in known if names_same(identity, whole)]

    def _name(self, entry: Mapping[str, Any], identity: Identity, device: Device | None) -> str:
        """The LocalDisk's name; the one that it has already wins, for a name never changes."""
        given = str(entry.get("name") or "")
        if device is None:
            there = self._recorded(identity)
            has = given if given in there else there[0]
        else:
            has = self.known.get(str(device["path"]), "")
            if not has and given in self.existing:
                raise _Refused(f"LocalDisk {given} is another disk and keeps it: give this one a name of its own")
        if has and given and has != given:
            raise _Refused(
                f"the disk is LocalDisk {has} already, and cannot become {given}: a LocalDisk keeps its name"
            )
        name = has or given or disk_name(self.node, _identity_for(identity, device))
        if name in self.disks:
            raise _Refused(f"LocalDisk {name} is the name of {self.disks[name]['source']} already: give each a name")
        return name

    def _check_entry(self, entry: Mapping[str, Any], identity: Identity, device: Device, there: Disk | None) -> None:
        """An entry may name a disk that is not blank; one in use it may only reserve.

        Who only looks is told by the drift what has become of a LocalDisk, and by no refusal.
        """
        if entry.get("reserved") or (self.looking and there is not None):
            return
        used = self._in_use(device)
        ours = there is not None and bool(there["spec"].get("claimRef") or there["spec"].get("retainedFor"))
        if device.get("is_system") or (used and not ours):
            why = "it carries the running system" if device.get("is_system") else used
            raise _Refused(
                f"{describe(device)} is refused: {why}. With reserved: true it is recorded, and never given out"
            )
        slot_only = not identity.wwn and not identity.serial
        if there is None and slot_only and device.get("refusals"):
            raise _Refused(
                f"{describe(device)} is refused: {_reasons(device)}. by_path names a slot: "
                "name this very disk by its wwn or serial"
            )

    def _in_use(self, device: Device) -> str:
        """Who uses a device or one of its partitions; empty when nobody does."""
        parts = [self.records[name] for name in device.get("partitions") or () if name in self.records]
        for each in (device, *parts):
            if each.get("mounts"):
                return f"{each['path']} is mounted at {', '.join(each['mounts'])}"
            if each.get("swap"):
                return f"{each['path']} is used as swap"
            if each.get("holders"):
                return f"{each['path']} is held by {', '.join(each['holders'])}"
        return ""

    def selector(self, index: int, selector: Mapping[str, Any], evaluate: Evaluate) -> None:
        """One entry of berth_disk_selectors: every free disk that its query finds."""
        self.has_selectors = True
        where = f"{self.words[1]}[{index}]"
        try:
            check_settings(selector, where)
            found = self._query(where, selector, evaluate)
        except BerthError as exc:
            self.errors.append(exc.message)
            return
        for device in found:
            if str(device["path"]) in self.taken:
                continue
            try:
                name = self._selected(device)
            except (_Refused, BerthError) as exc:
                self.rows.append(Row("refuse", "", str(device["path"]), int(device.get("size") or 0), where, str(exc)))
                if isinstance(exc, IdentityError):
                    self.unclear.append(f"{where}: {device['path']}: {exc}")
                continue
            self._take(where, name, selector, observed_identity(device), device)

    def _query(self, where: str, selector: Mapping[str, Any], evaluate: Evaluate) -> list[Device]:
        query = selector.get("query")
        if not query or not isinstance(query, str):
            raise InputError(f"{where}: query is missing: expected a JMESPath expression over the host's block devices")
        answer = evaluate(query, [self._as_adopted(device) for device in self.records.values()])
        if not isinstance(answer, list) or not all(
            isinstance(each, Mapping) and each.get("name") in self.records for each in answer
        ):
            raise InputError(
                f"{where}: query {query!r} does not give a list of block devices; "
                "expected a filter, as [?rotational == `false`]"
            )
        return [self.records[str(each["name"])] for each in answer]

    def _as_adopted(self, device: Device) -> dict[str, Any]:
        if str(device.get("path")) not in self.known or device.get("is_system"):
            return dict(device)
        return {**device, **_AS_ADOPTED}

    def _selected(self, device: Device) -> str:
        known = self.known.get(str(device["path"]))
        if device.get("is_system") or (device.get("refusals") and not known):
            raise _Refused(_reasons(device))
        if known:
            return known
        identity = observed_identity(device)
        match(identity, self.whole)  # weak or ambiguous: refused with the candidates
        name = disk_name(self.node, identity)
        if name in self.disks or name in self.existing:
            raise _Refused(f"LocalDisk {name} is another disk's name already; name this disk in berth_disks")
        return name

    def _take(
        self, where: str, name: str, settings: Mapping[str, Any], identity: Identity, device: Device | None
    ) -> None:
        there = self.existing.get(name)
        known = from_spec(there["spec"]["identity"]) if there is not None else _identity_for(identity, device)
        if device is not None:
            self.taken[str(device["path"])] = where
        self.disks[name] = {
            "name": name,
            "node_name": self.node,
            "identity": {key: str(value) for key, value in known._asdict().items() if value},
            **_settings(settings),
            **({"reserved": False} if there is not None and keeps_from_before(there) else {}),
            "labels": dict(settings.get("labels") or {}),
            "observed": dict(device or {}),
            "source": where,
        }
        self.rows.append(self._row(where, name, device, there))

    def _row(self, where: str, name: str, device: Device | None, there: Disk | None) -> Row:
        if device is None:
            size = int(there["spec"]["identity"]["size"]) if there else 0
            return Row("missing", name, "", size, where, "declared, and not found on this host")
        size = int(device.get("size") or 0)
        if there is not None:
            return Row("keep", name, str(device["path"]), size, where, _holder(there))
        why = f"not given out while {_reasons(device)}" if device.get("refusals") else ""
        return Row("adopt", name, str(device["path"]), size, where, why)

    def plan(self) -> Plan:
        """The whole, sorted by name; LocalDisks that nobody declares any more are observed and left as they are."""
        undeclared = sorted(name for name in self.existing if name not in self.disks)
        extra = []
        for name in undeclared:
            # A selector cannot find a disk that is not there: whether it still means it, nobody can tell.
            lost = self.has_selectors and name not in self.device_of
            why = "not found on this host; a selector may mean it" if lost else "in no inventory entry"
            path, size = self.device_of.get(name, {}).get("path", ""), self.existing[name]["spec"]["identity"]["size"]
            why = "; ".join(part for part in (why, _holder(self.existing[name])) if part)
            self.rows.append(Row("missing" if lost else "extra", name, str(path), int(size), "", why))
            if not lost:
                extra.append(name)
        seen = [
            {"name": name, "node_name": self.node, "observed": dict(self.device_of.get(name, {}))}
            for name in undeclared
        ]
        wanted = [{key: value for key, value in disk.items() if key != "source"} for disk in self.disks.values()]
        disks = sorted([*wanted, *seen], key=lambda disk: str(disk["name"]))
        return Plan(disks, self.rows, self.errors, extra, self.unclear)


def plan_disks(
    node: str,
    entries: Sequence[Mapping[str, Any]],
    selectors: Sequence[Mapping[str, Any]],
    devices: Sequence[Device],
    existing: Sequence[Disk],
    evaluate: Evaluate,
    words: tuple[str, str] = INVENTORY,
    looking: bool = False,
) -> Plan:
    """The LocalDisks that one host should have.

    ``entries``, ``selectors``: berth_disks and berth_disk_selectors; an entry wins over a selector, an earlier selector
    over a later one. ``devices``: records of block_device_info; ``existing``: the node's LocalDisks; ``evaluate(query,
    devices)``: JMESPath; ``words``: what entries and selectors are called where their author wrote them; ``looking``:
    the plan is for a comparison, so that a LocalDisk in use by something else by now is no reason to refuse its entry.
    """
    planner = Planner(node, devices, existing, words, looking)
    for index, entry in enumerate(entries):
        planner.entry(index, entry)
    for index, selector in enumerate(selectors):
        planner.selector(index, selector, evaluate)
    return planner.plan()


def _settings(source: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: default if source.get(key) is None else source[key] for key, default in DEFAULTS.items()}
    made["mount_options"] = [str(option) for option in made["mount_options"]]
    if made["volume_mode"] == "Filesystem" and not made["fs_type"]:
        made["fs_type"] = DEFAULT_FS_TYPE
    return {key: value for key, value in made.items() if value is not None}  # a raw disk has no filesystem to name


def _identity_for(identity: Identity, device: Device | None) -> Identity:
    return observed_identity(device, identity.by_path) if device is not None else identity


def _reasons(device: Device) -> str:
    return "; ".join(str(reason) for reason in device.get("refusals") or ()) or "it carries the running system"


def _holder(disk: Disk) -> str:
    ref, kept = disk["spec"].get("claimRef"), disk["spec"].get("retainedFor")
    if ref:
        return f"held by {ref['namespace']}/{ref['name']}"
    return f"keeps the data of {kept['namespace']}/{kept['app']}-{kept['ordinal']}" if kept else ""
