# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every block device of this host as one flat, sorted list of records: what block_device_info returns.

Called by block_device_info, and by disk_filesystem just before it touches a disk. A record's shape is RECORD of
plugins/modules/block_device_info.py. Reads only; what a disk may be used for is said in `refusals`, decided in
disk_plan.
"""

from __future__ import annotations

import os
import re
from typing import Any

from .kernel_words import Words, read_words
from .machine import Machine
from .mounts import Mount, is_partly_mounted, mount_points, read_mounts, read_swaps, system_devices
from .probes import FILESYSTEM_FACTS, Signature, Udev, read_lsblk, read_signature, read_udev
from .refusals import refusals

SECTOR = 512
#: Not disks at all: memory, floppies, optical drives, and the kernel's own test devices.
_NEVER = re.compile(r"^(ram|zram|fd|sr|scd|nullb|mtdblock|nbd)\d")
_DIGITS = re.compile(r"(\d+)")
_IDENTITY = ("wwn", "serial", "model", "vendor", "transport")
#: The kernel's word for a disk's state (SCSI, NVMe) that answers.
_ALIVE = ("running", "live")
_DYING = ("offline", "transport-offline", "blocked", "dead", "deleting", "deleting (no IO)")

Record = dict[str, Any]


class Survey:
    """One look at the host: what does not depend on the single device is read once."""

    def __init__(self, machine: Machine, probe: bool | None = None) -> None:
        self.machine = machine
        self.mounts: list[Mount] = read_mounts(machine)
        self.swaps = read_swaps(machine)
        self.system = system_devices(machine, self.mounts)
        self.lsblk = read_lsblk(machine)
        self.probe = (machine.is_running and os.geteuid() == 0) if probe is None else probe

    def records(self) -> list[Record]:
        """Whole devices and partitions, sorted by name as people sort (sda2 before sda10)."""
        found: dict[str, Record] = {}
        for name in self.machine.names("/sys/block"):
            if not _NEVER.match(name) and not self._is_idle_loop(name):
                record = self._record(name, f"/sys/block/{name}", "")
                found[name] = record
                for part in record["partitions"]:
                    found[part] = self._record(part, f"/sys/block/{name}/{part}", name)
        for record in found.values():
            _look_below(record, found)
        for record in found.values():
            record["refusals"] = refusals(record, found)
            record["usable"] = not record["refusals"]
        return sorted(found.values(), key=lambda record: _natural(str(record["name"])))

    def _is_idle_loop(self, name: str) -> bool:
        return name.startswith("loop") and not self.machine.read(f"/sys/block/{name}/loop/backing_file")

    def _record(self, name: str, folder: str, parent: str) -> Record:
        machine = self.machine
        number = machine.read(f"{folder}/dev")
        words = Words("", "", frozenset()) if parent else read_words(machine, folder)
        udev, lsblk = self._of_this_disk(name, number, words)
        path = "/dev/" + name.replace("!", "/")
        record: Record = {
            "name": name,
            "path": path,
            "number": number,
            "type": "part" if parent else self._type(name, folder),
            "parent": parent,
            "by_id": [link[len("disk/by-id/") :] for link in udev.links if link.startswith("disk/by-id/")],
            "by_path": [link[len("disk/by-path/") :] for link in udev.links if link.startswith("disk/by-path/")],
            "size": machine.number(f"{folder}/size") * SECTOR,
            "rotational": machine.read(f"/sys/block/{parent or name}/queue/rotational") == "1",
            "removable": machine.read(f"/sys/block/{parent or name}/removable") == "1",
            "read_only": machine.read(f"{folder}/ro") == "1",
            "partitions": []
            if parent
            else [sub for sub in machine.names(folder) if machine.exists(f"{folder}/{sub}/partition")],
            "mounts": mount_points(self.mounts, number),
            "partly_mounted": is_partly_mounted(self.mounts, number),
            "holders": machine.names(f"{folder}/holders"),
            "slaves": machine.names(f"{folder}/slaves"),
            "swap": number in self.swaps,
            "is_system": number in self.system,
        }
        record["partitions"].sort(key=_natural)
        record["kernel"] = words.facts(0 if parent else machine.number(f"{folder}/diskseq"))
        record.update(self._identity(folder, parent, words, udev.facts, lsblk))
        signature = self._signature(path, udev.facts, lsblk)
        record.update({key: signature.facts.get(key, "") for key in FILESYSTEM_FACTS})
        record["health"], record["problem"] = self._health(parent or name, signature, record["size"])
        return record

    def _type(self, name: str, folder: str) -> str:
        """lsblk's names: disk, loop, lvm, crypt, mpath, dm, raid1 ..."""
        uuid = self.machine.read(f"{folder}/dm/uuid")
        if name.startswith("dm-"):
            return uuid.partition("-")[0].lower() or "dm"
        if self.machine.exists(f"{folder}/md"):
            return self.machine.read(f"{folder}/md/level") or "md"
        return "loop" if name.startswith("loop") else "disk"

    def _of_this_disk(self, name: str, number: str, words: Words) -> tuple[Udev, dict[str, str]]:
        """What udev and lsblk, which repeats it, have on record; nothing where that is of another disk."""
        udev = read_udev(self.machine, number)
        if words.contradict(udev.facts):
            return Udev({}, []), {}
        return udev, self.lsblk.get(name, {})

    def _identity(self, folder: str, parent: str, words: Words, udev: dict[str, str], lsblk: dict[str, str]) -> Record:
        """udev's words, then lsblk's, then the kernel's attributes. A partition's would be its disk's: left empty."""
        if parent:
            return {**dict.fromkeys(_IDENTITY, ""), "transport": udev.get("transport", "")}
        read = self.machine.read
        kernel = {"wwn": words.wwid, "serial": words.serial}
        kernel |= {"model": read(f"{folder}/device/model"), "vendor": read(f"{folder}/device/vendor")}
        return {key: udev.get(key) or lsblk.get(key) or " ".join(kernel.get(key, "").split()) for key in _IDENTITY}

    def _signature(self, path: str, udev: dict[str, str], lsblk: dict[str, str]) -> Signature:
        """udev's word, then blkid's, then lsblk's. "Blank" is said only where somebody has looked."""
        for known in (udev, lsblk if not self.probe else {}):
            if any(known.get(key) for key in FILESYSTEM_FACTS):
                return Signature(known)
        if self.probe:
            return read_signature(self.machine, path)
        looked = any(udev.values())
        return Signature({}, "" if looked else "nobody has looked for signatures: run as root", denied=not looked)

    def _health(self, disk: str, signature: Signature, size: int) -> tuple[str, str]:
        """Healthy, Faulted or Unknown, and what is wrong."""
        state = self.machine.read(f"/sys/block/{disk}/device/state")
        if state in _DYING:
            return "Faulted", f"the kernel calls it {state}"
        if not size:
            return "Faulted", "it has no size: no medium, or a device that does not answer"
        if signature.problem:
            return ("Unknown" if signature.denied else "Faulted"), signature.problem
        return ("Healthy" if self.probe or state in _ALIVE else "Unknown"), ""


def survey(machine: Machine | None = None, probe: bool | None = None) -> list[Record]:
    """Look at this host (or at the tree of another one)."""
    return Survey(machine or Machine(), probe).records()


def _look_below(record: Record, found: dict[str, Record]) -> None:
    """A disk is the system's when any of its partitions, or anything built on it, is."""
    queue, seen = [record["name"]], set()
    while queue:
        name = queue.pop()
        if name in seen or name not in found:
            continue
        seen.add(name)
        queue.extend([*found[name]["partitions"], *found[name]["holders"]])
    below = [found[name] for name in seen]
    record["is_system"] = any(each["is_system"] or each["swap"] for each in below)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name) if part]
