# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the virtual machine was asked to be, and its files. `vm` and `drives` call this; it starts nothing.

<cluster's folder>/data/vm/vm.json        its name, port and disks: written last, so that all is there or nothing
                           root.qcow2     what it wrote on its root disk, over the cached image
                           disks/*.img    its disks (sparse); kept when one is pulled out
                           console.log    what its kernel says
"""

from __future__ import annotations

import json
import secrets
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..control_plane import free_port
from ..errors import HostError
from ..hosts.ssh import public
from ..state import write_atomically
from . import command, cpio, image, model
from .link import HOST_KEY, USER_KEY, Link
from .model import VmDisk

NAME = "vm"


@dataclass(frozen=True)
class VmSpec:
    """What is kept in vm.json. `token`: what identities of disks are made of; also the machine's id."""

    name: str
    port: int
    image: str
    token: str
    disks: tuple[VmDisk, ...]
    memory_mib: int = model.MEMORY_MIB


class Store:
    """The machine's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path / "vm.json"

    def exists(self) -> bool:
        """Whether a machine has been made."""
        return self._file.exists()

    @property
    def spec(self) -> VmSpec:
        """What it is. HostError when there is none."""
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise HostError(f"{self.path}: there is no virtual machine; `berth-dev vm up` makes one") from None
        return VmSpec(**{**known, "disks": tuple(VmDisk(**disk) for disk in known["disks"])})

    def save(self, spec: VmSpec) -> None:
        """Write it down, as one step."""
        write_atomically(self._file, json.dumps(asdict(spec), indent=1))

    def disk(self, name: str) -> VmDisk:
        """The disk of that name. HostError with the names there are."""
        disks = {disk.name: disk for disk in self.spec.disks}
        if name not in disks:
            raise HostError(f"virtual machine: has no disk {name!r}; it has {', '.join(disks) or 'none'}")
        return disks[name]

    def change(self, name: str, **fields: Any) -> VmDisk:
        """The disk with these fields changed, written down."""
        disk, spec = replace(self.disk(name), **fields), self.spec
        self.save(replace(spec, disks=tuple(disk if old.name == name else old for old in spec.disks)))
        return disk

    def make_file(self, disk: VmDisk) -> None:
        """The empty file of a new disk."""
        with open(self.path / command.disk_file(disk), "xb") as stream:
            stream.truncate(disk.size)

    def create(self, system: Path, tag: str) -> None:
        """Make the machine over the `image` in that folder. What a killed start has left half-made is made again."""
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / "disks").mkdir(mode=0o700, parents=True)
        token = secrets.token_hex(16)
        spec = VmSpec(NAME, free_port(), str(system), token, tuple(model.default_disks(token)))
        for disk in spec.disks:
            self.make_file(disk)
        image.make_overlay(system, self.path / command.ROOT_DISK)
        Link(self.path, spec.port, tag).prepare()
        _write_private(self.path / command.INITRD, (system / "initrd").read_bytes() + self._own_archive(spec))
        self.save(spec)

    def _own_archive(self, spec: VmSpec) -> bytes:
        """What belongs to this machine alone: it goes behind the image's initrd."""
        over, host_key = image.OVERLAY, self.path / HOST_KEY
        folders = [("etc", 0o755), ("etc/ssh", 0o755), ("root", 0o700), ("root/.ssh", 0o700)]
        entries = [
            *(cpio.folder(f"{over}/{path}", mode) for path, mode in folders),
            cpio.file(f"{over}/etc/hostname", f"{spec.name}\n"),
            cpio.file(f"{over}/etc/hosts", f"127.0.0.1 localhost\n10.0.2.15 {spec.name}\n"),
            cpio.file(f"{over}/etc/machine-id", f"{spec.token}\n", 0o444),
            cpio.file(f"{over}/etc/ssh/berth_host_key", host_key.read_bytes(), 0o600),
            cpio.file(f"{over}/root/.ssh/authorized_keys", f"{public(self.path / USER_KEY)}\n", 0o600),
        ]
        return cpio.archive(entries)


def _write_private(path: Path, data: bytes) -> None:
    """A file that holds a key."""
    path.touch(mode=0o600)
    path.write_bytes(data)
