# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of the virtual machine: plugged in and pulled out, swapped, failing. `vm` has one `Drives`.

Every change is written down first, so that the next start sees what was asked for; then the running machine, if it
runs, is told over its control socket. Nothing here changes what is on a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..errors import HostError
from . import command, model
from .model import Errors, VmDisk
from .qmp import Qmp
from .store import Store


class Drives:
    """`connect`: the control socket of the running machine; None while it is off."""

    def __init__(self, store: Store, connect: Callable[[], Qmp | None]) -> None:
        self._store, self._connect = store, connect

    def get(self, name: str) -> VmDisk:
        """The disk of that name. HostError with the names there are."""
        return self._store.disk(name)

    def add(self, name: str, bus: str = "nvme", size: int = 512 * model.MIB, **wished: Any) -> VmDisk:
        """Plug in a new disk, with the `serial`, `wwn` and `rotational` that are wished for. HostError says why not."""
        spec = self._store.spec
        if any(disk.name == name for disk in spec.disks):
            raise HostError(f"virtual machine: there is a disk {name} already; `plug` brings back what was pulled out")
        disk = model.new_disk(spec.token, name, bus, size, model.free_bay(spec.disks), wished)
        self._store.make_file(disk)
        self._store.save(replace(spec, disks=(*spec.disks, disk)))
        self._attach(disk)
        return disk

    def plug(self, name: str) -> VmDisk:
        """Bring a disk back into its bay, with its data."""
        if self.get(name).plugged:
            raise HostError(f"virtual machine: disk {name} is plugged in already")
        disk = self._store.change(name, plugged=True)
        self._attach(disk)
        return disk

    def pull(self, name: str) -> VmDisk:
        """Take a disk out, whoever uses it. Its data stays in its file."""
        if not self.get(name).plugged:
            raise HostError(f"virtual machine: disk {name} is not plugged in")
        disk = self._store.change(name, plugged=False)
        qmp = self._connect()
        if qmp is None:
            return disk
        with qmp:
            for device in reversed(model.devices(disk)):
                qmp.do("device_del", id=device["id"])
                qmp.wait("DEVICE_DELETED", device=device["id"])
            for node in reversed(model.block_nodes(disk, "")):
                qmp.do("blockdev-del", **{"node-name": node["node-name"]})
        return disk

    def discard(self, name: str) -> None:
        """Throw away a disk that is pulled out, and all that is on it."""
        disk, spec = self.get(name), self._store.spec
        if disk.plugged:
            raise HostError(f"virtual machine: disk {name} is plugged in; pull it out first")
        self._store.save(replace(spec, disks=tuple(other for other in spec.disks if other != disk)))
        (self._store.path / command.disk_file(disk)).unlink()

    def swap(self, one: str, other: str) -> None:
        """Two disks change their bays. Only while both are out, or the machine is off."""
        disks = self.get(one), self.get(other)
        if any(disk.plugged for disk in disks) and self._runs():
            raise HostError(
                f"virtual machine: {one} and {other} change bays only while both are out, or while it is off"
            )
        spec = self._store.spec
        self._store.save(replace(spec, disks=tuple(model.swapped(spec.disks, one, other))))

    def errors(self, name: str, errors: Errors) -> None:
        """From now on these accesses fail with an I/O error ("none": the disk works again)."""
        before = self.get(name)
        disk = self._store.change(name, errors=errors)
        qmp = self._connect()
        if qmp is None:
            return
        with qmp:
            if not disk.plugged or before.errors == errors:
                return
            if before.errors != "none":
                qmp.do("blockdev-reopen", options=[model.top_node(disk, model.file_name(disk))])
                qmp.do("blockdev-del", **{"node-name": model.fault_name(disk)})
            if errors != "none":
                qmp.do("blockdev-add", **model.fault_node(disk))
                qmp.do("blockdev-reopen", options=[model.top_node(disk, model.fault_name(disk))])

    def smart(self, name: str, critical: int) -> None:
        """Set "critical warning" of an NVMe drive's SMART log (0: healthy, 4: unreliable; NVMe 1.4, 5.14.1.2)."""
        if self.get(name).bus != "nvme":
            raise HostError(f"virtual machine: disk {name} is SCSI: QEMU's SCSI disks have no SMART log; use NVMe")
        if critical not in range(64):
            raise HostError(f"virtual machine: disk {name}: critical warning {critical}: expected 0 to 63")
        self._store.change(name, critical=critical)
        self.mark((name,))

    def mark(self, names: tuple[str, ...]) -> None:
        """Tell the running machine what the SMART logs of these disks say: it knows nothing of that when it starts."""
        qmp = self._connect()
        if qmp is None:
            return
        with qmp:
            for disk in (self.get(name) for name in names):
                if disk.plugged:
                    path = f"/machine/peripheral/{disk.device}"
                    qmp.do("qom-set", path=path, property="smart_critical_warning", value=disk.critical)

    def _runs(self) -> bool:
        qmp = self._connect()
        if qmp is None:
            return False
        with qmp:
            return True

    def _attach(self, disk: VmDisk) -> None:
        qmp = self._connect()
        if qmp is None:
            return
        with qmp:
            for node in model.block_nodes(disk, command.disk_file(disk)):
                qmp.do("blockdev-add", **node)
            for device in model.devices(disk):
                qmp.do("device_add", **device)
        if disk.critical:
            self.mark((disk.name,))
