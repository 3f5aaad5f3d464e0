# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switching a host on and off. `hostset` calls this.

On: control groups, loop devices, configuration, then inside/launch.sh, which becomes the host; last the cable.
Off: everything in the host's control groups is killed, as when the power fails. Its system disk and its disks stay
attached, and the next start finds them as they were left. Order matters: what is made is in the journal before.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import HostError
from ..pki import Pki
from ..state import ClusterDir, write_atomically
from . import cgroups, loops, net, services, ssh
from .commands import SYSTEM_PATH, run
from .disks import Drawer
from .model import Disk, Host, new_disk

INSIDE = Path(__file__).resolve().parent / "inside"
SYSTEM_SIZE = 8 << 30  # bytes, sparse


@dataclass(frozen=True)
class Rack:
    """What every host of a cluster shares. `hosts`: all of them; `images`: folder of image archives to load."""

    cluster: ClusterDir
    pki: Pki
    keys: ssh.Keys
    bin_dir: Path
    images: Path
    server_url: str
    hosts: Sequence[Host]

    @property
    def token(self) -> str:
        """Tells this cluster from all others."""
        return self.cluster.tag.partition("=")[2]

    def folder(self, host: Host) -> Path:
        """Where the host's files are on the machine."""
        return self.cluster.path / "data" / "hosts" / host.name

    def drawer(self, host: Host) -> Drawer:
        """The host's disks."""
        return Drawer(host, self.folder(host), self.cluster.name, self.token)


def running(rack: Rack, host: Host) -> bool:
    """True when the host has power."""
    return rack.cluster.alive(host.process)


def init_pid(rack: Rack, host: Host) -> int:
    """The machine's pid of the host's process 1, in whose namespaces one can enter. HostError without power."""
    pid = rack.cluster.pid(host.process)
    if pid is None:
        raise HostError(f"host {host.name}: has no power; switch it on first")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if not children:
        raise HostError(f"host {host.name}: is only just starting; try again")
    return int(children[0])


def enter(rack: Rack, host: Host, *argv: str) -> str:
    """Run a program inside the host (not in its control groups: for short work of berth-dev, not for workloads)."""
    return run("nsenter", "-t", str(init_pid(rack, host)), "-m", "-u", "-i", "-n", "-p", *argv)


def enter_with_input(rack: Rack, host: Host, stream: IO[bytes], *argv: str) -> None:
    """The same with the contents of a file as its input."""
    nsenter = ["nsenter", "-t", str(init_pid(rack, host)), "-m", "-u", "-i", "-n", "-p"]
    done = subprocess.run([*nsenter, *argv], stdin=stream, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"host {host.name}: {' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")


def blockdev(rack: Rack, host: Host, command: str, argument: str) -> None:
    """Tell the inside of a running host about a disk."""
    enter(rack, host, "/usr/bin/python3", "-I", "/opt/berth/inside/blockdev.py", command, argument)


def power_on(rack: Rack, host: Host, systemd: bool = False) -> None:
    """Start the host, with berth-dev's own process 1 or `systemd`. It has power and its cable: nothing happens.

    Power without a cable is a start that was cut short before the host could come up: it is done again.
    """
    if running(rack, host) and net.fasten_cable(host):
        return
    power_off(rack, host)  # what an earlier life has left
    trees = cgroups.hierarchies()
    groups = cgroups.folders(trees, f"{cgroups.PREFIX}{rack.token[:8]}-{host.name}")
    rack.cluster.record("host", host.name, groups=[str(group) for group in groups])
    cgroups.create(groups)
    cgroups.deny_devices(groups, host.loops)
    system = _attach_disks(rack, host)
    _write_seed(rack, host, system, systemd)
    settings = _write_settings(rack, host, trees)
    launch = [str(INSIDE / "launch.sh"), str(settings), *(str(group) for group in groups)]
    pid = rack.cluster.spawn(host.process, ["/bin/sh", *launch], env={"PATH": SYSTEM_PATH}, cwd="/")
    net.plug_cable(host, pid)


def power_off(rack: Rack, host: Host) -> None:
    """Cut the host's power. It has none: only leftovers are cleared."""
    rack.cluster.stop(host.process, timeout=0)
    groups = recorded_groups(rack.cluster, host.name)
    cgroups.kill_members(groups)
    net.unplug_cable(host)
    cgroups.remove(groups)
    rack.cluster.forget("host", host.name)


def recorded_groups(cluster: ClusterDir, name: str) -> list[Path]:
    """The control groups that the journal has for a host."""
    return [Path(group) for entry in cluster.recorded("host") if entry["id"] == name for group in entry["groups"]]


def _attach_disks(rack: Rack, host: Host) -> Disk:
    """Every loop device of the host. Returns the system disk."""
    folder, drawer = rack.folder(host), rack.drawer(host)
    (folder / "root").mkdir(mode=0o700, parents=True, exist_ok=True)
    image = folder / "system.img"
    if not image.exists():
        fresh = folder / "system.new"
        with open(fresh, "wb") as stream:
            stream.truncate(SYSTEM_SIZE)
        lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
        run("mkfs.ext4", "-q", "-F", "-L", "system", "-E", lazy, str(fresh))
        fresh.replace(image)
    system = new_disk(rack.cluster.name, rack.token, host, "system", SYSTEM_SIZE, host.loops[0])
    loops.attach(system.loop, image)
    drawer.fill()
    for disk in drawer.plugged():
        drawer.attach(disk)
    for number in host.spare_loops:
        loops.detach_ours(number, folder, host.loops)
    return system


def _write_seed(rack: Rack, host: Host, system: Disk, systemd: bool) -> None:
    """The files that the host's start copies onto its system disk: configuration, certificates, programs of berth."""
    seed = rack.folder(host) / "seed"
    shutil.rmtree(seed, ignore_errors=True)
    disks = [disk.identity() for disk in [system, *rack.drawer(host).plugged()]]
    serving = rack.pki.server(f"system:node:{host.name}", [host.name], [host.address])
    kubelet = rack.pki.kubeconfig(f"system:node:{host.name}", ["system:nodes"], rack.server_url)
    proxy = rack.pki.kubeconfig("system:kube-proxy", [], rack.server_url)
    texts = {
        "opt/berth/host.json": json.dumps(services.init_settings(host, rack.hosts, disks, systemd), indent=1),
        "opt/berth/inside/init.py": (INSIDE / "init.py").read_text(),
        "opt/berth/inside/__init__.py": "",
        "opt/berth/inside/blockdev.py": (INSIDE / "blockdev.py").read_text(),
        "opt/berth/inside/systemd.py": (INSIDE / "systemd.py").read_text(),
        "etc/hostname": f"{host.name}\n",
        "etc/machine-id": f"{_machine_id(rack, host)}\n",
        "etc/hosts": services.etc_hosts(rack.hosts),
        "etc/resolv.conf": "# no name server: the hosts have no way out of this machine\n",
        "etc/containerd/config.toml": services.containerd_config(),
        "etc/cni/net.d/10-berth.conflist": services.cni_config(host),
        "etc/kubernetes/kubelet.yaml": services.kubelet_config(host),
        "etc/kubernetes/kubelet.kubeconfig": kubelet.read_text(),
        "etc/kubernetes/kubelet.crt": serving.cert.read_text(),
        "etc/kubernetes/kubelet.key": serving.key.read_text(),
        "etc/kubernetes/ca.crt": rack.pki.ca_cert.read_text(),
        "etc/kubernetes/proxy.yaml": services.proxy_config(host),
        "etc/kubernetes/proxy.kubeconfig": proxy.read_text(),
        "etc/ssh/berth_sshd_config": ssh.sshd_config(host.address),
        "etc/ssh/berth_host_key": rack.keys.host_key(host).read_text(),
        "etc/ssh/berth_authorized_keys": f"{ssh.public(rack.keys.user_key)}\n",
    }
    public = {"etc/hostname", "etc/machine-id", "etc/hosts", "etc/resolv.conf"}
    for path, text in texts.items():
        _write(seed / path, text, 0o644 if path in public else 0o600)
    programs = {"losetup": services.losetup_wrapper(host), "udevadm": services.UDEVADM}
    for name, text in {**programs, "berth-udev-refresh": services.REFRESH}.items():
        _write(seed / "usr/local/sbin" / name, text, 0o755)


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomically(path, text, mode)


def _machine_id(rack: Rack, host: Host) -> str:
    """32 hexadecimal digits that stay the same for the host's life and differ from every other host's."""
    return hashlib.sha256(f"{rack.token}/{host.name}".encode()).hexdigest()[:32]


def _write_settings(rack: Rack, host: Host, trees: Sequence[cgroups.Hierarchy]) -> Path:
    """The shell variables of rootfs.sh."""
    folder = rack.folder(host)
    first = [tree for tree in trees if tree.version == 1]
    values = {
        "HOST_NAME": host.name,
        "SYSTEM_LOOP": str(host.loops[0]),
        "ROOT": str(folder / "root"),
        "SEED": str(folder / "seed"),
        "BIN": str(rack.bin_dir),
        "IMAGES": str(rack.images),
        "CGROUPS": "\n".join(f"{tree.name} {tree.mount_options}" for tree in first) or "v2",
    }
    path = folder / "settings.sh"
    write_atomically(path, "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items()))
    return path
