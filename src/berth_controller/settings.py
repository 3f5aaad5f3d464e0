"""What the command line and the environment say. Called by __main__; nobody else reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth_core.app.fsid import DEFAULT_MOUNT_ROOT
from berth_core.errors import InputError
from berth_kube import options

#: Each flag has an environment variable: BERTH_CONTROLLER_ and the flag's name in capitals.
PREFIX = "BERTH_CONTROLLER_"


@dataclass(frozen=True)
class Settings:
    """Durations are seconds. ``kubeconfig`` empty: the pod's service account, else the user's own file."""

    kubeconfig: str = ""
    namespace: str = "berth-system"
    identity: str = ""
    leader_elect: bool = True
    workers: int = 8
    resync: float = 300.0
    mount_root: str = DEFAULT_MOUNT_ROOT
    orphan_interval: float = 60.0
    orphan_report_after: float = 60.0
    orphan_repair_after: float = 600.0
    address: str = "127.0.0.1"
    port: int = 9809
    tls_certificate: str = ""
    tls_key: str = ""
    log_format: str = "logfmt"
    log_level: str = "info"


#: Least and most; durations in seconds.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "workers": (1, 64),
    "resync": (1, 86400),
    "orphan_interval": (1, 86400),
    "orphan_report_after": (0, 30 * 86400),
    "orphan_repair_after": (0, 30 * 86400),
}


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
    if 0 < settings.orphan_repair_after < settings.orphan_report_after:
        raise InputError(
            f"--orphan-repair-after is {settings.orphan_repair_after:g}: expected 0, or at least --orphan-report-after"
            f" ({settings.orphan_report_after:g}): what is repaired was reported"
        )
    return settings
