# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands `berth-dev kind …`: arguments in, `KindCluster` called, a few lines out. `cli` adds them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import yaml

from .cluster import Cluster
from .kind import image
from .kind.cluster import KindCluster
from .kind.model import Port, Wish

EXAMPLES = """\
examples:
  berth-dev kind image                        make the node image (minutes the first time) and print its archive
  berth-dev --name try kind up                a control plane and two workers with disks
  berth-dev --name try kind up --fake-nodes 50    and fifty nodes of kwok beside them
  berth-dev --name try kind load berth        an image of this project for every node
  berth-dev --name try kind stop try-worker   and start: a node goes down, and comes back with its disks
  berth-dev --name try kind down              removes everything
"""

Clock = Callable[[], Callable[[str], None]]
Run = Callable[[KindCluster, argparse.Namespace], object]


def add_commands(commands: Any, clock: Clock) -> None:
    """Add `kind` and its actions. `clock`: makes what prints progress."""
    text = "Kubernetes in Docker (kind), its node image built here, its workers with disks of their own."
    top = commands.add_parser(
        "kind",
        help="a kind cluster",
        description=text,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = top.add_subparsers(title="actions", metavar="ACTION", required=True)
    up = _add(actions, "up", lambda kind, arguments: _up(kind, arguments, clock), "make it, or start what is missing")
    up.add_argument("--workers", type=int, default=Wish.workers, help="how many (default: %(default)s)")
    up.add_argument("--image", default="", help="node image of a registry (default: one made here)")
    up.add_argument("--kubernetes", default="", metavar="VERSION", help="refuse an image of another minor or release")
    up.add_argument("--api-port", type=int, default=0, help="the API server's port here (default: a free one)")
    up.add_argument("--port", action="append", default=[], metavar="MACHINE:NODE", help="of the control plane's node")
    up.add_argument(
        "--fake-nodes", type=int, default=0, help="at least so many fake nodes beside (default: %(default)s)"
    )
    up.add_argument("--check", action="store_true", help="only print what would be made, a line each")
    _add(actions, "down", lambda kind, _arguments: kind.down(), "remove it and everything that it put on the machine")
    status = _add(actions, "status", _status, "what is there and what runs")
    status.add_argument("--json", action="store_true", help="as JSON")
    _add(actions, "kubeconfig", lambda kind, _arguments: print(kind.kubeconfig), "print the path of the kubeconfig")
    _add(actions, "inventory", _inventory, "print the nodes as an Ansible inventory (YAML)")
    load = _add(
        actions, "load", lambda kind, arguments: kind.load(arguments.images, clock()), "give images to the nodes"
    )
    load.add_argument("images", nargs="+", help="pause, busybox, postgresql, berth or scheduler")
    stop = _add(actions, "stop", lambda kind, arguments: kind.stop_node(arguments.node), "stop a node, in order")
    stop.add_argument("node")
    start = _add(actions, "start", lambda kind, arguments: kind.start_node(arguments.node), "start it again")
    start.add_argument("node")
    build = _add(actions, "image", lambda _kind, arguments: _image(arguments, clock), "make the node image")
    build.add_argument("--cached", action="store_true", help="make nothing; exit status 1 when it would take a build")


def _add(actions: Any, name: str, run: Run, text: str) -> Any:
    command = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")

    def call(cluster: Cluster, arguments: argparse.Namespace) -> object:
        return run(KindCluster(cluster.folder.name), arguments)

    command.set_defaults(run=call)
    return command


def _up(kind: KindCluster, arguments: argparse.Namespace, clock: Clock) -> None:
    ports = tuple(Port.parse(text) for text in arguments.port)
    wish = Wish(kind.name, arguments.workers, arguments.image, arguments.kubernetes, arguments.api_port, ports)
    if arguments.check:
        for line in kind.lacks(wish, arguments.fake_nodes):
            print(line)
        return
    kind.up(wish, clock(), arguments.fake_nodes)


def _status(kind: KindCluster, arguments: argparse.Namespace) -> None:
    status = kind.status()
    print(json.dumps(status, indent=2) if arguments.json else yaml.safe_dump(status, sort_keys=False).rstrip())


def _inventory(kind: KindCluster, _arguments: argparse.Namespace) -> None:
    print(yaml.safe_dump(kind.inventory(), sort_keys=False), end="")


def _image(arguments: argparse.Namespace, clock: Clock) -> None:
    if not arguments.cached:
        print(image.ensure(clock()))
    elif not image.cached():
        raise SystemExit(1)
