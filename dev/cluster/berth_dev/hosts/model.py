# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host and a disk are, and every name and number that follows from that. Pure: everything here calls this.

slot    a cluster's reservation on the machine: its subnet and its range of loop devices (see `slots`)
host    one namespace machine of a slot: address, pod subnet, own 32 loop devices
disk    one loop device of a host with an identity: serial number, WWN, model, path
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from ..errors import HostError

MODEL = "BERTH_DEV_DISK"
#: Of the IEEE: without one a world wide name is not taken for the disk's own.
VENDOR = "002538"
LOOPS_PER_HOST = 32
FIRST_LOOP, LAST_LOOP = 64, 2047  # of all slots together; a host's device cgroup denies this range but its own part
MAX_HOSTS = 20
MIB = 1 << 20
_DISK_NAME = re.compile(r"[a-z0-9][-a-z0-9]{0,30}")
_SIZE = re.compile(r"([0-9]{1,15})(Ki|Mi|Gi)?")
_UNITS = {None: 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


@dataclass(frozen=True)
class Slot:
    """A cluster's place on the machine. `octet`: its network is 10.<octet>.0.0/16; `first_loop`, `hosts`: its loops."""

    octet: int
    first_loop: int
    hosts: int

    @property
    def network(self) -> str:
        """Everything of this cluster: hosts and pods."""
        return f"10.{self.octet}.0.0/16"

    @property
    def pod_network(self) -> str:
        """All pods."""
        return f"10.{self.octet}.128.0/17"

    @property
    def gateway(self) -> str:
        """The machine's own address on the bridge."""
        return f"10.{self.octet}.0.1"

    @property
    def bridge(self) -> str:
        """The interface (at most 15 characters)."""
        return f"berth{self.octet}"

    @property
    def loops(self) -> range:
        """The loop devices that no one but this cluster may use."""
        return range(self.first_loop, self.first_loop + self.hosts * LOOPS_PER_HOST)


@dataclass(frozen=True)
class Host:
    """Host number `index` (from 1) of a slot."""

    name: str
    index: int
    slot: Slot

    @property
    def address(self) -> str:
        """Its address on the bridge, which is the node's InternalIP."""
        return f"10.{self.slot.octet}.0.{10 + self.index}"

    @property
    def pod_subnet(self) -> str:
        """Its pods' addresses."""
        return f"10.{self.slot.octet}.{128 + self.index}.0/24"

    @property
    def veth(self) -> str:
        """The machine's end of its cable."""
        return f"berth{self.slot.octet}h{self.index}"

    @property
    def process(self) -> str:
        """Its name among the cluster's processes."""
        return f"host-{self.name}"

    @property
    def loops(self) -> range:
        """Its loop devices: the first is the system disk, then 23 for disks, then 8 spares for raw block volumes."""
        first = self.slot.first_loop + (self.index - 1) * LOOPS_PER_HOST
        return range(first, first + LOOPS_PER_HOST)

    @property
    def disk_loops(self) -> range:
        """Where its disks are plugged in."""
        return self.loops[1:24]

    @property
    def spare_loops(self) -> range:
        """What kubelet takes for raw block volumes."""
        return self.loops[24:]


@dataclass(frozen=True)
class Disk:
    """A disk as it is in a host's drawer. `size` in bytes; `loop` where it is (or was last) plugged in."""

    name: str
    size: int
    loop: int
    serial: str
    wwn: str
    plugged: bool = True
    broken: bool = False

    def identity(self) -> dict[str, Any]:
        """What the host's inside sees of it: the properties that udev would read from a real disk's firmware."""
        properties = {
            "ID_MODEL": MODEL,
            "ID_SERIAL": self.serial,
            "ID_SERIAL_SHORT": self.serial,
            "ID_WWN": self.wwn,
            "ID_PATH": self.path,
            "ID_PATH_TAG": self.path.replace(".", "_"),
        }
        links = [f"disk/by-id/{self.serial}", f"disk/by-id/wwn-{self.wwn}", f"disk/by-path/{self.path}"]
        return {"loop": self.loop, "properties": properties, "links": links}

    @property
    def path(self) -> str:
        """The name of its slot in the machine, as ID_PATH has it."""
        return f"berth-slot-{self.loop}"


def new_disk(cluster: str, token: str, host: Host, name: str, size: int, loop: int) -> Disk:
    """A disk with its identity: the serial number is readable, the WWN comes from the cluster's unique token.

    The WWN has the form of an IEEE registered (NAA 5) name: 0x5, the number of a vendor, 9 hexadecimal digits.
    """
    digest = hashlib.sha256(f"{token}/{host.name}/{name}".encode()).hexdigest()
    return Disk(name, size, loop, f"BERTH-{cluster}-{host.name}-{name}", f"0x5{VENDOR}{digest[:9]}")


def default_disks(index: int) -> dict[str, int]:
    """Name and size in bytes of the disks that a new host has: no two alike, in a host or between hosts."""
    return {f"d{k}": (256 + 128 * k + 16 * (index - 1)) * MIB for k in range(3)}


def parse_size(text: str | int) -> int:
    """Bytes of '256Mi', '1Gi' or a plain number. HostError for anything else, for less than 1 MiB or over 1 TiB."""
    match = _SIZE.fullmatch(str(text))
    if not match:
        raise HostError(f"disk size {text!r}: expected a whole number with Ki, Mi or Gi, such as 512Mi")
    size = int(match[1]) * _UNITS[match[2]]
    if not MIB <= size <= 1 << 40:
        raise HostError(f"disk size {text!r}: expected 1Mi to 1024Gi")
    return size


def checked_host_names(count: int) -> list[str]:
    """Names of `count` hosts: h1, h2, ..."""
    if not 0 <= count <= MAX_HOSTS:
        raise HostError(f"hosts {count}: expected 0 to {MAX_HOSTS}; use fake nodes for more")
    return [f"h{i}" for i in range(1, count + 1)]


def checked_disk_name(name: str) -> str:
    """The name itself, when it can be part of a serial number and of a file name."""
    if not _DISK_NAME.fullmatch(name) or name == "system":
        raise HostError(f"disk name {name!r}: expected lower-case letters, digits and '-', at most 31, not 'system'")
    return name
