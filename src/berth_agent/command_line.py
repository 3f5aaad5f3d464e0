"""The command line of ``berth-agent``: its options, and what none of them can be. Called by __main__."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from berth_kube import option_values

from . import VERSION

CONFIG = "/etc/berth/agent.yaml"
STATE = "/var/lib/berth/agent"
_EXAMPLES = """\
examples:
  berth-agent check-config /etc/berth/agent.yaml
  berth-agent run --kubeconfig /etc/berth/agent.kubeconfig
  berth-agent once --node-name h1              publish what is there now, do nothing else

SIGHUP reads the configuration and surveys the host at once; both happen by themselves too.
"""


def parser() -> argparse.ArgumentParser:
    """What --help shows."""
    made = argparse.ArgumentParser(
        prog="berth-agent",
        description="Publishes a node's disks and devices as custom resources; does to disks what locks allow.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=VERSION)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser("check-config", help="say what is wrong with a configuration file, with lines")
    check.add_argument("file", metavar="FILE", type=Path)
    for name, text in (("run", "run until stopped"), ("once", "publish what is there now, and end")):
        _add_run_options(commands.add_parser(name, help=text))
    return made


def _add_run_options(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--config",
        action="append",
        metavar="FILE",
        type=Path,
        help=f"the configuration; given several times, the first file that exists (default: {CONFIG})",
    )
    run.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, else the pod's service account")
    run.add_argument(
        "--node-name", default=os.environ.get("NODE_NAME", ""), help="the Node (default: $NODE_NAME, else the file's)"
    )
    run.add_argument(
        "--namespace", default="berth-system", help="of the agent's Lease, a DNS-1123 label (default: %(default)s)"
    )
    run.add_argument(
        "--state-directory", default=STATE, metavar="DIR", help="made where it is missing (default: %(default)s)"
    )
    run.add_argument(
        "--host-root",
        default="",
        metavar="DIR",
        help="in a container: where the host's whole tree is mounted, for what the host has mounted where",
    )
    run.add_argument(
        "--tree",
        default="/",
        metavar="DIR",
        help="look at the recorded /sys, /run/udev and /proc of another machine; nothing is done to its disks",
    )
    run.add_argument(
        "--renew-token",
        metavar="FILE",
        help="keep the service account's token in FILE (the kubeconfig's tokenFile) fresh, bound to this node",
    )
    run.add_argument(
        "--ready-file", metavar="FILE", help="make FILE once everything that was seen is published (a pod's probe)"
    )
    run.add_argument("--log-format", choices=("logfmt", "json"), default="logfmt")
    run.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")


def check_options(options: argparse.Namespace) -> None:
    """Refuse what cannot be meant, before anything is read or made. Raises InputError that names the option."""
    if options.node_name:
        option_values.check_object_name("--node-name (or NODE_NAME)", options.node_name, "Node")
    option_values.check_namespace("--namespace", options.namespace)
    option_values.check_directory_to_make("--state-directory", options.state_directory)
    option_values.check_directory("--tree", options.tree)
    if options.host_root:
        option_values.check_directory("--host-root", options.host_root)
    if options.renew_token:
        option_values.check_file("--renew-token", options.renew_token, "the file of the account's token")
    if options.ready_file:
        option_values.check_file_to_make("--ready-file", options.ready_file)
