# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands `berth-dev vm …`: arguments in, `Vm` called, a few lines out. `cli` adds them; they decide nothing."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

import yaml

from .cluster import Cluster
from .hosts.model import parse_size
from .qemu import image

EXAMPLES = """\
examples:
  berth-dev vm up                             make it, start it, wait until it answers
  berth-dev vm ssh lsblk                      run something inside; without a command: a shell
  berth-dev vm disk add x0 --bus scsi --serial S1 --wwn 0x5000000000000001
  berth-dev vm disk pull n0                   hot-unplug; `plug` brings it back with its data
  berth-dev vm off; berth-dev vm disk swap s0 s1; berth-dev vm on     they change their places
  berth-dev vm smart n0 4                     its SMART log says that it is failing; 0: healthy
  berth-dev vm io-error s0 write              writes fail; read, all, none
  berth-dev vm down                           remove it and its disks
"""

Clock = Callable[[], Callable[[str], None]]


def add_commands(commands: Any, clock: Clock) -> None:
    """Add `vm` and its actions. `clock`: makes what prints progress."""
    text = "A virtual machine (QEMU, software emulation) with real NVMe and SCSI disks."
    top = commands.add_parser(
        "vm",
        help="a virtual machine with real disks",
        description=text,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = top.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add(actions, "up", lambda cluster, _arguments: cluster.vm.up(clock()), "make and start it, or what is missing")
    _add(
        actions,
        "build",
        lambda _cluster, _arguments: print(image.ensure(clock())),
        "make its system, unless it is cached",
    )
    _add(actions, "down", lambda cluster, _arguments: _down(cluster), "remove it and its disks")
    _add(actions, "on", lambda cluster, _arguments: cluster.vm.power_on(), "start it again")
    off = _add(actions, "off", _off, "shut it down")
    off.add_argument("--cut", action="store_true", help="cut its power: what is not on the disks is lost")
    status = _add(actions, "status", _status, "what it is, and its disks")
    status.add_argument("--json", action="store_true", help="as JSON")
    _add(actions, "console", lambda cluster, _arguments: print(cluster.vm.console(), end=""), "what its kernel says")
    _add(actions, "inventory", _inventory, "print it as an Ansible inventory (YAML)")
    ssh = _add(actions, "ssh", _ssh, "run a command in it, or a shell")
    ssh.add_argument("arguments", nargs=argparse.REMAINDER, help="the command")
    smart = _add(actions, "smart", _smart, "set the critical warning of an NVMe drive")
    smart.add_argument("disk")
    smart.add_argument("critical", type=int, help="the byte: 0 healthy, 1 spare low, 4 unreliable, 8 read-only")
    errors = _add(actions, "io-error", _io_error, "let accesses to a disk fail, or heal it")
    errors.add_argument("disk")
    errors.add_argument("accesses", choices=("read", "write", "all", "none"), help="which fail; none: it works again")
    _add_disk_commands(actions)


def _add_disk_commands(actions: Any) -> None:
    disk = actions.add_parser("disk", help="its disks", description="The disks of the virtual machine, as if by hand.")
    kinds = disk.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = _add(kinds, "add", _disk_add, "plug a new disk in, while it runs or not")
    add.add_argument("disk")
    add.add_argument("--bus", choices=("nvme", "scsi"), default="nvme", help="(default: %(default)s)")
    add.add_argument("--size", default="512Mi", help="(default: %(default)s)")
    add.add_argument("--serial", help="its serial number; two disks may have the same; '': none (SCSI)")
    add.add_argument("--wwn", help="its WWN, 0x and 16 hexadecimal digits; '': none (SCSI)")
    add.add_argument("--rotational", action="store_true", help="a hard disk (SCSI)")
    plug = _add(kinds, "plug", lambda cluster, arguments: cluster.vm.disks.plug(arguments.disk), "bring a disk back")
    plug.add_argument("disk")
    pull = _add(kinds, "pull", lambda cluster, arguments: cluster.vm.disks.pull(arguments.disk), "take a disk out")
    pull.add_argument("disk")
    gone = _add(
        kinds,
        "discard",
        lambda cluster, arguments: cluster.vm.disks.discard(arguments.disk),
        "throw away a disk that is out, with all that is on it",
    )
    gone.add_argument("disk")
    swap = _add(kinds, "swap", _disk_swap, "let two disks change bays, while both are out, or while it is off")
    swap.add_argument("disk")
    swap.add_argument("other")


def _add(actions: Any, name: str, run: Callable[[Cluster, argparse.Namespace], object], text: str) -> Any:
    command = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=run)
    return command


def _down(cluster: Cluster) -> None:
    """The folder of a cluster that is nothing but this machine goes with it."""
    cluster.vm.down()
    if not (cluster.folder.path / "data" / "cluster.json").exists():
        cluster.down()


def _off(cluster: Cluster, arguments: argparse.Namespace) -> None:
    cluster.vm.power_off(cut=arguments.cut)


def _status(cluster: Cluster, arguments: argparse.Namespace) -> None:
    status = cluster.vm.status()
    print(json.dumps(status, indent=2) if arguments.json else yaml.safe_dump(status, sort_keys=False).rstrip())


def _inventory(cluster: Cluster, _arguments: argparse.Namespace) -> None:
    print(yaml.safe_dump(cluster.vm.inventory(), sort_keys=False), end="")


def _ssh(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Become ssh: a shell needs the terminal itself."""
    argv, folder = cluster.vm.ssh_command(" ".join(arguments.arguments))
    os.chdir(folder)
    # S606: arguments are a list, and no shell of this machine sees them.
    os.execvp(argv[0], argv)  # noqa: S606


def _smart(cluster: Cluster, arguments: argparse.Namespace) -> None:
    cluster.vm.disks.smart(arguments.disk, arguments.critical)


def _io_error(cluster: Cluster, arguments: argparse.Namespace) -> None:
    cluster.vm.disks.errors(arguments.disk, arguments.accesses)


def _disk_add(cluster: Cluster, arguments: argparse.Namespace) -> None:
    wished = {"serial": arguments.serial, "wwn": arguments.wwn, "rotational": arguments.rotational}
    cluster.vm.disks.add(arguments.disk, arguments.bus, parse_size(arguments.size), **wished)


def _disk_swap(cluster: Cluster, arguments: argparse.Namespace) -> None:
    cluster.vm.disks.swap(arguments.disk, arguments.other)
