# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real hosts of a cluster: the one way in. `cluster` and `cli` call this; the work is in the modules beside it.

A host is namespaces, control groups, loop devices and a cable on this machine. Everything that outlives a process is
in the cluster's journal or the machine's register (`slots`) before it is made, so `down` removes it all, whatever was
killed when. Nothing is ever mounted in the machine's own mount table.
"""

from __future__ import annotations

import functools
import json
import shutil
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import images
from ..errors import HostError
from ..pki import Pki
from ..state import ClusterDir
from . import cgroups, commands, inventory, loops, net, power, ready, slots, ssh
from .model import Disk, Host, Slot, checked_host_names, parse_size

Progress = Callable[[str], None]


def _silent(line: str) -> None:
    """No progress is wanted."""


def _hosts_of(slot: Slot) -> list[Host]:
    return [Host(name, i, slot) for i, name in enumerate(checked_host_names(slot.hosts), 1)]


class HostSet:
    """The real hosts of the cluster in `cluster_dir`.

    `bin_dir`: programs that the hosts run. `server_url_for_hosts`: the API server at the bridge's address, which is
    known after `plan`; it may be set later and is needed by `up` and `power_on` only.
    """

    def __init__(self, cluster_dir: ClusterDir, pki: Pki, bin_dir: Path, server_url_for_hosts: str = "") -> None:
        self.cluster, self.pki, self.bin_dir = cluster_dir, pki, bin_dir
        self.server_url = server_url_for_hosts

    # -- the whole set ---------------------------------------------------------------------------------------------

    @property
    def gateway(self) -> str:
        """The machine's address on the hosts' bridge. HostError before `plan`."""
        return self._slot().gateway

    def plan(self, count: int) -> str:
        """Reserve subnet and loop devices for `count` hosts and make the bridge. Returns the gateway. Idempotent."""
        names = checked_host_names(count)
        if not names:
            raise HostError("hosts: expected at least 1 to plan for")
        commands.check_machine()
        self.cluster.record("slot", str(self.cluster.path), hosts=count)
        slot = slots.reserve(self.cluster.path, count)
        self.cluster.record("slot", str(self.cluster.path), hosts=count, octet=slot.octet, first_loop=slot.first_loop)
        net.bridge_up(slot)
        return slot.gateway

    def up(self, count: int, progress: Progress = _silent, timeout: float = 90.0) -> None:
        """Switch all hosts on, at the same time, and wait until their nodes are Ready. Idempotent; mends what is dead.

        HostError names each host that did not come up, with the end of its console log.
        """
        self.plan(count)
        rack = self._rack()
        self.pki.authority("ca")  # made once, before several threads want it
        self.pki.client("system:kube-proxy", [])
        rack.keys.prepare(rack.hosts)
        start, now = time.monotonic(), time.time()
        # A host that has power already may go on with what its kubelet said before.
        since = {host.name: 0.0 if power.running(rack, host) else now for host in rack.hosts}
        self._each(rack.hosts, lambda host: power.power_on(rack, host))
        progress(f"{count} hosts have power ({time.monotonic() - start:.1f} s)")

        def wait(host: Host) -> None:
            alive = functools.partial(power.running, rack, host)
            ready.wait_ready(self.pki, host, self.server_url, timeout, alive, since[host.name])
            progress(f"node {host.name} is Ready ({time.monotonic() - start:.1f} s)")

        self._each(rack.hosts, wait)

    def down(self) -> None:
        """Remove every host and everything of it from the machine, disks and their data too. Twice is fine."""
        for entry in self.cluster.recorded("host"):
            self.cluster.stop(f"host-{entry['id']}", timeout=0)
            groups = power.recorded_groups(self.cluster, entry["id"])
            cgroups.kill_members(groups)
            cgroups.remove(groups)
            self.cluster.forget("host", entry["id"])
        slot = self._slot_to_clear()
        if slot is not None:
            ssh.close_connections(self._keys().control_folder(slot))
            for host in _hosts_of(slot):  # the kernel does it too, but some time after the host's last process
                net.unplug_cable(host)
            net.bridge_down(slot)
            loops.remove_all(slot.loops, self.cluster.path)
        self._remove_files()
        slots.release(self.cluster.path)
        self.cluster.forget("slot", str(self.cluster.path))

    def status(self) -> list[dict[str, Any]]:
        """One entry a host: name, address, power, pid, disks; whether the kernel keeps foreign disks from it."""
        if slots.held(self.cluster.path) is None:
            return []
        rack, enforced = self._rack(), cgroups.enforces_devices(cgroups.hierarchies())
        return [
            {
                "name": host.name,
                "address": host.address,
                "power": "on" if power.running(rack, host) else "off",
                "pid": self.cluster.pid(host.process),
                "disks": self.disks(host.name),
                "foreign_disks_denied": enforced,
            }
            for host in rack.hosts
        ]

    def inventory(self) -> dict[str, Any]:
        """An Ansible inventory (the structure of its YAML form) of the hosts, in group berth_hosts."""
        slot, keys = self._slot(), self._keys()
        return inventory.build(self._hosts(), keys, keys.control_folder(slot))

    # -- disks -----------------------------------------------------------------------------------------------------

    def disks(self, host: str) -> list[dict[str, Any]]:
        """The host's disks: name, size in bytes, serial, wwn, device, plugged, broken."""
        drawer = self._rack().drawer(self._host(host))
        return [{**asdict(disk), "device": f"/dev/loop{disk.loop}"} for disk in drawer.all().values()]

    def disk_add(self, host: str, name: str, size: str | int | None = None) -> Disk:
        """Plug in a new disk of `size` ('512Mi', or bytes), or the one of that name that was pulled out."""
        rack, machine = self._rack(), self._host(host)
        with self.cluster.lock():
            disk = rack.drawer(machine).insert(name, None if size is None else parse_size(size))
            if power.running(rack, machine):
                power.blockdev(rack, machine, "add", json.dumps([disk.identity()]))
            return disk

    def disk_remove(self, host: str, name: str) -> Disk:
        """Pull the disk out of the running host. Its data stay, for `disk_add` with the same name."""
        rack, machine = self._rack(), self._host(host)
        with self.cluster.lock():
            disk = rack.drawer(machine).get(name)
            if disk.plugged and power.running(rack, machine):
                power.blockdev(rack, machine, "remove", f"loop{disk.loop}")
            return rack.drawer(machine).pull(name)

    def disk_break(self, host: str, name: str) -> Disk:
        """Let the disk fail: I/O errors on everything that reaches its surface."""
        with self.cluster.lock():
            return self._rack().drawer(self._host(host)).break_disk(name)

    def disk_heal(self, host: str, name: str) -> Disk:
        """Bring a broken disk back with the data that it had."""
        rack, machine = self._rack(), self._host(host)
        with self.cluster.lock():
            disk = rack.drawer(machine).heal(name)
            if disk.plugged and power.running(rack, machine):
                power.blockdev(rack, machine, "refresh", f"/dev/loop{disk.loop}")
            return disk

    # -- power -----------------------------------------------------------------------------------------------------

    def power_off(self, host: str) -> None:
        """Cut the host's power: everything in it dies at once. Off already: nothing happens."""
        rack, machine = self._rack(), self._host(host)
        with self.cluster.lock():
            power.power_off(rack, machine)

    def power_on(self, host: str, systemd: bool = False) -> None:
        """Give the host its power back: it starts as a machine would, with what is on its disks.

        `systemd` is its process 1 if so asked, until its power is cut: for what wants a service manager.
        """
        rack, machine = self._rack(), self._host(host)
        with self.cluster.lock():
            power.power_on(rack, machine, systemd)

    def enter(self, host: str, *argv: str) -> str:
        """Run a program inside a host as root, without ssh. Returns what it prints."""
        return power.enter(self._rack(), self._host(host), *argv)

    def load_image(self, name: str, progress: Progress = _silent, only: Collection[str] = ()) -> Path:
        """Give every host that has power an image by its short name (see `images.recipes`), made now if need be.

        `only`: no others than these. Returns the archive. HostError names the host that refused it; a host without
        power does not get it.
        """
        archive, rack = images.ensure(name, self.bin_dir, progress), self._rack()

        def load(host: Host) -> None:
            with open(archive, "rb") as stream:
                power.enter_with_input(rack, host, stream, "/opt/k/ctr", "-n", "k8s.io", "images", "import", "-")

        wanted = [host for host in rack.hosts if not only or host.name in only]
        self._each([host for host in wanted if power.running(rack, host)], load)
        return archive

    # -- inside ----------------------------------------------------------------------------------------------------

    def _slot(self) -> Slot:
        slot = slots.held(self.cluster.path)
        if slot is None:
            raise HostError(f"cluster {self.cluster.name}: has no real hosts; run up with --hosts")
        return slot

    def _slot_to_clear(self) -> Slot | None:
        """The slot; without the machine's register (somebody emptied /run) the journal's, unless another has it now."""
        slot = slots.held(self.cluster.path)
        for entry in self.cluster.recorded("slot") if slot is None else ():
            if "octet" in entry:
                noted = Slot(entry["octet"], entry["first_loop"], entry["hosts"])
                slot = None if slots.is_taken(noted) else noted
        return slot

    def _hosts(self) -> list[Host]:
        return _hosts_of(self._slot())

    def _host(self, name: str) -> Host:
        for host in self._hosts():
            if host.name == name:
                return host
        raise HostError(f"host {name}: expected one of {', '.join(host.name for host in self._hosts())}")

    def _keys(self) -> ssh.Keys:
        return ssh.Keys(self.cluster.path / "ssh")

    def _rack(self) -> power.Rack:
        folder = images.default_set(self.bin_dir)
        return power.Rack(
            self.cluster, self.pki, self._keys(), self.bin_dir, folder, self.server_url, tuple(self._hosts())
        )

    def _each(self, hosts: Iterable[Host], work: Callable[[Host], None]) -> None:
        """Do the work for all hosts at the same time; one HostError for all that failed."""
        hosts = list(hosts)
        with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
            futures = [(host, pool.submit(work, host)) for host in hosts]
        failures = [(host, future.exception()) for host, future in futures]
        messages = []
        for host, error in failures:
            if error is not None and not isinstance(error, HostError):
                raise error
            if error is not None:
                messages.append(f"{error}; console of {host.name}:\n{self.cluster.log_tail(host.process, 8)}")
        if messages:
            raise HostError("\n".join(messages))

    def _remove_files(self) -> None:
        folder = self.cluster.path / "data" / "hosts"
        for file in folder.glob("*/disks/*"):  # those of broken disks cannot be deleted yet
            if file.is_file():
                commands.run("chattr", "-f", "-i", str(file))
        if folder.exists():
            shutil.rmtree(folder)
