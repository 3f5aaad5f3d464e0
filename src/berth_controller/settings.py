"""What the command line and the environment say. Called by __main__; nobody else reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

from berth_core.app.controller_settings import BOUNDS, Settings, check_orphan_periods
from berth_core.app.crd_schemas import check_installed_for
from berth_kube import options

#: Each flag has an environment variable: BERTH_CONTROLLER_ and the flag's name in capitals.
PREFIX = "BERTH_CONTROLLER_"

_HELP = {
    "kubeconfig": "kubeconfig file (default: the pod's service account, else KUBECONFIG or ~/.kube/config)",
    "namespace": "namespace of the Lease and of the CSIStorageCapacity objects",
    "identity": "name of this process in the Lease (default: the host's name and a random part)",
    "leader_elect": "work only while holding the Lease berth-controller",
    "workers": "claims that are worked on at one time",
    "resync": "seconds after which every claim is looked at again, whatever the watches told",
    "mount_root": "directory below which agents mount disks (the agents' mount_root)",
    "orphan_interval": "seconds between two looks for orphans",
    "orphan_report_after": "seconds that an orphan must stay one before it is reported",
    "orphan_repair_after": "seconds before a repair that the rules allow; 0: never repair",
    "address": "address of /metrics, /healthz and /readyz",
    "port": "their port; 0: not served",
    "tls_certificate": "PEM file; with tls-key: serve them by TLS",
    "tls_key": "PEM file",
    "log_format": "logfmt or json",
    "log_level": "debug, info, warning or error",
    "schemas": "schemas of the custom resources that it is to work with, as NAME=NUMBER,...: with others it ends",
}


def parse(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of a command line. Raises InputError that names the flag or the variable."""
    parser = argparse.ArgumentParser(
        prog="berth-controller",
        description="Binds PersistentVolumeClaims of the provisioner local.berth.dev to local disks.",
        epilog=f"Each flag can be given as an environment variable: --leader-elect as {PREFIX}LEADER_ELECT=true.",
    )
    options.add_flags(parser, Settings, _HELP, BOUNDS)
    values: dict[str, Any] = options.read(
        parser.parse_args(argv), os.environ if environ is None else environ, Settings, PREFIX
    )
    return _checked(Settings(**values))


def _checked(settings: Settings) -> Settings:
    options.check_mount_root(settings)
    options.check_served(settings)
    options.check_bounds(settings, BOUNDS)
    check_orphan_periods(settings)
    if settings.schemas:
        check_installed_for(settings.schemas, "--schemas")
    return settings
