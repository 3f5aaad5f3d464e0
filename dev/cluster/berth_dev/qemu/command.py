# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of QEMU. `vm` calls this. Pure.

Software emulation only, so that the same machine comes up everywhere. One core: two wait for each other, for very long
where this machine is busy. The guest's network is QEMU's own: it reaches this machine's loopback as 10.0.2.2, and is
reached by ssh alone, from this machine alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..components import LOOPBACK
from . import model
from .model import VmDisk

PROGRAM = "qemu-system-x86_64"
#: Two: when a client has gone, QEMU now and then takes no other one on that socket any more.
QMP_SOCKETS = ("qmp.sock", "qmp-spare.sock")
CONSOLE = "console.log"
ROOT_DISK = "root.qcow2"
INITRD = "initrd"
#: A plain processor (x86-64-v2). With the best one that QEMU can emulate libc and the kernel choose AVX and five levels
#: of page tables, which emulation makes slow: a start takes a third more.
CPU = "Nehalem"
KERNEL_LINE = (
    "console=ttyS0 root=/dev/vda rw quiet mitigations=off net.ifnames=0 random.trust_cpu=on nvme_core.multipath=N"
    " systemd.show_status=0"
)


def command(program: str, kernel: Path, memory_mib: int, ssh_port: int, disks: Iterable[VmDisk]) -> list[str]:
    """To be run in the machine's folder, where its root disk, its initrd and the folder `disks` are."""
    plugged = [disk for disk in disks if disk.plugged]
    return [
        *(program, "-name", "berth", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-M", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", CPU, "-smp", "1", "-m", str(memory_mib)),
        *("-kernel", str(kernel), "-initrd", INITRD, "-append", KERNEL_LINE),
        *("-serial", f"file:{CONSOLE}"),
        *(argument for name in QMP_SOCKETS for argument in ("-qmp", f"unix:{name},server=on,wait=off")),
        *("-netdev", f"user,id=net,hostfwd=tcp:{LOOPBACK}:{ssh_port}-:22"),
        *_device({"driver": "virtio-net-pci", "netdev": "net"}),
        *_device({"driver": "virtio-rng-pci"}),
        *_blockdev({"driver": "file", "node-name": "root-file", "filename": ROOT_DISK}),
        *_blockdev({"driver": "qcow2", "node-name": "root", "file": "root-file"}),
        *_device({"driver": "virtio-blk-pci", "drive": "root"}),
        *(argument for bay in model.BAYS for argument in _root_port(bay)),
        *(argument for disk in plugged for argument in _disk(disk)),
    ]


def disk_file(disk: VmDisk) -> str:
    """The file of a disk, in the machine's folder."""
    return f"disks/{disk.name}.img"


def _root_port(bay: int) -> list[str]:
    place = {"bus": "pcie.0", "addr": model.port_address(bay), "chassis": bay + 1, "slot": bay + 1}
    return _device({"driver": "pcie-root-port", "id": model.port(bay), **place})


def _disk(disk: VmDisk) -> list[str]:
    nodes = [argument for node in model.block_nodes(disk, disk_file(disk)) for argument in _blockdev(node)]
    return [*nodes, *(argument for device in model.devices(disk) for argument in _device(device))]


def _device(properties: Mapping[str, Any]) -> list[str]:
    return ["-device", json.dumps(properties)]


def _blockdev(node: Mapping[str, Any]) -> list[str]:
    return ["-blockdev", json.dumps(node)]
