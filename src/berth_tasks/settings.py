"""What the command line and the environment say. Called by __main__; nobody else reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth_core.errors import InputError
from berth_core.tasks.offers import POLICIES
from berth_kube import option_values, options

#: Each flag has an environment variable: BERTH_TASKS_ and the flag's name in capitals.
PREFIX = "BERTH_TASKS_"


@dataclass(frozen=True)
class Settings:
    """Durations are seconds. ``kubeconfig`` empty: the pod's service account, else the user's own file."""

    kubeconfig: str = ""
    namespace: str = "berth-system"
    identity: str = ""
    leader_elect: bool = True
    workers: int = 16
    policy: str = "fair"
    store: str = ""
    poll_interval: float = 300.0
    running_after: float = 5.0
    log_lines: int = 20
    address: str = "127.0.0.1"
    port: int = 9813
    tls_certificate: str = ""
    tls_key: str = ""
    log_format: str = "logfmt"
    log_level: str = "info"


#: Least and most; durations in seconds.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "workers": (1, 64),
    "poll_interval": (1, 86400),
    "running_after": (0, 3600),
    "log_lines": (0, 200),
}

_HELP = {
    "kubeconfig": "kubeconfig file (default: the pod's service account, else KUBECONFIG or ~/.kube/config)",
    "namespace": "namespace of the Lease",
    "identity": "name of this process in the Lease (default: the host's name and a random part)",
    "leader_elect": "work only while holding the Lease berth-tasks",
    "workers": "tasks that are worked on at one time",
    "policy": "which queue is served next: fair or priority",
    "store": "SQLite file of the checkpoint, made where it is missing (default: none, a restart lists the pods)",
    "poll_interval": "seconds between two whole lists of tasks' pods, whatever the watch told",
    "running_after": "seconds that a task runs before that is written into its status; short ones cost no write",
    "log_lines": "lines of the end of a pod's log that are kept in the Task; 0: none is read",
    "address": "address of /metrics, /healthz and /readyz",
    "port": "their port; 0: not served",
    "tls_certificate": "PEM file; with tls-key: serve them by TLS",
    "tls_key": "PEM file",
    "log_format": "logfmt or json",
    "log_level": "debug, info, warning or error",
}


def parse(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of a command line. Raises InputError that names the flag or the variable."""
    parser = argparse.ArgumentParser(
        prog="berth-tasks",
        description="Runs Tasks to completion, one pod a try.",
        epilog=f"Each flag can be given as an environment variable: --leader-elect as {PREFIX}LEADER_ELECT=true.",
    )
    options.add_flags(parser, Settings, _HELP, BOUNDS)
    given: dict[str, Any] = options.read(
        parser.parse_args(argv), os.environ if environ is None else environ, Settings, PREFIX
    )
    settings = Settings(**given)
    options.check_served(settings)
    options.check_bounds(settings, BOUNDS)
    if settings.policy not in POLICIES:
        raise InputError(f"--policy is {settings.policy!r}: expected one of {', '.join(POLICIES)}")
    if settings.store:
        option_values.check_file_to_make("--store", settings.store)
    return settings
