# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of a cluster: one bridge on the machine, one cable (veth) a host. `hostset` and `power` call this.

A host's network namespace has no name on the machine: it lives and dies with the host's processes, and with it the
cable. So only the bridge can be left over. Addresses inside the host are set by the host itself (inside/init.py).
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from ..errors import HostError
from .commands import run, run_json
from .model import Host, Slot


def link_exists(name: str) -> bool:
    """True when the machine's own network namespace has that interface."""
    return Path("/sys/class/net", name).exists()


def bridge_up(slot: Slot) -> None:
    """Make the bridge with the machine's address on it. Done already: nothing happens."""
    if not link_exists(slot.bridge):
        run("ip", "link", "add", slot.bridge, "type", "bridge")
    addresses = run_json("ip", "-json", "-4", "address", "show", "dev", slot.bridge)
    if not any(entry.get("local") == slot.gateway for link in addresses for entry in link.get("addr_info", [])):
        run("ip", "address", "add", f"{slot.gateway}/24", "dev", slot.bridge)
    run("ip", "link", "set", slot.bridge, "up")


def bridge_down(slot: Slot) -> None:
    """Remove the bridge, and with it its address and routes."""
    if link_exists(slot.bridge):
        run("ip", "link", "delete", slot.bridge)


def plug_cable(host: Host, pid: int) -> None:
    """Connect the host whose network namespace is that of process `pid` to the bridge: its eth0."""
    _wait_for_own_namespace(host, pid)
    unplug_cable(host)
    run("ip", "link", "add", host.veth, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    fasten_cable(host)


def fasten_cable(host: Host) -> bool:
    """Fix the machine's end to the bridge, again if the bridge was made anew. False: there is no cable.

    The machine can reach the host's pods from then on, which the API server needs for webhooks in pods.
    """
    if not link_exists(host.veth):
        return False
    run("ip", "link", "set", host.veth, "master", host.slot.bridge, "up")
    run("ip", "route", "replace", host.pod_subnet, "via", host.address, "dev", host.slot.bridge)
    return True


def unplug_cable(host: Host) -> None:
    """Take the cable out. The kernel does the same when the host dies, a moment later."""
    if link_exists(host.veth):
        with contextlib.suppress(HostError):  # lost the race against the kernel's own removal
            run("ip", "link", "delete", host.veth)


def _wait_for_own_namespace(host: Host, pid: int, timeout: float = 10.0) -> None:
    """Until then the process is still in the machine's namespace and eth0 would end up there."""
    ours, until = os.stat("/proc/self/ns/net").st_ino, time.monotonic() + timeout
    while time.monotonic() < until:
        try:
            if os.stat(f"/proc/{pid}/ns/net").st_ino != ours:
                return
        except OSError:
            raise HostError(f"host {host.name}: ended before it had a network; see its console log") from None
        time.sleep(0.005)
    raise HostError(f"host {host.name}: process {pid} made no network namespace within {timeout:.0f} s")
