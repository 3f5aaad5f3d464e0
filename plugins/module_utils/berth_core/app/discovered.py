# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks that a host reports as the text of its host_vars: berth_disks by identity, for a person to go over.

Called by the filter disks_as_host_vars. A disk that is blank and used by nobody becomes an entry; one that is mounted,
held or carries anything stands there as a comment; one of the running system does not. A file that is there keeps every
line, and what it names already, in comments too, is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple

from ..errors import IdentityError, InputError
from ..model.names import check_subdomain, is_plain, shown
from ..model.quantity import format_bytes
from .identity import Device, declared, match, matches, observed_identity

KEY = "berth_disks"
_LIST = re.compile(rf"^{KEY}:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*( *)- ", re.MULTILINE)


class Left(NamedTuple):
    """A disk that did not become an entry, and why."""

    disk: str
    why: str


class HostVars(NamedTuple):
    """``text``: the file's new content, that of before where nothing is added; ``added``: the entries that are new."""

    text: str
    added: list[dict[str, Any]]
    left: list[Left]


def host_vars(
    host: str,
    devices: Sequence[Device],
    before: str,
    known: Sequence[Mapping[str, Any]],
    storage_class: str,
    load: Callable[[str], Any],
) -> HostVars:
    """What the file becomes. ``known``: the entries that the host has; ``load``: text -> YAML, or InputError.

    Raises InputError where the file is none that more can be added to.
    """
    if storage_class:
        check_subdomain(storage_class, "storage_class")
    settings = {"storage_class": storage_class} if storage_class else {}
    judged = [one for one in _judged(devices, known) if not (one.keys and _stands_in(before, one.keys))]
    entries = [{**one.keys, "size": int(one.device["size"]), **settings} for one in judged]
    added = [entry for one, entry in zip(judged, entries) if not one.why]
    left = [Left(str(one.device["path"]), one.why) for one in judged if one.why]
    lines = [line for one, entry in zip(judged, entries) if one.keys for line in _item(one, entry)]
    if not added:  # comments alone are no reason to write
        return HostVars(before, [], left)
    return HostVars(_joined(host, before, lines, added, load), added, left)


class _Judged(NamedTuple):
    """``keys``: those that name this very disk in a file, none of one that is never to stand there.

    ``why``: what is against an entry, empty where nothing is.
    """

    device: Device
    keys: dict[str, str]
    why: str


def _judged(devices: Sequence[Device], known: Sequence[Mapping[str, Any]]) -> Iterator[_Judged]:
    """The whole disks that no entry means yet."""
    whole = [device for device in map(_record, devices) if _is_disk(device)]
    meant = [identity for identity in (declared(entry, None) for entry in known) if identity.is_strong()]
    for device in whole:
        if any(matches(identity, device) for identity in meant):
            continue
        keys = {} if device.get("is_system") else _keys(device)
        if device.get("is_system"):
            why = "it carries the running system"
        elif not keys:
            why = "it has neither WWN, serial number nor slot that could be written down"
        elif device.get("usable"):
            why = _ambiguous(keys, whole)
        else:
            why = "; ".join(str(one) for one in device.get("refusals") or ()) or "it is not usable"
        yield _Judged(device, keys, why)


def _is_disk(device: Device) -> bool:
    """Not a partition or a volume on disks; a loop device only where it has a disk's identity, as no image file has."""
    return bool(device["size"]) and (device["type"] == "disk" or (device["type"] == "loop" and bool(_keys(device))))


#: What of a record is relied on.
_FIELDS: tuple[tuple[str, type, Any], ...] = (
    ("path", str, None),
    ("type", str, None),
    ("size", int, None),
    ("by_path", list, []),
    ("refusals", list, []),
)


def _record(device: Device) -> Device:
    """The same, looked through. Raises InputError."""
    for key, kind, without in _FIELDS:
        value = device.get(key, without)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(
                f"{key} of a block device is {shown(value)}: expected records as those of block_device_info"
            )
    return device


def _keys(device: Device) -> dict[str, str]:
    found = observed_identity(device)
    keys = {key: text for key, text in (("wwn", found.wwn), ("serial", found.serial.strip())) if is_plain(text)}
    slots = [str(text) for text in device.get("by_path") or () if is_plain(str(text))]
    return keys or ({"by_path": slots[0]} if slots else {})


def _ambiguous(keys: Mapping[str, str], whole: Sequence[Device]) -> str:
    try:
        match(declared(keys, None), whole)
    except IdentityError as exc:
        return exc.message
    return ""


def _stands_in(text: str, keys: Mapping[str, str]) -> bool:
    return any(re.search(rf"(?<![\w.:-]){re.escape(value)}(?![\w.:-])", text) for value in keys.values())


def _item(one: _Judged, entry: Mapping[str, Any]) -> list[str]:
    """The lines of one entry, without indentation; comments where something is against it."""
    device, kind = one.device, "spinning" if one.device.get("rotational") else "ssd"
    about = (device.get("model"), format_bytes(int(device["size"])), kind, device.get("transport"))
    said = ", ".join([*(str(text) for text in about if text), f"{device['path']} when it was found"])
    fields = [f"{key}: {value if isinstance(value, int) else json.dumps(value)}" for key, value in entry.items()]
    lines = [f"- {fields[0]}", *(f"  {field}" for field in fields[1:])]
    return [_comment(f"Not offered: {one.why}. {said}"), *map(_comment, lines)] if one.why else [_comment(said), *lines]


def _comment(text: str) -> str:
    return "# " + "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _joined(
    host: str, before: str, lines: Sequence[str], added: Sequence[Mapping[str, Any]], load: Callable[[str], Any]
) -> str:
    """The file with the lines at its end. What it says then is what it said, and the new entries: or it is refused."""
    if not before:
        return _head(host) + "".join(f"  {line}\n" for line in lines)
    old = load(before)
    listed = _LIST.search(before)
    indent = listed.group(1) if listed else ""
    text = before if before.endswith("\n") else f"{before}\n"
    text += "".join(f"{indent}{line}\n" for line in lines)
    if isinstance(old, Mapping) and isinstance(old.get(KEY), list) and listed:
        try:
            if load(text) == {**old, KEY: [*old[KEY], *added]}:
                return text
        except InputError:
            pass
    raise InputError(
        f"the disks of {host} cannot be added at the end of its file: expected a list {KEY}, written with dashes, as "
        f"the last thing there; nothing was changed. Add them by hand: {json.dumps([*added])}"
    )


_HEAD = """---
{host}
# Take out what berth must not have, and say what each disk is for. Another run adds disks that are not named here, be
# it in a comment, and changes nothing else.
"""


def _head(host: str) -> str:
    whose = _comment(f"The disks of {host}, as the playbook berth.stateful.discover found them.")
    return f"{_HEAD.format(host=whose)}{KEY}:\n"
