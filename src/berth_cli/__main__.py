"""kubectl-berth: the command line. `kubectl berth --help`, once it is on the PATH, or `kubectl-berth --help`.

Exit status: 0 all is well; 1 there is drift, a replica has no place, an app is stalled, or a task never
starts; 2 wrong usage or settings;
3 the API server refuses or cannot be reached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from berth_core.errors import BerthError, InputError, QuantityError
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.option_values import check_namespace, check_object_name, number_within

from . import commands, tables

NAME = "kubectl-berth"
#: Least and most of --timeout.
SECONDS = (0.1, 3600.0)
FINE, FOUND, USAGE, REFUSED = 0, 1, 2, 3
#: Commands that take the name of something: how usage calls it, and what it is.
NAMED = {
    "explain": ("POD|APP", "pod or app"),
    "history": ("POD|APP", "pod or app"),
    "tasks": ("TASK|BATCH", "task or batch"),
}


class Command(NamedTuple):
    """What a command does, in one line; how it reads and answers, and how the answer is written."""

    words: str
    run: Callable[[KubeClient, argparse.Namespace], Awaitable[commands.Answer]]
    text: Callable[[tables.Answer], str]


COMMANDS = {
    "show": Command("berths, and who holds which disk and device", commands.show, tables.show),
    "apps": Command("StatefulApps: who carries each out, how far it is, what it waits for", commands.apps, tables.apps),
    "explain": Command("why a pod, or the replicas of an app, wait", commands.explain, tables.explain),
    "drift": Command("what is not as it was declared, and what nobody holds any more", commands.drift, tables.drift),
    "history": Command("who changed the berths of an app or a pod, and when", commands.history, tables.history),
    "tasks": Command("Tasks and TaskBatches: how far, how fast, and how each ended", commands.tasks, tables.tasks),
    "top": Command("disk room by node and class: used and free", commands.top, tables.top),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        _check(options)
        answer = asyncio.run(_run(options))
    except (InputError, QuantityError) as exc:
        return _failed(exc, USAGE)
    except BerthError as exc:
        return _failed(exc, REFUSED)
    command = COMMANDS[options.command]
    text = json.dumps(answer.value, indent=2) + "\n" if options.output == "json" else command.text(answer.value)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FINE if answer.good else FOUND


async def _run(options: argparse.Namespace) -> commands.Answer:
    who = config.load(options.kubeconfig, options.context, allow_insecure=options.insecure)
    async with KubeClient(who, user_agent=NAME, timeout=options.timeout) as client:
        return await COMMANDS[options.command].run(client, options)


def _check(options: argparse.Namespace) -> None:
    """Refuse what cannot be meant, before anybody is asked. Raises InputError that names the option."""
    options.timeout = number_within("--timeout", options.timeout, *SECONDS, whole=False)
    if getattr(options, "namespace", None) is not None:
        check_namespace("--namespace", options.namespace)
    if getattr(options, "queue", None) is not None:
        check_object_name("--queue", options.queue, "queue")
    if getattr(options, "app", None) is not None:
        check_object_name("--app", options.app, "app")
    if getattr(options, "name", None) is not None:
        metavar, what = NAMED[options.command]
        check_object_name(metavar, options.name, what)
    if getattr(options, "declared", None) is not None:
        options.declared = commands.read_declared(options.declared)


def _failed(exc: BerthError, status: int) -> int:
    sys.stderr.write(f"{NAME}: {tables.clean(exc.message)}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kubectl berth",
        description="Who holds which local disk, how far an app or a task is, why a pod waits, what has drifted.",
        epilog="Exit status: 0 all is well; 1 drift, no place, an app or a task that is stuck; 2 usage; 3 API server.",
    )
    several = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        one = several.add_parser(name, help=command.words, description=command.words.capitalize() + ".")
        one.add_argument("-o", "--output", choices=("text", "json"), default="text")
        one.add_argument("--kubeconfig", help="the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
        one.add_argument("--context", help="its context")
        one.add_argument("--insecure", action="store_true", help="obey a kubeconfig that gives up verified TLS")
        one.add_argument("--timeout", default="30", help="seconds for one request (default: 30; 0.1 to 3600)")
        if name in ("show", "apps", "tasks", "explain", "history"):
            one.add_argument("-n", "--namespace", help="the namespace (default: the context's)")
        if name in ("show", "apps", "tasks"):
            beside = ", and free disks" if name == "show" else ""
            one.add_argument("-A", "--all-namespaces", action="store_true", help=f"of all namespaces{beside}")
        if name == "tasks":
            one.add_argument("-q", "--queue", help="of this queue alone")
        if name in ("show", "apps"):
            one.add_argument("--app", help="of this app alone")
        if name in NAMED:  # of tasks all are shown without one
            one.add_argument("name", metavar=NAMED[name][0], nargs="?" if name == "tasks" else None)
        if name == "drift":
            one.add_argument("--declared", metavar="FILE", help="YAML list of declared disks (local_disk_plan)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
