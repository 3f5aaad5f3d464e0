# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual machine of a cluster: power, ssh, disks. `cluster`, the command and the test fixture call me.

    <cluster's folder>/data/vm/vm.json        its name, port and disks
                               root.qcow2     what it wrote on its root disk, over the cached image
                               disks/*.img    its disks (sparse); kept when one is pulled out
                               console.log    what its kernel says

It is one process of the cluster, `vm`: `down` of the cluster ends it and removes the folder. It needs no control plane.
Every change of a disk is written down first, so that the next start sees what was asked for.
"""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import build
from ..control_plane import free_port
from ..errors import HostError
from ..hosts.commands import SYSTEM_PATH
from ..hosts.ssh import public
from ..state import ClusterDir, write_atomically
from . import command, cpio, image, model
from .link import HOST_KEY, USER_KEY, Link
from .model import Errors, VmDisk
from .qmp import Qmp

PROCESS = "vm"
_BOOT_SECONDS = 600.0
_OFF_SECONDS = 90.0
Progress = Callable[[str], None]


@dataclass(frozen=True)
class VmSpec:
    """What is kept in vm.json. `token`: what identities of disks are made of; also the machine's id."""

    name: str
    port: int
    image: str
    token: str
    disks: tuple[VmDisk, ...]
    memory_mib: int = model.MEMORY_MIB


class Vm:
    """The virtual machine of the cluster in `folder`. Cheap to make; nothing is touched before `up`."""

    def __init__(self, folder: ClusterDir) -> None:
        self._cluster = folder
        self.path = folder.path / "data" / "vm"

    # -- power ---------------------------------------------------------------------------------------------------------

    def up(self, progress: Progress = build.quiet) -> None:
        """Make it, unless it is there, start it, unless it runs, and wait until ssh answers."""
        system = image.ensure(progress)
        self._cluster.create()
        with self._cluster.lock():
            if not self._file.exists():
                self._create(system)
            if not self.running:
                progress("virtual machine: starting (half a minute)")
                self._start()
            self.wait_up()
        progress(f"virtual machine {self.spec.name} is up: `berth-dev vm ssh`")

    def down(self) -> bool:
        """End it and remove its disks. False when there was none."""
        if not self.path.exists():
            return False
        with self._cluster.lock():
            self.power_off(cut=True)
            shutil.rmtree(self.path)
        return True

    def power_off(self, *, cut: bool = False) -> None:
        """Shut it down as an administrator would; `cut`: at once, and what was not written to the disks is lost."""
        if not self.running:
            return
        if not cut:
            self._link.run("systemctl", "poweroff")
            self._wait_off()
        self._link.close()
        self._cluster.stop(PROCESS, 0)

    def _wait_off(self) -> None:
        """Until QEMU has ended by itself, or long enough."""
        until = time.monotonic() + _OFF_SECONDS
        while self.running and time.monotonic() < until:
            time.sleep(0.2)

    def power_on(self) -> None:
        """Start it with the disks that are plugged in now, and wait until ssh answers."""
        with self._cluster.lock():
            if not self.running:
                self._start()
            self.wait_up()

    def reboot(self, *, cut: bool = False) -> None:
        """Off, and on again: firmware and kernel find the disks anew."""
        self.power_off(cut=cut)
        self.power_on()

    @property
    def running(self) -> bool:
        """Whether QEMU runs."""
        return self._cluster.exists() and self._cluster.alive(PROCESS)

    def wait_up(self) -> None:
        """Until the guest has started and answers. HostError, with the end of its console, when it does not."""
        until = time.monotonic() + _BOOT_SECONDS
        while True:
            if not self.running:
                raise HostError(f"virtual machine: QEMU has ended: {self._cluster.log_tail(PROCESS)}")
            try:
                self._link.run("systemctl", "is-system-running", "--wait", timeout=120)
            except HostError as error:
                if time.monotonic() > until:
                    raise HostError(f"{error}; the end of its console:\n{self.console()[-1500:]}") from None
                time.sleep(0.5)
            else:
                return

    # -- inside --------------------------------------------------------------------------------------------------------

    def run(self, *argv: str, data: bytes | None = None, check: bool = True, timeout: float = 300.0) -> str:
        """What a program in the guest prints. With `check`, HostError when it fails."""
        done = self._link.run(*argv, data=data, timeout=timeout)
        if check and done.returncode != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise HostError(f"virtual machine: {' '.join(argv)}: exit {done.returncode}: {said}")
        return done.stdout.decode(errors="replace")

    def sh(self, script: str, *, check: bool = True, timeout: float = 300.0) -> str:
        """What a shell script prints in the guest."""
        return self.run("sh", "-euc", script, check=check, timeout=timeout)

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file in the guest; its folder is made."""
        script = 'umask 077; mkdir -p -m 755 "$(dirname "$1")"; cat > "$1.new"; chmod "$2" "$1.new"; mv "$1.new" "$1"'
        self.run("sh", "-euc", script, "sh", path, f"{mode:o}", data=data)

    def ssh_command(self, line: str = "") -> tuple[list[str], Path]:
        """The command line of ssh for a line of shell (none: a shell), and the folder to run it in."""
        return self._link.command(line), self.path

    def console(self) -> str:
        """What the guest's kernel has said since the last start."""
        try:
            return (self.path / command.CONSOLE).read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def inventory(self) -> dict[str, Any]:
        """It as an Ansible inventory."""
        return self._link.inventory(self.spec.name)

    def status(self) -> dict[str, Any]:
        """What there is."""
        if not self._file.exists():
            return {"exists": False}
        spec = self.spec
        disks = {disk.name: {key: value for key, value in asdict(disk).items() if key != "name"} for disk in spec.disks}
        about = {"name": spec.name, "power": "on" if self.running else "off", "ssh_port": spec.port}
        return {"exists": True, **about, "folder": str(self.path), "disks": disks}

    # -- disks ---------------------------------------------------------------------------------------------------------

    def disk(self, name: str) -> VmDisk:
        """The disk of that name. HostError with the names there are."""
        disks = {disk.name: disk for disk in self.spec.disks}
        if name not in disks:
            raise HostError(f"virtual machine: has no disk {name!r}; it has {', '.join(disks) or 'none'}")
        return disks[name]

    def disk_add(self, name: str, bus: str = "nvme", size: int = 512 * model.MIB, **wished: Any) -> VmDisk:
        """Plug in a new disk, with the `serial`, `wwn` and `rotational` that are wished for. HostError says why not."""
        spec = self.spec
        if any(disk.name == name for disk in spec.disks):
            raise HostError(f"virtual machine: there is a disk {name} already; `plug` brings back what was pulled out")
        disk = model.new_disk(spec.token, name, bus, size, model.free_bay(spec.disks), wished)
        self._make_file(disk)
        self._save(replace(spec, disks=(*spec.disks, disk)))
        self._attach(disk)
        return disk

    def disk_plug(self, name: str) -> VmDisk:
        """Bring a disk back into its bay, with its data."""
        if self.disk(name).plugged:
            raise HostError(f"virtual machine: disk {name} is plugged in already")
        disk = self._change(name, plugged=True)
        self._attach(disk)
        return disk

    def disk_pull(self, name: str) -> VmDisk:
        """Take a disk out, whoever uses it. Its data stays in its file."""
        if not self.disk(name).plugged:
            raise HostError(f"virtual machine: disk {name} is not plugged in")
        disk = self._change(name, plugged=False)
        if self.running:
            with self._qmp() as qmp:
                for device in reversed(model.devices(disk)):
                    qmp.do("device_del", id=device["id"])
                    qmp.wait("DEVICE_DELETED", device=device["id"])
                for node in reversed(model.block_nodes(disk, "")):
                    qmp.do("blockdev-del", **{"node-name": node["node-name"]})
        return disk

    def disk_swap(self, one: str, other: str) -> None:
        """Two disks change their bays, and with them their names in the guest. Only while it is off."""
        if self.running:
            raise HostError("virtual machine: disks change their bays only while it is off: `berth-dev vm off` first")
        spec = self.spec
        disks = model.swapped(spec.disks, self.disk(one).name, self.disk(other).name)
        self._save(replace(spec, disks=tuple(disks)))

    def disk_errors(self, name: str, errors: Errors) -> None:
        """From now on these accesses fail with an I/O error ("none": the disk works again)."""
        before = self.disk(name)
        disk = self._change(name, errors=errors)
        if not (self.running and disk.plugged) or before.errors == errors:
            return
        with self._qmp() as qmp:
            base = f"file-{name}"
            if before.errors != "none":
                qmp.do("blockdev-reopen", options=[model.top_node(disk, base)])
                qmp.do("blockdev-del", **{"node-name": f"fault-{name}"})
            if errors != "none":
                qmp.do("blockdev-add", **model.fault_node(disk))
                qmp.do("blockdev-reopen", options=[model.top_node(disk, f"fault-{name}")])

    def disk_smart(self, name: str, critical: int) -> None:
        """Set "critical warning" of an NVMe drive's SMART log (0: healthy, 4: unreliable; NVMe 1.4, 5.14.1.2)."""
        if self.disk(name).bus != "nvme":
            raise HostError(f"virtual machine: disk {name} is SCSI: QEMU's SCSI disks have no SMART log; use NVMe")
        if critical not in range(64):
            raise HostError(f"virtual machine: disk {name}: critical warning {critical}: expected 0 to 63")
        disk = self._change(name, critical=critical)
        if self.running and disk.plugged:
            with self._qmp() as qmp:
                self._set_critical(qmp, disk)

    # -- how -----------------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> VmSpec:
        """What it is. HostError when there is none."""
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise HostError(
                f"cluster {self._cluster.name}: has no virtual machine; `berth-dev vm up` makes one"
            ) from None
        return VmSpec(**{**known, "disks": tuple(VmDisk(**disk) for disk in known["disks"])})

    @property
    def _file(self) -> Path:
        return self.path / "vm.json"

    @property
    def _link(self) -> Link:
        return Link(self.path, self.spec.port, self._cluster.tag)

    def _save(self, spec: VmSpec) -> None:
        write_atomically(self._file, json.dumps(asdict(spec), indent=1))

    def _change(self, name: str, **fields: Any) -> VmDisk:
        disk, spec = replace(self.disk(name), **fields), self.spec
        self._save(replace(spec, disks=tuple(disk if old.name == name else old for old in spec.disks)))
        return disk

    def _create(self, system: Path) -> None:
        """Everything but vm.json, then vm.json: what was left half-made by a killed start is made again."""
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / "disks").mkdir(mode=0o700, parents=True)
        token = secrets.token_hex(16)
        spec = VmSpec("vm", free_port(), str(system), token, tuple(model.default_disks(token)))
        for disk in spec.disks:
            self._make_file(disk)
        image.make_overlay(system, self.path / command.ROOT_DISK)
        link = Link(self.path, spec.port, self._cluster.tag)
        link.prepare()
        self._make_initrd(spec)
        self._save(spec)

    def _make_initrd(self, spec: VmSpec) -> None:
        """The image's, and behind it what belongs to this machine alone."""
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
        initrd = (Path(spec.image) / "initrd").read_bytes() + cpio.archive(entries)
        write_private(self.path / command.INITRD, initrd)

    def _make_file(self, disk: VmDisk) -> None:
        with open(self.path / command.disk_file(disk), "xb") as stream:
            stream.truncate(disk.size)

    def _start(self) -> None:
        spec = self.spec
        (self.path / command.CONSOLE).unlink(missing_ok=True)
        program = shutil.which(command.PROGRAM, path=SYSTEM_PATH) or command.PROGRAM
        kernel = Path(spec.image) / "vmlinuz"
        argv = command.command(program, kernel, spec.memory_mib, spec.port, spec.disks)
        self._cluster.spawn(PROCESS, argv, cwd=self.path)
        marked = [disk for disk in spec.disks if disk.critical and disk.plugged]
        if marked:
            with self._qmp() as qmp:
                for disk in marked:
                    self._set_critical(qmp, disk)

    def _attach(self, disk: VmDisk) -> None:
        if not self.running:
            return
        with self._qmp() as qmp:
            for node in model.block_nodes(disk, command.disk_file(disk)):
                qmp.do("blockdev-add", **node)
            for device in model.devices(disk):
                qmp.do("device_add", **device)
            if disk.critical:
                self._set_critical(qmp, disk)

    def _set_critical(self, qmp: Qmp, disk: VmDisk) -> None:
        path = f"/machine/peripheral/{disk.device}"
        qmp.do("qom-set", path=path, property="smart_critical_warning", value=disk.critical)

    def _qmp(self) -> Qmp:
        socket, until = self.path / command.QMP_SOCKET, time.monotonic() + 30
        while True:
            try:
                return Qmp(socket)
            except HostError:
                if time.monotonic() > until or not self.running:
                    raise
                time.sleep(0.1)


def write_private(path: Path, data: bytes) -> None:
    """A file that holds a key."""
    path.touch(mode=0o600)
    path.write_bytes(data)
