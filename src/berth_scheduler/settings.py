"""What the command line and the environment say. Called by __main__; nobody else reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from berth_core.app.fsid import DEFAULT_MOUNT_ROOT
from berth_kube import option_values, options

#: Each flag of `run` has an environment variable: BERTH_SCHEDULER_ and the flag's name in capitals.
PREFIX = "BERTH_SCHEDULER_"


@dataclass(frozen=True)
class Settings:
    """``kubeconfig`` empty: the pod's service account, else the user's own file. ``config`` empty: the defaults."""

    config: str = ""
    kubeconfig: str = ""
    namespace: str = "berth-system"
    identity: str = ""
    leader_elect: bool = True
    mount_root: str = DEFAULT_MOUNT_ROOT
    address: str = "127.0.0.1"
    port: int = 9810
    tls_certificate: str = ""
    tls_key: str = ""
    renew_token: str = ""
    page_port: int = 0
    log_format: str = "logfmt"
    log_level: str = "info"


_HELP = {
    "config": "KubeSchedulerConfiguration file (default: one profile, berth-scheduler)",
    "kubeconfig": "kubeconfig file (default: the configuration's, the pod's service account, or ~/.kube/config)",
    "namespace": "namespace of the Lease, unless the configuration names another",
    "identity": "name of this process in the Lease (default: the host's name and a random part)",
    "leader_elect": "place pods only while holding the Lease",
    "mount_root": "directory below which agents mount disks (the agents' mount_root)",
    "address": "address of /metrics, /healthz and /readyz",
    "port": "their port; 0: not served",
    "tls_certificate": "PEM file; with tls-key: serve them by TLS",
    "tls_key": "PEM file",
    "renew_token": "keep the account's token in this file (the kubeconfig's tokenFile) fresh, bound to its Node",
    "page_port": "port of the cluster's page, on the loopback alone; 0: not served",
    "log_format": "logfmt or json",
    "log_level": "debug, info, warning or error",
}


def add_run(commands: Any) -> None:
    """The command `run`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="place pods until stopped",
        description="Places the pods whose schedulerName is one of the configuration's profiles.",
        epilog=f"Each flag can be given as an environment variable: --leader-elect as {PREFIX}LEADER_ELECT=true.",
    )
    options.add_flags(parser, Settings, _HELP)


def read(arguments: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of a parsed command line. Raises InputError that names the flag and the variable."""
    values: dict[str, Any] = options.read(arguments, os.environ if environ is None else environ, Settings, PREFIX)
    return _checked(Settings(**values))


def _checked(settings: Settings) -> Settings:
    options.check_mount_root(settings)
    options.check_served(settings)
    if settings.renew_token:
        option_values.check_file("--renew-token", settings.renew_token, "the file of the account's token")
    return settings
