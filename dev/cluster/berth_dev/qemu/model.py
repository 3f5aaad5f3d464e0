# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the virtual machine and its disks are, and every name and number that follows from that. Pure.

bay     one of eight PCIe slots, each behind its own root port; a disk's place (and its by-path link) is its bay
disk    a file of this machine that the guest sees as an NVMe drive, or as a SCSI drive behind a controller of its own
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ..errors import HostError

Bus = Literal["nvme", "scsi"]
Errors = Literal["none", "read", "write", "all"]
BAYS = range(8)
MEMORY_MIB = 1024
MIB = 1 << 20
_FIRST_ADDRESS = 8  # of the root ports on the first PCI bus; QEMU's own devices are below
_NAME = re.compile(r"[a-z0-9]{1,15}")
# SCSI takes 36 characters and NVMe 20; both are printable ASCII. A comma would end an argument of QEMU.
_SERIAL = re.compile(r"[A-Za-z0-9._-]{1,20}")
_WWN = re.compile(r"0x[0-9a-f]{16}")
_EIO = 5


@dataclass(frozen=True)
class VmDisk:
    """One disk. `size` in bytes; `wwn` only of SCSI (QEMU makes that of NVMe of the serial number);
    `critical`: the byte "critical warning" of an NVMe drive's SMART log; `errors`: which accesses fail."""

    name: str
    bus: Bus
    size: int
    bay: int
    serial: str
    wwn: str = ""
    rotational: bool = False
    plugged: bool = True
    critical: int = 0
    errors: Errors = "none"

    @property
    def device(self) -> str:
        """The drive's id in QEMU."""
        return f"dev-{self.name}"

    @property
    def node(self) -> str:
        """The id of the block node that the drive reads and writes."""
        return f"disk-{self.name}"

    @property
    def port(self) -> str:
        """The root port of its bay."""
        return port(self.bay)

    @property
    def controller(self) -> str:
        """The SCSI controller in its bay."""
        return f"hba{self.bay}"


def port(bay: int) -> str:
    """The id of a bay's root port."""
    return f"bay{bay}"


def port_address(bay: int) -> str:
    """Where that root port is on the first PCI bus."""
    return hex(_FIRST_ADDRESS + bay)


def new_disk(token: str, name: str, bus: str, size: int, bay: int, wished: Mapping[str, Any]) -> VmDisk:
    """A disk with an identity of its own, or with the `serial`, `wwn` and `rotational` that are wished for.

    Two disks may be given the same serial and WWN, and a SCSI disk none ("" for both): that is what some cheap drives
    do. HostError for anything that QEMU or the drive would not take.
    """
    digest = hashlib.sha256(f"{token}/{name}".encode()).hexdigest()
    given = {key: value for key, value in wished.items() if value is not None}
    serial = given.get("serial", f"BERTH{digest[:6].upper()}{name}"[:20])
    wwn = given.get("wwn", f"0x5{digest[:15]}" if bus == "scsi" else "")
    if not _NAME.fullmatch(name):
        raise HostError(f"disk name {name!r}: expected lower-case letters and digits, at most 15")
    if bus not in get_args(Bus):
        raise HostError(f"disk {name}: bus {bus!r}: expected nvme or scsi")
    if not _SERIAL.fullmatch(serial) and (serial or bus == "nvme"):
        raise HostError(f"disk {name}: serial {serial!r}: expected 1 to 20 letters, digits, '.', '_' or '-'")
    if wwn and bus == "nvme":
        raise HostError(f"disk {name}: an NVMe drive's WWN is made of its serial number; leave it out")
    if wwn and not _WWN.fullmatch(wwn):
        raise HostError(f"disk {name}: WWN {wwn!r}: expected 0x and 16 hexadecimal digits")
    checked: Bus = "nvme" if bus == "nvme" else "scsi"
    return VmDisk(name, checked, size, bay, serial, wwn, bool(wished.get("rotational")))


def default_disks(token: str) -> list[VmDisk]:
    """What a new machine has: two NVMe drives, a SCSI solid state drive and a SCSI hard disk, no two of one size."""
    return [
        new_disk(token, "n0", "nvme", 512 * MIB, 0, {}),
        new_disk(token, "n1", "nvme", 576 * MIB, 1, {}),
        new_disk(token, "s0", "scsi", 640 * MIB, 2, {}),
        new_disk(token, "s1", "scsi", 704 * MIB, 3, {"rotational": True}),
    ]


def free_bay(disks: Iterable[VmDisk]) -> int:
    """The first bay that no disk has, a disk that is pulled out included: it comes back to its own."""
    taken = {disk.bay for disk in disks}
    found = next((bay for bay in BAYS if bay not in taken), None)
    if found is None:
        raise HostError(f"no bay is free: the machine has {len(BAYS)} of them, and a disk for each")
    return found


def swapped(disks: Collection[VmDisk], one: str, other: str) -> list[VmDisk]:
    """Both disks in each other's bay: the kernel finds, and names, them in the other order."""
    bays = {disk.name: disk.bay for disk in disks}
    exchanged = {**bays, one: bays[other], other: bays[one]}
    return [replace(disk, bay=exchanged[disk.name]) for disk in disks]


def file_name(disk: VmDisk) -> str:
    """The id of the block node of its file."""
    return f"file-{disk.name}"


def fault_name(disk: VmDisk) -> str:
    """The id of the block node that makes errors, while there is one."""
    return f"fault-{disk.name}"


def block_nodes(disk: VmDisk, file: str) -> list[dict[str, Any]]:
    """The chain of block nodes of a disk, lowest first: the file, errors if there are to be some, the top."""
    base = {"driver": "file", "node-name": file_name(disk), "filename": file, "discard": "unmap"}
    chain: list[dict[str, Any]] = [base]
    if disk.errors != "none":
        chain.append(fault_node(disk))
    return [*chain, top_node(disk, chain[-1]["node-name"])]


def fault_node(disk: VmDisk) -> dict[str, Any]:
    """The node that fails accesses with EIO. Flushes pass: a failed one cannot be healed."""
    kinds = ("read", "write") if disk.errors == "all" else (disk.errors,)
    rules = [{"event": "none", "iotype": kind, "errno": _EIO, "once": False, "immediately": True} for kind in kinds]
    return {"driver": "blkdebug", "node-name": fault_name(disk), "image": file_name(disk), "inject-error": rules}


def top_node(disk: VmDisk, below: str) -> dict[str, Any]:
    """The node that the drive stands on, over `below`."""
    return {"driver": "raw", "node-name": disk.node, "file": below, "discard": "unmap"}


def devices(disk: VmDisk) -> list[dict[str, Any]]:
    """What is plugged in for a disk, in order: with SCSI, the bay's controller first."""
    if disk.bus == "nvme":
        return [{"driver": "nvme", "id": disk.device, "bus": disk.port, "drive": disk.node, "serial": disk.serial}]
    drive = {
        "driver": "scsi-hd",
        "id": disk.device,
        "bus": f"{disk.controller}.0",
        "drive": disk.node,
        **({"serial": disk.serial} if disk.serial else {}),
        **({"wwn": int(disk.wwn, 16)} if disk.wwn else {}),
        "rotation_rate": 7200 if disk.rotational else 1,
        "vendor": "BERTH",
        "product": "VIRTUAL HDD" if disk.rotational else "VIRTUAL SSD",
    }
    return [{"driver": "virtio-scsi-pci", "id": disk.controller, "bus": disk.port}, drive]
