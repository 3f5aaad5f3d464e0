# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be set of berth-controller: as one value, with its bounds, and the part of it that an installation may set.

Called by the controller's own command line, and by controller_install.py for the option flags of the module controller.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from ..model.names import shown
from .fsid import DEFAULT_MOUNT_ROOT, mount_point

LOG_FORMATS = ("logfmt", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


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
_DIGITS = re.compile(r"[0-9]+(\.[0-9]+)?")


def check_orphan_periods(settings: Settings) -> None:
    """Raises InputError where a repair would come before its report."""
    if 0 < settings.orphan_repair_after < settings.orphan_report_after:
        raise InputError(
            f"--orphan-repair-after is {settings.orphan_repair_after:g}: expected 0, or at least --orphan-report-after"
            f" ({settings.orphan_report_after:g}): what is repaired was reported"
        )


def checked_flags(flags: Mapping[str, Any]) -> dict[str, str]:
    """The fields of Settings that flags set, as texts. Raises InputError that names the flag."""
    unknown = sorted(str(name) for name in flags if name not in FLAGS)
    if unknown:
        raise InputError(f"flags.{unknown[0]}: unknown here; expected one of {', '.join(FLAGS)}")
    fields = {name.replace("-", "_"): _value(name, value) for name, value in flags.items()}
    settings = replace(Settings(), **fields)
    if settings.log_format not in LOG_FORMATS:
        raise InputError(f"flags.log-format is {shown(settings.log_format)}: expected logfmt or json")
    try:
        mount_point("disk", settings.mount_root)
        check_orphan_periods(settings)
    except InputError as exc:
        raise InputError(f"flags: {exc.message}") from exc
    return {name: f"{value:.10g}" if isinstance(value, (int, float)) else value for name, value in fields.items()}


def _value(flag: str, value: Any) -> Any:
    name = flag.replace("-", "_")
    if name not in BOUNDS:
        if not isinstance(value, str):
            raise InputError(f"flags.{flag} is {shown(value)}: expected text")
        return value
    least, most = BOUNDS[name]
    whole = isinstance(getattr(Settings, name), int)
    number = _number(value)
    if not least <= number <= most or (whole and not number.is_integer()):
        raise InputError(
            f"flags.{flag} is {shown(value)}: expected a {'whole ' * whole}number, {least:g} to {most:.10g}"
        )
    return number


def _number(value: Any) -> float:
    """Not a number (nan) where it is none, or one that no bound allows."""
    if isinstance(value, str):
        return float(value) if _DIGITS.fullmatch(value) else math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e18:
        return math.nan
    return float(value)
