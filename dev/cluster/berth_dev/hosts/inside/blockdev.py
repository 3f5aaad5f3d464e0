# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block devices that a host sees, and its udev. Runs inside the host, with the machine's Python alone.

init.py calls `hide_all` and `add` at the start; the machine's disk commands call `add` and `remove` through nsenter;
`watch` runs as a service and does what udev does: when a program that could write to a disk closes it, look again at
what is on it, and bring /run/udev/data and /dev/disk/by-uuid, by-label up to date. It never writes to a disk.

    blockdev.py add JSON | remove LOOP | refresh [DEVICE...] | watch
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DISKS = Path("/run/berth/disks")
UDEV = Path("/run/udev/data")
SYS = Path("/sys")
LISTINGS = ("block", "class/block", "dev/block")
DEVICES = "devices/virtual/block"
IN_CLOSE_WRITE = 0x8
Disk = dict[str, Any]


def mount(*arguments: str) -> None:
    """mount(8)."""
    subprocess.run(["mount", *arguments], check=True)


def hide_all() -> None:
    """Cover every listing of block devices in /sys: what is not added to them is not here."""
    behind = {os.path.dirname(os.path.realpath(entry)) for entry in (SYS / "block").iterdir()}
    for folder in sorted(behind | {str(SYS / DEVICES)} | {str(SYS / listing) for listing in LISTINGS}):
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    DISKS.mkdir(parents=True, exist_ok=True)


@contextmanager
def whole_sysfs() -> Iterator[Path]:
    """All of /sys, for a moment, in a place where nobody looks."""
    place = tempfile.mkdtemp(dir="/run/berth")
    mount("-t", "sysfs", "--make-private", "sysfs", place)
    try:
        yield Path(place)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        os.rmdir(place)


def add(disks: list[Disk]) -> None:
    """Plug disks in: node, sysfs, links, udev record. `disk`: loop, properties, links; a spare has no properties."""
    with whole_sysfs() as real:
        for disk in disks:
            name = f"loop{disk['loop']}"
            (SYS / DEVICES / name).mkdir(exist_ok=True)
            if not os.path.ismount(SYS / DEVICES / name):
                mount("--bind", str(real / DEVICES / name), str(SYS / DEVICES / name))
            number = (SYS / DEVICES / name / "dev").read_text().strip()
            _link(f"../{DEVICES}/{name}", SYS / "block" / name)
            _link(f"../../{DEVICES}/{name}", SYS / "class/block" / name)
            _link(f"../../{DEVICES}/{name}", SYS / "dev/block" / number)
            major, minor = map(int, number.split(":"))
            node = Path("/dev", name)
            if not node.exists():
                os.mknod(node, 0o60660, os.makedev(major, minor))
            (DISKS / name).write_text(json.dumps(disk))
    for disk in disks:
        refresh(f"loop{disk['loop']}")


def remove(name: str) -> None:
    """Pull a disk out: everything that `add` made goes. What has it open keeps it, as with a real disk."""
    record = _record(name)
    for link in _links_of(record):
        Path("/dev", link).unlink(missing_ok=True)
    record.unlink(missing_ok=True)
    entries = (SYS / "block" / name, SYS / "class/block" / name, SYS / "dev/block" / _number(name), Path("/dev", name))
    for path in entries:
        path.unlink(missing_ok=True)
    (DISKS / name).unlink(missing_ok=True)
    point = SYS / DEVICES / name
    if os.path.ismount(point):
        subprocess.run(["umount", "-l", str(point)], check=True)
    if point.exists():
        point.rmdir()


def refresh(name: str) -> None:
    """Look at what is on the disk and write its udev record, with links, as udev's rules for disks would."""
    disk: Disk = json.loads((DISKS / name).read_text())
    if not disk["properties"]:
        return
    found = probe(Path("/dev", name))
    links = [*disk["links"], *content_links(found)]
    record = _record(name)
    for stale in set(_links_of(record)) - set(links):
        Path("/dev", stale).unlink(missing_ok=True)
    for link in links:
        _link(os.path.relpath(f"/dev/{name}", f"/dev/{os.path.dirname(link)}"), Path("/dev", link))
    temporary = record.with_name(f".{record.name}.{os.getpid()}")
    temporary.write_text(record_text(disk["properties"], found, links, int(time.monotonic() * 1e6)))
    temporary.replace(record)


def probe(node: Path) -> dict[str, str]:
    """ID_FS_* and ID_PART_TABLE_* of what is on the disk, asked of the disk itself. Empty: nothing, or unreadable."""
    done = subprocess.run(["blkid", "-p", "-o", "udev", str(node)], capture_output=True, text=True, check=False)
    pairs = (line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("ID_") and "=" in line)
    return dict(pairs)


def content_links(found: dict[str, str]) -> list[str]:
    """The links below /dev that udev makes from a filesystem's UUID and label."""
    kinds = (("by-uuid", "ID_FS_UUID_ENC"), ("by-label", "ID_FS_LABEL_ENC"))
    return [f"disk/{folder}/{found[key]}" for folder, key in kinds if "/" not in found.get(key, "/")]


def record_text(properties: dict[str, str], found: dict[str, str], links: list[str], now: int) -> str:
    """A file of udev's database: `S` links, `I` time of the first event (microseconds since boot), `E` properties."""
    lines = [*(f"S:{link}" for link in links), f"I:{now}"]
    lines += [f"E:{key}={value}" for key, value in {**properties, **found}.items()]
    return "\n".join([*lines, "G:systemd", "Q:systemd", "V:1", ""])


def watch() -> None:
    """udev's job, for ever: refresh a disk when somebody who could have written to it closes it."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    watched: dict[int, str] = {}
    while True:
        present = {entry.name for entry in DISKS.iterdir()}
        for key in [k for k, name in watched.items() if name not in present]:
            del watched[key]
        for name in present - set(watched.values()):
            key = libc.inotify_add_watch(descriptor, f"/dev/{name}".encode(), IN_CLOSE_WRITE)
            if key >= 0:
                watched[key] = name
        ready = select.select([descriptor], [], [], 1.0)[0]
        for name in _events(descriptor, watched) if ready else ():
            with exclusive():  # a disk that is being pulled out must not get its links back
                if (DISKS / name).exists():
                    refresh(name)


def _events(descriptor: int, watched: dict[int, str]) -> set[str]:
    data, found, offset = os.read(descriptor, 65536), set[str](), 0
    while offset < len(data):
        key, _mask, _cookie, length = struct.unpack_from("iIII", data, offset)
        offset += 16 + length
        if key in watched:
            found.add(watched[key])
    return found


def _record(name: str) -> Path:
    return UDEV / f"b{_number(name)}"


def _number(name: str) -> str:
    return f"7:{int(name[4:])}"


def _links_of(record: Path) -> list[str]:
    if not record.exists():
        return []
    return [line[2:] for line in record.read_text().splitlines() if line.startswith("S:")]


def _link(target: str, path: Path) -> None:
    """A symbolic link, replaced as one step: a mount by UUID may be looking."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.symlink_to(target)
    temporary.replace(path)


@contextmanager
def exclusive() -> Iterator[None]:
    """One change of the listings at a time."""
    with open("/run/berth/blockdev.lock", "w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def main(argv: list[str]) -> int:
    """The command line of the module's docstring."""
    command, arguments = argv[0] if argv else "", argv[1:]
    if command == "watch":
        watch()
    with exclusive():
        if command == "add":
            add(json.loads(arguments[0]))
        elif command == "remove":
            remove(arguments[0])
        elif command == "refresh":
            names = [os.path.basename(os.path.realpath(a)) for a in arguments] or sorted(os.listdir(DISKS))
            for name in names:
                refresh(name)
        else:
            sys.stderr.write("blockdev.py: add JSON | remove LOOP | refresh [DEVICE...] | watch\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
