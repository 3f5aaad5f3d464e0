# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `berth-dev`: arguments in, `Cluster` called, a few lines out. It decides nothing.

Exit status: 0 done, 1 an error (one message on stderr), 2 arguments that cannot be understood, 130 interrupted.
Results go to stdout, progress and errors to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from . import build, images, kind_cli, vm_cli
from .cluster import Cluster, kubectl_environment
from .errors import DevError
from .kwok import Shape

EXAMPLES = """\
examples:
  berth-dev up                                three real hosts (as root), ready to use
  berth-dev up --hosts 0 --fake-nodes 1000    control plane and a thousand fake nodes; needs no root
  export KUBECONFIG=$(berth-dev kubeconfig)   then kubectl, Ansible, anything
  berth-dev kubectl get nodes                 with the cluster's own kubectl
  berth-dev inventory > hosts.yml             the hosts for ansible -i hosts.yml
  berth-dev disk list h1                      its disks; also: add, remove, break, heal
  berth-dev power off h2                      cut its power; `power on h2` brings it back
  berth-dev image postgresql                  an image that is not there from the start
  berth-dev vm up                             a virtual machine with NVMe and SCSI disks
  berth-dev kind up                           a kind cluster, its node image built here
  berth-dev --name second up                  another cluster beside the first
  berth-dev down                              removes everything
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status."""
    arguments = parsed(sys.argv[1:] if argv is None else argv)
    run: Callable[[Cluster, argparse.Namespace], None] = arguments.run
    try:
        run(Cluster(Path(arguments.dir) if arguments.dir else arguments.name), arguments)
    except DevError as error:
        print(f"berth-dev: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("berth-dev: interrupted; `berth-dev status` shows what is there", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read the output has seen enough
    return 0


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    """The command line, understood. Whatever follows `kubectl` is kubectl's, options too: argparse would take those
    that come first for its own.
    """
    known, ours = parser(), list(argv)
    kubectl = _place_of_command(ours)
    if kubectl is None or ours[kubectl] != "kubectl":
        return known.parse_args(ours)
    arguments = known.parse_args(ours[: kubectl + 1])
    arguments.arguments = ours[kubectl + 1 :]
    return arguments


def _place_of_command(argv: Sequence[str]) -> int | None:
    """Where the command stands: behind the options of berth-dev itself, each of which has a value."""
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        at += 1 if "=" in argv[at] else 2
    return at if at < len(argv) else None


def parser() -> argparse.ArgumentParser:
    """The command line, but for kubectl's arguments."""
    top = argparse.ArgumentParser(
        prog="berth-dev",
        description="A real Kubernetes on this machine, for development and tests.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = top.add_mutually_exclusive_group()
    where.add_argument("--name", default="default", help="the cluster's name (default: %(default)s)")
    where.add_argument("--dir", help="the cluster's folder, instead of the one that its name gives")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_cluster_commands(commands)
    _add_node_commands(commands)
    _add_host_commands(commands)
    kind_cli.add_commands(commands, _Clock)
    vm_cli.add_commands(commands, _Clock)
    return top


def _command(commands: Any, name: str, run: Callable[[Cluster, argparse.Namespace], None], text: str) -> Any:
    """One subcommand; `text` is its help and description."""
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=run)
    return command


def _add_cluster_commands(commands: Any) -> None:
    up = _command(commands, "up", _up, "start the cluster, or what is missing of it")
    up.add_argument("--hosts", type=int, help="number of real hosts (default: 3 as root, else 0)")
    up.add_argument("--fake-nodes", type=int, default=0, help="at least so many fake nodes (default: %(default)s)")
    up.add_argument("--version", help=f"Kubernetes version (default: {build.DEFAULT_VERSION})")
    up.add_argument("--node-grace", type=int, help="seconds of silence until a node is NotReady (default: 30)")
    up.add_argument("--check", action="store_true", help="only print what would be started or made, a line each")
    _command(commands, "down", _down, "remove the cluster and everything that it put on the machine")
    status = _command(commands, "status", _status, "what is there and what runs")
    status.add_argument("--json", action="store_true", help="as JSON")
    _command(commands, "kubeconfig", _kubeconfig, "print the path of the administrator's kubeconfig")
    _command(commands, "inventory", _inventory, "print the hosts as an Ansible inventory (YAML)")
    fetch = _command(commands, "build", _build, "build the programs and print the folder that they are in")
    fetch.add_argument("--version", default=build.DEFAULT_VERSION, help="Kubernetes version (default: %(default)s)")
    fetch.add_argument("--image", action="append", default=[], help="make this image too, for later; may be repeated")
    image = _command(commands, "image", _image, "make a container image and give it to every host")
    image.add_argument("image", help="pause, busybox, postgresql, berth or scheduler")
    text = "run the cluster's own kubectl as the administrator; what follows is kubectl's, --help too"
    _command(commands, "kubectl", _kubectl, text)


def _add_node_commands(commands: Any) -> None:
    nodes = commands.add_parser("nodes", help="fake nodes", description="Fake nodes, kept Ready by kwok.")
    actions = nodes.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = _command(actions, "add", _nodes_add, "add fake nodes")
    add.add_argument("count", type=int, help="how many")
    add.add_argument("--cpu", default=Shape.cpu, help="cores of each (default: %(default)s)")
    add.add_argument("--memory", default=Shape.memory, help="memory of each (default: %(default)s)")
    add.add_argument("--pods", type=int, default=Shape.pods, help="most pods on each (default: %(default)s)")
    add.add_argument("--prefix", default=Shape.prefix, help="their names begin with this (default: %(default)s)")
    add.add_argument("--zones", type=int, default=0, help="spread them over so many zones")
    add.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="a label; may be repeated")
    gone = _command(actions, "remove", _nodes_remove, "remove fake nodes")
    gone.add_argument("--prefix", default="", help="only those whose names begin with this")
    _command(actions, "list", _nodes_list, "print the names of the fake nodes")


def _add_host_commands(commands: Any) -> None:
    disk = commands.add_parser("disk", help="disks of a host", description="Disks of a real host, as if by hand.")
    actions = disk.add_subparsers(title="actions", metavar="ACTION", required=True)
    texts = {
        "add": "plug a disk in: a new one, or one that was removed, with its data",
        "remove": "pull a disk out; its data is kept",
        "break": "make a disk fail: every access gives an I/O error",
        "heal": "make a broken disk work again, its data as before",
    }
    for name, text in texts.items():
        action = _command(actions, name, _disk, text)
        action.set_defaults(action=name)
        action.add_argument("host")
        action.add_argument("disk", help="the disk's name")
        if name == "add":
            action.add_argument("--size", help="size of a new disk, such as 512Mi; one that was pulled out has its own")
    listing = _command(actions, "list", _disk_list, "print the disks of a host")
    listing.add_argument("host")
    power = commands.add_parser("power", help="power of a host", description="Cut a host's power, or give it back.")
    actions = power.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, text in (("off", "cut the power"), ("on", "give power"), ("status", "print whether it has power")):
        action = _command(actions, name, _power, text)
        action.set_defaults(action=name)
        action.add_argument("host")
        if name == "on":
            action.add_argument("--systemd", action="store_true", help="systemd is its process 1, until power is cut")


# -- what each does ----------------------------------------------------------------------------------------------------


class _Clock:
    """Progress lines on stderr, each with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {line}", file=sys.stderr, flush=True)


def _up(cluster: Cluster, arguments: argparse.Namespace) -> None:
    if arguments.check:
        for line in cluster.lacks(arguments.hosts, arguments.fake_nodes, arguments.version):
            print(line)
        return
    cluster.up(
        arguments.hosts,
        arguments.fake_nodes,
        arguments.version,
        node_grace=arguments.node_grace,
        progress=_Clock(),
    )
    print(f"export KUBECONFIG={cluster.kubeconfig}")


def _down(cluster: Cluster, arguments: argparse.Namespace) -> None:  # noqa: ARG001
    if not cluster.down(progress=_Clock()):
        print(f"berth-dev: cluster {cluster.folder.name} is not there ({cluster.folder.path})", file=sys.stderr)


def _status(cluster: Cluster, arguments: argparse.Namespace) -> None:
    status = cluster.status()
    if arguments.json:
        print(json.dumps(status, indent=2))
        return
    print(yaml.safe_dump(status, sort_keys=False), end="")


def _kubeconfig(cluster: Cluster, arguments: argparse.Namespace) -> None:  # noqa: ARG001
    print(cluster.existing_kubeconfig())


def _inventory(cluster: Cluster, arguments: argparse.Namespace) -> None:  # noqa: ARG001
    print(yaml.safe_dump(cluster.hosts.inventory(), sort_keys=False), end="")


def _build(cluster: Cluster, arguments: argparse.Namespace) -> None:  # noqa: ARG001
    clock = _Clock()
    programs = build.ensure_binaries(arguments.version, clock)
    for name in arguments.image:
        images.ensure(name, programs, clock)
    print(programs)


def _image(cluster: Cluster, arguments: argparse.Namespace) -> None:
    print(cluster.hosts.load_image(arguments.image, _Clock()))


def _kubectl(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Become kubectl: exec and logs -f need the terminal itself."""
    kubeconfig, kubectl = cluster.existing_kubeconfig(), cluster.bin_dir / "kubectl"
    # S606: arguments are a list and the program is berth-dev's own.
    os.execve(kubectl, ["kubectl", *arguments.arguments], kubectl_environment(kubeconfig))  # noqa: S606


def _nodes_add(cluster: Cluster, arguments: argparse.Namespace) -> None:
    labels = dict(_label(text) for text in arguments.label)
    shape = Shape(arguments.cpu, arguments.memory, arguments.pods, arguments.prefix, labels, arguments.zones)
    print(f"{cluster.add_nodes(arguments.count, shape)} fake nodes added, all Ready")


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise DevError(f"label {text!r}: expected KEY=VALUE")
    return key, value


def _nodes_remove(cluster: Cluster, arguments: argparse.Namespace) -> None:
    print(f"{cluster.remove_nodes(arguments.prefix)} fake nodes removed")


def _nodes_list(cluster: Cluster, arguments: argparse.Namespace) -> None:  # noqa: ARG001
    for name in cluster.fake_nodes():
        print(name)


def _disk(cluster: Cluster, arguments: argparse.Namespace) -> None:
    hosts, host, disk = cluster.hosts, arguments.host, arguments.disk
    if arguments.action == "add":
        hosts.disk_add(host, disk, arguments.size)
    elif arguments.action == "remove":
        hosts.disk_remove(host, disk)
    elif arguments.action == "break":
        hosts.disk_break(host, disk)
    else:
        hosts.disk_heal(host, disk)


def _disk_list(cluster: Cluster, arguments: argparse.Namespace) -> None:
    print(yaml.safe_dump(cluster.hosts.disks(arguments.host), sort_keys=False), end="")


def _power(cluster: Cluster, arguments: argparse.Namespace) -> None:
    if arguments.action == "off":
        cluster.hosts.power_off(arguments.host)
    elif arguments.action == "on":
        cluster.hosts.power_on(arguments.host, arguments.systemd)
    else:
        found = [host for host in cluster.hosts.status() if host["name"] == arguments.host]
        if not found:
            raise DevError(f"host {arguments.host!r}: the cluster has no such host; `berth-dev status` lists them")
        print(yaml.safe_dump(found[0], sort_keys=False), end="")
