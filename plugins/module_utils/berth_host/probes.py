# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What udev, lsblk and blkid know about a block device. Readers only; blkid is asked where udev has nothing to say.

Called by block_devices and disk_filesystem. udev's words win over lsblk's: lsblk repeats them, or guesses where udev is
silent. The kernel's win over both (kernel_words).
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .core import DATA, StateError
from .machine import Machine

_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")
#: Which property names the fact; the first that is there wins. The order is lsblk's, so that both show the same.
_PROPERTIES = {
    "wwn": ("ID_WWN_WITH_EXTENSION", "ID_WWN"),
    "serial": ("SCSI_IDENT_SERIAL", "ID_SCSI_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL"),
    "model": ("ID_MODEL_ENC", "ID_MODEL"),
    "vendor": ("ID_VENDOR_ENC", "ID_VENDOR"),
    "fstype": ("ID_FS_TYPE",),
    "fsuuid": ("ID_FS_UUID_ENC", "ID_FS_UUID"),
    "label": ("ID_FS_LABEL_ENC", "ID_FS_LABEL"),
    "pttype": ("ID_PART_TABLE_TYPE",),
    "transport": ("ID_BUS",),
}
_COLUMNS = {
    "wwn": "wwn",
    "serial": "serial",
    "model": "model",
    "vendor": "vendor",
    "fstype": "fstype",
    "fsuuid": "uuid",
    "label": "label",
    "pttype": "pttype",
    "transport": "tran",
}
FILESYSTEM_FACTS = ("fstype", "fsuuid", "label", "pttype")
_BLKID = {"TYPE": "fstype", "UUID": "fsuuid", "LABEL": "label", "PTTYPE": "pttype"}
#: blkid's exit status: nothing recognised; several signatures that contradict each other.
_NOTHING = 2
_AMBIVALENT = 8
#: What is looked at of a device without any signature, at both ends. A wipe leaves zeros there.
END = 64 << 10
#: The type of a device on which several signatures contradict each other.
AMBIVALENT = "ambivalent"


class Udev(NamedTuple):
    """One entry of udev's database: facts by berth's names, and links below /dev."""

    facts: dict[str, str]
    links: list[str]


class Signature(NamedTuple):
    """What is written on a device. ``problem``: why it could not be read; ``denied``: the caller was not allowed to."""

    facts: dict[str, str]
    problem: str = ""
    denied: bool = False


def read_udev(machine: Machine, number: str) -> Udev:
    """The entry of a device (``major:minor``); empty where udev does not run or does not know it."""
    properties: dict[str, str] = {}
    links = []
    for line in machine.read(f"/run/udev/data/b{number}").splitlines():
        kind, _sep, value = line.partition(":")
        if kind == "E":
            key, _sep, text = value.partition("=")
            properties[key] = text
        elif kind == "S":
            links.append(value)
    facts = {}
    for fact, names in _PROPERTIES.items():
        raw = next((properties[name] for name in names if properties.get(name)), "")
        facts[fact] = _clean(_ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), raw))
    return Udev(facts, sorted(links))


def read_lsblk(machine: Machine) -> dict[str, dict[str, str]]:
    """The facts of every device by kernel name; empty where lsblk is not there."""
    answer = machine.run(["lsblk", "--json", "--bytes", "--output-all"])
    try:
        tree = json.loads(answer.out).get("blockdevices", []) if answer.status == 0 else []
    except ValueError:
        tree = []
    found: dict[str, dict[str, str]] = {}
    queue = list(tree)
    while queue:
        row = queue.pop()
        queue.extend(row.get("children") or [])
        found[str(row.get("kname") or row.get("name"))] = _row(row)
    return found


def read_signature(machine: Machine, path: str) -> Signature:
    """What the device itself says (``blkid -p``: a few kilobytes are read, nothing is written, no cache is used)."""
    answer = machine.run(["blkid", "-p", "-o", "export", path])
    if answer.status == _NOTHING:  # also its answer for a device that cannot be read at all: so look without it
        return _without_signature(machine, path)
    if answer.status == _AMBIVALENT:
        return Signature({"fstype": AMBIVALENT})
    if answer.status != 0:
        return Signature({}, answer.why())
    facts = {}
    for line in answer.out.splitlines():
        key, _sep, value = line.partition("=")
        if key in _BLKID:
            facts[_BLKID[key]] = _clean(value)
    return Signature(facts)


def ends_digest(machine: Machine, path: str) -> str:
    """What is at both ends of a device, in few signs: "blank", or a hash. Raises StateError."""
    try:
        ends = _read_ends(machine, path)
    except OSError as exc:
        raise StateError(f"{path} cannot be read: {exc.strerror}") from exc
    return f"sha256:{hashlib.sha256(b''.join(ends)).hexdigest()[:32]}" if any(map(any, ends)) else "blank"


def _read_ends(machine: Machine, path: str) -> list[bytes]:
    with open(machine.path(path), "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        return [_read(file, offset) for offset in (0, max(0, size - END))]


def _without_signature(machine: Machine, path: str) -> Signature:
    """A blank device, when both its ends are zeros; else data that blkid does not know, as that of a raw volume."""
    try:
        ends = _read_ends(machine, path)
    except OSError as exc:
        return Signature({}, f"{path} cannot be read: {exc.strerror}", exc.errno in (errno.EPERM, errno.EACCES))
    if not ends[0]:
        return Signature({}, f"{path} gives no data")
    return Signature({"fstype": DATA} if any(map(any, ends)) else {})


def _read(file: io.FileIO, offset: int) -> bytes:
    file.seek(offset)
    return file.read(END) or b""


def _row(row: Mapping[str, Any]) -> dict[str, str]:
    return {fact: _clean(str(row.get(column) or "")) for fact, column in _COLUMNS.items()}


def _clean(text: str) -> str:
    """One line of printable characters: these words come from a device, and end up in terminals and objects."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
