# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's register of clusters with hosts: who has which subnet and which loop devices, and shared sysctls.

`hostset` calls this. Two clusters must never choose the same, whoever of them dies in between: the register lives in
/run/berth-dev (one file a cluster, gone with the machine's boot as the resources are) and changes under its lock only.
Nothing here makes a network or a loop device.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from ..errors import HostError
from ..state import write_atomically
from .commands import run_json
from .model import FIRST_LOOP, LAST_LOOP, LOOPS_PER_HOST, Slot

REGISTER = Path("/run/berth-dev")
FIRST_OCTET, LAST_OCTET = 77, 249
SHARED_SYSCTLS = {"fs/inotify/max_user_instances": 8192}
"""Limits of the whole machine that several kubelets and containerds use up (128 inotify instances by default)."""
KUBELETS_SYSCTLS = {"vm/overcommit_memory": 1, "kernel/panic": 10, "kernel/panic_on_oops": 1}
"""What a kubelet sets: a host of berth-dev keeps it to itself (`inside/rootfs.sh`), a node of kind writes it on the
machine."""


@contextlib.contextmanager
def locked(register: Path = REGISTER) -> Iterator[Path]:
    """Hold the register. An empty register is removed at the end: a machine without clusters shows no trace."""
    while True:
        register.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(register, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Another may have removed the folder during the wait for its lock.
        if register.exists() and os.path.samestat(os.fstat(fd), register.stat()):
            break
        os.close(fd)
    try:
        yield register
    finally:
        with contextlib.suppress(OSError):
            register.rmdir()
        os.close(fd)


def reserve(owner: Path, hosts: int, register: Path = REGISTER) -> Slot:
    """The slot of the cluster in folder `owner`: the one it has, when it holds enough hosts, else a new one.

    HostError when the machine has no free subnet or loop devices, or the cluster has a smaller slot already.
    """
    with locked(register) as folder:
        taken = _slots(folder)
        mine = next((slot for where, slot in taken if where == owner), None)
        if mine is not None and mine.hosts < hosts:
            raise HostError(f"cluster {owner}: was made for {mine.hosts} hosts, not {hosts}; run down, then up again")
        if mine is None:
            others = [entry[1] for entry in taken]
            mine = choose(hosts, others, networks_in_use(), loops_in_use())
            text = json.dumps({"owner": str(owner), **asdict(mine)})
            write_atomically(folder / f"{mine.octet}.json", text)
        _raise_sysctls(folder)
        _note_sysctls(folder)
        return mine


def release(owner: Path, register: Path = REGISTER) -> None:
    """Give the slot back, after everything in it is gone. The last one out restores the shared sysctls."""
    if not register.exists():
        return
    with locked(register) as folder:
        for where, slot in _slots(folder):
            if where == owner:
                (folder / f"{slot.octet}.json").unlink()
        if not _slots(folder):
            _restore_sysctls(folder)


def held(owner: Path, register: Path = REGISTER) -> Slot | None:
    """The slot that the cluster has, if any."""
    return next((slot for where, slot in _slots(register) if where == owner), None)


def is_taken(wanted: Slot, register: Path = REGISTER) -> bool:
    """True when some cluster has the network or one of the loop devices of that slot."""
    loops = set(wanted.loops)
    return any(slot.octet == wanted.octet or loops & set(slot.loops) for _owner, slot in _slots(register))


def choose(hosts: int, others: Iterable[Slot], networks: Iterable[ipaddress.IPv4Network], loops: Iterable[int]) -> Slot:
    """The first free subnet and the first free run of loop devices. Pure; HostError when there is none."""
    others = list(others)
    used_octets, used_loops = {slot.octet for slot in others}, set(loops)
    for slot in others:
        used_loops.update(slot.loops)
    busy = [net for net in networks if net.prefixlen > 0]
    octet = next(
        (
            k
            for k in range(FIRST_OCTET, LAST_OCTET + 1)
            if k not in used_octets and not any(net.overlaps(ipaddress.IPv4Network(f"10.{k}.0.0/16")) for net in busy)
        ),
        None,
    )
    size = hosts * LOOPS_PER_HOST
    first = next(
        (
            n
            for n in range(FIRST_LOOP, LAST_LOOP + 2 - size, LOOPS_PER_HOST)
            if used_loops.isdisjoint(range(n, n + size))
        ),
        None,
    )
    if octet is None:
        raise HostError(f"no free network 10.{FIRST_OCTET}.0.0/16 to 10.{LAST_OCTET}.0.0/16 on this machine")
    if first is None:
        raise HostError(f"no {size} free loop devices in a row up to loop{LAST_LOOP}; take another cluster down")
    return Slot(octet, first, hosts)


def networks_in_use() -> list[ipaddress.IPv4Network]:
    """Every IPv4 network that the machine has an address in or a route to."""
    entries = [entry for link in run_json("ip", "-json", "-4", "address") for entry in link.get("addr_info", [])]
    texts = [f"{entry['local']}/{entry['prefixlen']}" for entry in entries]
    texts += [route["dst"] for route in run_json("ip", "-json", "-4", "route") if route["dst"] != "default"]
    return [ipaddress.IPv4Network(text, strict=False) for text in texts]


def loops_in_use(sysfs: Path = Path("/sys/block")) -> list[int]:
    """Numbers of the loop devices that exist, attached or not."""
    return [int(entry.name[4:]) for entry in sysfs.glob("loop[0-9]*")]


def _slots(folder: Path) -> list[tuple[Path, Slot]]:
    found = []
    for file in sorted(folder.glob("[0-9]*.json")):
        try:
            facts = json.loads(file.read_text())
        except FileNotFoundError:  # who looks without the lock may see a cluster go
            continue
        found.append((Path(facts.pop("owner")), Slot(**facts)))
    return found


def _raise_sysctls(folder: Path) -> None:
    """Raise what is too low, the old value written down first."""
    for key, wanted in SHARED_SYSCTLS.items():
        if (old := _sysctl(key)) < wanted:
            _note_sysctl(folder, key, old)
            Path("/proc/sys", key).write_text(str(wanted))


def _note_sysctls(folder: Path) -> None:
    """Write down what kubelets will change."""
    for key, wanted in KUBELETS_SYSCTLS.items():
        if (old := _sysctl(key)) != wanted:
            _note_sysctl(folder, key, old)


def _restore_sysctls(folder: Path) -> None:
    """Put back what berth-dev or kubelets changed, unless somebody else has changed it since."""
    for key, wanted in {**SHARED_SYSCTLS, **KUBELETS_SYSCTLS}.items():
        note = _noted(folder, key)
        if note.exists():
            if _sysctl(key) == wanted:
                Path("/proc/sys", key).write_text(note.read_text())
            note.unlink()


def _note_sysctl(folder: Path, key: str, old: int) -> None:
    if not (note := _noted(folder, key)).exists():
        write_atomically(note, str(old))


def _noted(folder: Path, key: str) -> Path:
    return folder / f"sysctl-{key.replace('/', '.')}"


def _sysctl(key: str) -> int:
    return int(Path("/proc/sys", key).read_text())
