# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control groups of a host: one folder in every hierarchy, and the list of disks that it may not open.

`power` calls this. A host's groups are made below the groups of whoever starts it, so limits set on a session hold for
its hosts too. With cgroup v1 the devices controller enforces that no host opens another's disk, or the machine's.
With cgroup v2 alone the group is made, but that denial is not (it needs a BPF program): `enforces_devices` says so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import HostError
from .model import LAST_LOOP

LOOP_MAJOR = 7
PREFIX = "berth-"
"""What the name of every group of berth-dev begins with."""


@dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup tree: `folder` is the caller's group in it, `options` what mounts it again ('cpu,cpuacct')."""

    name: str
    options: str
    folder: Path
    version: int

    @property
    def mount_options(self) -> str:
        """What -o of mount(8) wants: a tree without controllers has to say so."""
        return f"none,{self.options}" if self.options.startswith("name=") else self.options


def parse_hierarchies(mountinfo: str, own: str) -> list[Hierarchy]:
    """Hierarchies to use, from the texts of /proc/self/mountinfo and /proc/self/cgroup.

    Version 1 trees where there are any (a version 2 tree beside them has no needed controllers), else version 2.
    """
    groups = dict(line.split(":", 2)[1:] for line in own.splitlines())
    found: dict[str, Hierarchy] = {}
    for line in mountinfo.splitlines():
        left, right = line.split(" - ", 1)
        root, point = left.split(" ")[3:5]
        kind, options = right.split(" ", 2)[::2]
        if kind not in ("cgroup", "cgroup2"):
            continue
        wanted = ",".join(part for part in options.split(",") if part not in _MOUNT_FLAGS)
        mine = groups.get(wanted if kind == "cgroup" else "", "/")
        inside = os.path.relpath(mine, root) if mine.startswith(root) else "."
        folder = Path(os.path.normpath(os.path.join(point, inside)))
        found[point] = Hierarchy(Path(point).name, wanted, folder, 1 if kind == "cgroup" else 2)
    first = [tree for tree in found.values() if tree.version == 1]
    return first or list(found.values())


_MOUNT_FLAGS = frozenset(
    ("rw", "ro", "nosuid", "nodev", "noexec", "relatime", "noatime", "nsdelegate", "memory_recursiveprot", "xattr")
)


def hierarchies() -> list[Hierarchy]:
    """This process's hierarchies. HostError on a machine without any."""
    found = parse_hierarchies(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    if not found:
        raise HostError("this machine has no cgroup file system mounted at /sys/fs/cgroup; real hosts need one")
    return found


def enforces_devices(trees: Iterable[Hierarchy]) -> bool:
    """True when another host's disk cannot be opened even by number."""
    return any(tree.version == 1 and "devices" in tree.options.split(",") for tree in trees)


def folders(trees: Iterable[Hierarchy], name: str) -> list[Path]:
    """Where a host's groups are made. In version 2 beside the root: a group with processes can have no children."""
    return [(tree.folder if tree.version == 1 else mount_of(tree)) / name for tree in trees]


def mount_of(tree: Hierarchy) -> Path:
    """Where the tree is mounted."""
    path = tree.folder
    while not os.path.ismount(path):
        path = path.parent
    return path


def create(groups: Iterable[Path]) -> None:
    """Make the groups. A cpuset group has no CPUs of its own at first, and could hold no process."""
    for group in groups:
        group.mkdir(exist_ok=True)
        for key in ("cpuset.cpus", "cpuset.mems"):
            parent = group.parent / key
            if (group / key).exists() and parent.exists():
                (group / key).write_text(parent.read_text())
        if (group / "cgroup.clone_children").exists() and (group / "cpuset.cpus").exists():
            (group / "cgroup.clone_children").write_text("1")


def denials(own: range, block_majors: Iterable[int]) -> list[str]:
    """Lines for devices.deny: every block device but the host's own loops. Pure.

    Reading and writing only: making the node (m) must stay allowed, because runc allows it for every container and a
    child may not have what its parent lacks.
    """
    loops = (f"b {LOOP_MAJOR}:{n} rw" for n in range(LAST_LOOP + 1) if n not in own)
    return [*(f"b {major}:* rw" for major in sorted(block_majors) if major != LOOP_MAJOR), *loops]


def block_majors(text: str | None = None) -> list[int]:
    """Major numbers of all block drivers, from /proc/devices."""
    lines = (text if text is not None else Path("/proc/devices").read_text()).partition("Block devices:")[2]
    return sorted({int(line.split()[0]) for line in lines.splitlines() if line.strip()})


def deny_devices(groups: Iterable[Path], own: range) -> None:
    """Write the denials where there is a devices controller. The loop control device too: it is the machine's."""
    for group in groups:
        target = group / "devices.deny"
        if target.exists():
            fd = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
            try:
                for line in [*denials(own, block_majors()), "c 10:237 rw"]:
                    os.write(fd, line.encode())
            finally:
                os.close(fd)


def members(groups: Iterable[Path]) -> set[int]:
    """Pids of everything in the groups and below."""
    found: set[int] = set()
    for group in groups:
        for file in group.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found.update(int(line) for line in file.read_text().split())
    return found


def _ours(groups: Iterable[Path]) -> list[Path]:
    """The groups, all of them. HostError for one without the prefix: a wrong path here would kill the machine."""
    checked = list(groups)
    for group in checked:
        if not group.name.startswith(PREFIX):
            raise HostError(f"cgroup {group}: is not named {PREFIX}..., so it is not berth-dev's; left alone")
    return checked


def kill_members(groups: Iterable[Path], timeout: float = 20.0) -> None:
    """SIGKILL everything in the groups, again until nothing is there. HostError naming pids that will not die."""
    groups, until = _ours(groups), time.monotonic() + timeout
    while pids := members(groups) - {0}:
        if time.monotonic() > until:
            raise HostError(f"processes {sorted(pids)} cannot be killed (stuck in the kernel?)")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def remove(groups: Iterable[Path], timeout: float = 10.0) -> None:
    """Remove the groups with everything below. They must be empty of processes; the kernel may need a moment."""
    until = time.monotonic() + timeout
    for group in _ours(groups):
        while group.exists():
            for entry in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(entry[0])
            if group.exists():
                if time.monotonic() > until:
                    raise HostError(f"cgroup {group}: cannot be removed; processes {sorted(members([group]))}")
                time.sleep(0.02)
