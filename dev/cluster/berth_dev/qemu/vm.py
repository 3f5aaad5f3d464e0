# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual machine of a cluster: power, ssh, disks. `cluster`, the command and the test fixture call this.

It is one process of the cluster, `vm`: `down` of the cluster ends it and removes its folder (see `store`). It needs no
control plane; it reaches one on this machine's loopback as 10.0.2.2.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import build
from ..errors import HostError
from ..hosts.commands import SYSTEM_PATH
from ..state import ClusterDir
from . import command, image
from .drives import Drives
from .link import Link
from .qmp import Qmp
from .store import Store, VmSpec

PROCESS = "vm"
_BOOT_SECONDS = 600.0
_OFF_SECONDS = 90.0
_SOCKET_SECONDS = 60.0
Progress = Callable[[str], None]


class Vm:
    """The virtual machine of the cluster in `folder`. Cheap to make; nothing is touched before `up`."""

    def __init__(self, folder: ClusterDir) -> None:
        self._cluster = folder
        self.path = folder.path / "data" / "vm"
        self._store = Store(self.path)

    # -- power ---------------------------------------------------------------------------------------------------------

    def up(self, progress: Progress = build.quiet) -> None:
        """Make it, unless it is there, start it, unless it runs, and wait until ssh answers."""
        system = image.ensure(progress)
        self._cluster.create()
        with self._cluster.lock():
            if not self._store.exists():
                self._store.create(system, self._cluster.tag)
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
        if not self._store.exists():
            return {"exists": False}
        spec = self.spec
        disks = {disk.name: {key: value for key, value in asdict(disk).items() if key != "name"} for disk in spec.disks}
        about = {"name": spec.name, "power": "on" if self.running else "off", "ssh_port": spec.port}
        return {"exists": True, **about, "folder": str(self.path), "disks": disks}

    @property
    def disks(self) -> Drives:
        """Its disks."""
        return Drives(self._store, lambda: self._qmp() if self.running else None)

    # -- how -----------------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> VmSpec:
        """What it is. HostError when there is none."""
        return self._store.spec

    @property
    def _link(self) -> Link:
        return Link(self.path, self.spec.port, self._cluster.tag)

    def _start(self) -> None:
        spec = self.spec
        (self.path / command.CONSOLE).unlink(missing_ok=True)
        program = shutil.which(command.PROGRAM, path=SYSTEM_PATH) or command.PROGRAM
        kernel = Path(spec.image) / "vmlinuz"
        argv = command.command(program, kernel, spec.memory_mib, spec.port, spec.disks)
        self._cluster.spawn(PROCESS, argv, cwd=self.path)
        marked = tuple(disk.name for disk in spec.disks if disk.critical)
        if marked:
            self.disks.mark(marked)

    def _qmp(self) -> Qmp:
        """One of its control sockets, which it makes soon after its start."""
        names, until = itertools.cycle(command.QMP_SOCKETS), time.monotonic() + _SOCKET_SECONDS
        while True:
            try:
                return Qmp(self.path / next(names))
            except HostError:
                if time.monotonic() > until or not self.running:
                    raise
                time.sleep(0.1)
