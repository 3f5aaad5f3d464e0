# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of one host: files, loop devices, faults. `hostset` and `power` call this; `power` brings them inside.

    <host folder>/disks.json          what disks there are: size, loop device, identity, plugged, broken
    <host folder>/disks/<name>.img    what is on them (sparse); kept when a disk is pulled out
    <host folder>/disks/<name>.kept   the contents of a broken disk, until it is healed

Nothing here changes what is on a disk that is not broken, or deletes a disk's file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from ..errors import HostError
from ..state import write_atomically
from . import loops
from .commands import run
from .model import Disk, Host, checked_disk_name, default_disks, new_disk


class Drawer:
    """The disks of `host`, kept in its folder. `cluster` and `token` make their identities unique."""

    def __init__(self, host: Host, folder: Path, cluster: str, token: str) -> None:
        self.host, self.folder, self._cluster, self._token = host, folder, cluster, token

    def all(self) -> dict[str, Disk]:
        """Every disk by name, pulled out ones too."""
        try:
            entries = json.loads((self.folder / "disks.json").read_text())
        except FileNotFoundError:
            return {}
        return {entry["name"]: Disk(**entry) for entry in entries}

    def plugged(self) -> list[Disk]:
        """The disks that are in the host now."""
        return [disk for disk in self.all().values() if disk.plugged]

    def get(self, name: str) -> Disk:
        """The disk of that name. HostError with the names there are."""
        disks = self.all()
        if name not in disks:
            raise HostError(f"host {self.host.name}: has no disk {name!r}; it has {', '.join(disks) or 'none'}")
        return disks[name]

    def fill(self) -> None:
        """Put the default disks into a new drawer."""
        if not (self.folder / "disks.json").exists():
            for name, size in default_disks(self.host.index).items():
                self.insert(name, size)

    def insert(self, name: str, size: int | None) -> Disk:
        """Make a new disk, or take one that was pulled out, and attach it. HostError when it is in already."""
        disks = self.all()
        old = disks.get(checked_disk_name(name))
        if old is not None and old.plugged:
            raise HostError(f"host {self.host.name}: disk {name} is plugged in already ({old.serial})")
        if old is not None and size not in (None, old.size):
            raise HostError(
                f"host {self.host.name}: disk {name} exists with {old.size} bytes, not {size}; add it without a size"
            )
        if old is None and size is None:
            raise HostError(f"host {self.host.name}: disk {name} is new; give its size, such as --size 512Mi")
        loop = self._free_loop()
        if old is None:
            disk = new_disk(self._cluster, self._token, self.host, name, size or 0, loop)
            self._create(disk)
        else:
            disk = replace(old, loop=loop, plugged=True)
        self._put(disk)
        self.attach(disk)
        return disk

    def pull(self, name: str) -> Disk:
        """Take the disk out: detached as soon as nobody has it open. Its file stays."""
        disk = self.get(name)
        if not disk.plugged:
            raise HostError(f"host {self.host.name}: disk {name} is not plugged in")
        loops.detach(disk.loop)
        self._put(replace(disk, plugged=False))
        return disk

    def attach(self, disk: Disk) -> None:
        """Put the disk's file behind its loop device, if it is not (after a restart of the machine)."""
        file = self._file(disk)
        if disk.broken and loops.backing(disk.loop) is None:
            # The device takes its capacity from the file when it is attached: give it, then take it away again.
            with _writable(file):
                os.truncate(file, disk.size)
                loops.attach(disk.loop, file)
                os.truncate(file, 0)
        else:
            loops.attach(disk.loop, file)

    def break_disk(self, name: str) -> Disk:
        """Let every read and write of the disk's surface fail with an I/O error from now on.

        Writes fail because the file behind the device is immutable, reads because it is empty. What the machine still
        has in memory (a mounted filesystem's cached pages) can be read, as after a real disk's death.
        """
        disk = self.get(name)
        if disk.broken:
            raise HostError(f"host {self.host.name}: disk {name} is broken already")
        file = self._file(disk)
        if not _immutable_is_enforced(file.parent):
            raise HostError(
                f"host {self.host.name}: disk {name} cannot be broken here: the filesystem of {file.parent} lets open "
                "immutable files be written (ext4 does not); keep the cluster's folder elsewhere"
            )
        if disk.plugged:
            loops.flush(disk.loop)
        _immutable(file, True)  # from here on nothing is written that the copy would not have
        try:
            run("cp", "--sparse=always", str(file), str(self._kept(disk)))
            self._put(replace(disk, broken=True))
            with _writable(file):
                os.truncate(file, 0)
        except BaseException:
            if not self.get(name).broken:
                _immutable(file, False)
            raise
        if disk.plugged:
            loops.flush(disk.loop)
        return disk

    def heal(self, name: str) -> Disk:
        """Bring the disk back with the contents that it had when it broke. Filesystems must be mounted anew."""
        disk = self.get(name)
        if not disk.broken:
            raise HostError(f"host {self.host.name}: disk {name} is not broken")
        file, kept = self._file(disk), self._kept(disk)
        _immutable(file, False)
        os.truncate(file, 0)  # a heal that was cut short begins anew
        os.truncate(file, disk.size)
        _copy_data(kept, file)
        if disk.plugged:
            loops.flush(disk.loop)
        healed = replace(disk, broken=False)
        self._put(healed)
        kept.unlink()
        return healed

    def release_files(self) -> None:
        """Make every file deletable again."""
        for disk in self.all().values():
            if self._file(disk).exists():
                _immutable(self._file(disk), False)

    def _file(self, disk: Disk) -> Path:
        return self.folder / "disks" / f"{disk.name}.img"

    def _kept(self, disk: Disk) -> Path:
        return self.folder / "disks" / f"{disk.name}.kept"

    def _create(self, disk: Disk) -> None:
        self._file(disk).parent.mkdir(mode=0o700, exist_ok=True)
        # A file without an entry is from a plug-in that died before anyone could have written to it.
        with open(self._file(disk), "wb") as stream:
            stream.truncate(disk.size)

    def _put(self, disk: Disk) -> None:
        disks = {**self.all(), disk.name: disk}
        write_atomically(self.folder / "disks.json", json.dumps([asdict(d) for d in disks.values()], indent=1))

    def _free_loop(self) -> int:
        """The lowest place that no plugged disk has and where nothing lingers (a pulled disk that is still open)."""
        taken = {disk.loop for disk in self.all().values() if disk.plugged}
        for number in self.host.disk_loops:
            if number not in taken and loops.backing(number) is None:
                return number
        raise HostError(f"host {self.host.name}: all {len(self.host.disk_loops)} disk slots are taken")


def _immutable(file: Path, on: bool) -> None:
    run("chattr", "+i" if on else "-i", str(file))


def _immutable_is_enforced(folder: Path) -> bool:
    """True when a file that was open for writing (as a loop device's is) refuses writes once it is immutable."""
    trial = folder / ".immutable"
    with open(trial, "wb", buffering=0) as stream:
        _immutable(trial, True)
        try:
            stream.write(b"x")
        except PermissionError:
            return True
        finally:
            _immutable(trial, False)
            trial.unlink()
    return False


@contextmanager
def _writable(file: Path) -> Iterator[None]:
    """For a moment only."""
    _immutable(file, False)
    try:
        yield
    finally:
        _immutable(file, True)


def _copy_data(source: Path, target: Path) -> None:
    """Copy the parts of a sparse file that hold data into a file of the same size (its holes stay holes)."""
    with open(source, "rb") as old, open(target, "r+b") as new:
        end, position = os.fstat(old.fileno()).st_size, 0
        while position < end:
            try:
                start = os.lseek(old.fileno(), position, os.SEEK_DATA)
            except OSError:
                return  # only a hole is left
            position = os.lseek(old.fileno(), start, os.SEEK_HOLE)
            while start < position:
                start += os.copy_file_range(old.fileno(), new.fileno(), position - start, start, start)
