"""What the command line and the environment say. Called by __main__; nobody else reads either."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from berth_core.app.task_backend_settings import BOUNDS, Settings, check_policy, check_store_uri, is_database
from berth_core.errors import InputError
from berth_core.tasks.bounds import read_ceiling
from berth_kube import option_values, options

from .queues import known_policies

#: Each flag has an environment variable: BERTH_TASKS_ and the flag's name in capitals.
PREFIX = "BERTH_TASKS_"

_HELP = {
    "kubeconfig": "kubeconfig file (default: the pod's service account, else KUBECONFIG or ~/.kube/config)",
    "namespace": "namespace of the Lease",
    "identity": "name of this process in the Lease, no other one's (default: the host's name and a random part)",
    "leader_elect": "work only while holding the Lease berth-tasks; without it, no other task backend may run in the"
    " cluster, which one that begins later cannot see",
    "workers": "tasks that are worked on at one time",
    "policy": "the policy of queues that name none: fair, priority, or one of a package that is installed",
    "ceiling": "what all tasks together may reserve at one time, as in cpu=64,memory=256Gi,pods=500"
    " (default: no limit)",
    "store": "SQLite file of the checkpoint, made where it is missing, or postgresql://USER@HOST/DATABASE with the"
    " password in PGPASSFILE or PGPASSWORD (default: none, a restart lists the pods)",
    "poll_interval": "seconds between two whole lists of tasks' pods, whatever the watch told",
    "running_after": "seconds that a task runs before that is written into its status; short ones cost no write",
    "pending_after": "seconds that a pod of a task is Pending before the task says why",
    "log_lines": "lines of the end of a pod's log that are kept in the Task; 0: none is read",
    "filler_margin": "the share of each node that filler tasks leave to others beyond what these use",
    "filler_interval": "seconds between two looks at what nodes really use, while there is filler work",
    "filler_rest": "seconds in which a node takes no filler task after one of its own has had to go",
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
    check_policy("--policy", settings.policy, known_policies())
    read_ceiling("--ceiling", settings.ceiling)
    if is_database(settings.store):
        _check_database(settings.store)
    elif settings.store:
        option_values.check_file_to_make("--store", settings.store)
    return settings


def _check_database(uri: str) -> None:
    check_store_uri("--store", uri)
    try:
        from . import postgresql_store
    except ImportError as exc:
        raise InputError(
            f"--store {uri} needs the Python package psycopg, which cannot be imported in {sys.executable}"
            f" ({exc}): pip install 'berth[tasks,postgresql]', or 'psycopg[binary]'"
        ) from exc
    postgresql_store.check("--store", uri)
