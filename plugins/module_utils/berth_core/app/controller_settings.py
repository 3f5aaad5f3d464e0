# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be set of berth-controller: as one value, with its bounds, and the part of it that an installation may set.

Called by the controller's own command line, and by controller_install.py for the option flags of the module controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from . import daemon_flags
from .fsid import DEFAULT_MOUNT_ROOT, mount_point


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
    schemas: str = ""


#: Least and most; durations in seconds.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "workers": (1, 64),
    "resync": (1, 86400),
    "orphan_interval": (1, 86400),
    "orphan_report_after": (0, 30 * 86400),
    "orphan_repair_after": (0, 30 * 86400),
}

#: What an installation may set besides its own options, as flags without the dashes.
FLAGS = (
    "workers",
    "resync",
    "mount-root",
    "orphan-interval",
    "orphan-report-after",
    "orphan-repair-after",
    "log-format",
)


def check_orphan_periods(settings: Settings) -> None:
    """Raises InputError where a repair would come before its report."""
    if 0 < settings.orphan_repair_after < settings.orphan_report_after:
        raise InputError(
            f"--orphan-repair-after is {settings.orphan_repair_after:g}: expected 0, or at least --orphan-report-after"
            f" ({settings.orphan_report_after:g}): what is repaired was reported"
        )


def checked_flags(flags: Mapping[str, Any]) -> dict[str, str]:
    """The fields of Settings that flags set, as texts. Raises InputError that names the flag."""
    fields = daemon_flags.fields_of(flags, FLAGS, Settings, BOUNDS)
    settings = replace(Settings(), **fields)
    daemon_flags.check_log_format(settings.log_format)
    try:
        mount_point("disk", settings.mount_root)
        check_orphan_periods(settings)
    except InputError as exc:
        raise InputError(f"flags: {exc.message}") from exc
    return daemon_flags.as_texts(fields)
