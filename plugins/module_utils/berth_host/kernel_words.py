# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel itself says of a disk: its world wide names, its serial number, and the kernel's count of disks.

Called by block_devices, which believes udev's database only where it does not contradict the kernel: an entry may be
of a disk that had the same number before. Called again for the device that is open (`opened`). Reads only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .machine import Machine

#: What a name of the whole world begins with in the kernel's spelling; "t10." is made of model and serial number.
_WORLD_WIDE = re.compile(r"^(naa\.|eui\.|uuid\.|nvme\.|0x)")
_NOT_A_SIGN = re.compile(r"[^0-9a-z]+")
#: SCSI, SPC-5 7.7.6.1: association (0: the logical unit) and type of a designator, code set of its text.
_ASSOCIATION, _TYPE = 0x30, 0x0F
_T10, _EUI64, _NAA, _NAME = 1, 2, 3, 8
_PAGE = 4096


class Words(NamedTuple):
    """``names``: every name that the disk itself gives, in one spelling; a SCSI disk has several."""

    wwid: str
    serial: str
    names: frozenset[str]
    is_usb: bool = False

    def contradict(self, udev: Mapping[str, str]) -> bool:
        """Whether udev's facts are of another disk. What the kernel cannot say contradicts nothing."""
        return not (self._has_name(udev.get("wwn", "")) and self._has_serial(udev.get("serial", "")))

    def facts(self, diskseq: int) -> dict[str, Any]:
        """What is compared once more when the device is open: ``wwid``, ``serial``, ``diskseq``, those that there are.

        ``diskseq`` grows with each disk that the kernel finds, and with each medium: one disk in one place.
        """
        facts = {"wwid": self.wwid, "serial": self.serial, "diskseq": diskseq}
        return {key: value for key, value in facts.items() if value}

    def _has_name(self, wwn: str) -> bool:
        given = _plain(_WORLD_WIDE.sub("", wwn.strip().lower()))
        comparable = [name for name in self.names if "_" not in name]
        # udev's shorter form of a long name is its beginning.
        return not given or not comparable or any(name.startswith(given) for name in comparable)

    def _has_serial(self, serial: str) -> bool:
        given = _plain(serial)
        # A bridge on USB has a number of its own, which is udev's.
        if not given or not self.serial or self.is_usb:
            return True
        # udev may put the model before it; and a SCSI disk's is sometimes one of its names, with its type before it.
        if f"_{_plain(self.serial)}_" in f"_{given}_":
            return True
        return any(given in (name, f"2{name}", f"3{name}") or f"_{given}_" in f"_{name}_" for name in self.names)


def read_words(machine: Machine, folder: str) -> Words:
    """Of a whole disk; ``folder``: /sys/block/NAME or /sys/dev/block/MAJOR:MINOR. Empty where the kernel is silent."""
    wwid = machine.read(f"{folder}/device/wwid") or machine.read(f"{folder}/wwid")
    serial = machine.read(f"{folder}/device/serial") or machine.read(f"{folder}/serial") or _page_80(machine, folder)
    names = set(_page_83(machine, folder))
    if _WORLD_WIDE.match(wwid):
        names.add(_plain(_WORLD_WIDE.sub("", wwid.lower())))
    is_usb = "/usb" in os.path.realpath(machine.path(folder))
    return Words(" ".join(wwid.split()), " ".join(serial.split()), frozenset(names), is_usb)


def _page_80(machine: Machine, folder: str) -> str:
    """The serial number of a SCSI disk, also of one behind a translation layer (SATA)."""
    page = machine.read_bytes(f"{folder}/device/vpd_pg80", _PAGE)
    return page[4 : 4 + int.from_bytes(page[2:4], "big")].decode("ascii", "replace").strip(" \0")


def _page_83(machine: Machine, folder: str) -> Iterator[str]:
    """The names of a SCSI disk's logical unit: the kernel and udev may each prefer another one."""
    page = machine.read_bytes(f"{folder}/device/vpd_pg83", _PAGE)
    at, end = 4, min(len(page), 4 + int.from_bytes(page[2:4], "big"))
    while at + 4 <= end:
        head, data = page[at : at + 4], page[at + 4 : at + 4 + page[at + 3]]
        at += 4 + head[3]
        kind = head[1] & _TYPE
        if head[1] & _ASSOCIATION or not data:
            continue
        if kind in (_EUI64, _NAA):
            yield data.hex()
        elif kind in (_T10, _NAME):
            yield _plain(_WORLD_WIDE.sub("", data.decode("utf-8", "replace").lower()))


def _plain(text: str) -> str:
    """Letters and digits, everything else as one underscore: udev replaces what it does not like."""
    return _NOT_A_SIGN.sub("_", text.lower()).strip("_")
