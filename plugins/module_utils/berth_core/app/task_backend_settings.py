# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be set of berth-tasks: as one value, with its bounds, and the part of it that an installation may set.

Called by the daemon's own command line, and by task_backend_install.py for the option flags of the module task_backend.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from ..model.addresses import uri_password
from ..model.names import shown
from ..tasks.bounds import read_ceiling
from ..tasks.policies import BUILT_IN
from . import daemon_flags


@dataclass(frozen=True)
class Settings:
    """Durations are seconds. ``kubeconfig`` empty: the pod's service account, else the user's own file."""

    kubeconfig: str = ""
    namespace: str = "berth-system"
    identity: str = ""
    leader_elect: bool = True
    workers: int = 16
    policy: str = "fair"
    ceiling: str = ""
    store: str = ""
    poll_interval: float = 300.0
    running_after: float = 5.0
    pending_after: float = 30.0
    log_lines: int = 20
    filler_margin: float = 0.1
    filler_interval: float = 15.0
    filler_rest: float = 60.0
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
    "pending_after": (0, 3600),
    "log_lines": (0, 200),
    "filler_margin": (0, 0.9),
    "filler_interval": (1, 300),
    "filler_rest": (0, 3600),
}

#: What an installation may set besides its own options, as flags without the dashes.
FLAGS = (
    *("workers", "policy", "ceiling", "store", "poll-interval", "running-after", "pending-after", "log-lines"),
    *("log-format", "filler-margin", "filler-interval", "filler-rest"),
)


def is_database(store: str) -> bool:
    """Whether a store is named by a URI, and is no file."""
    return "://" in store or store.startswith(("postgresql:", "postgres:"))


def check_store_uri(where: str, uri: str) -> None:
    """A connection URI of libpq, without a password: a command line and a Deployment are read by many.

    Raises InputError, which does not repeat what may be one.
    """
    scheme, _slashes, rest = uri.partition("://")
    if scheme not in ("postgresql", "postgres") or not uri.isprintable():
        raise InputError(f"{where} is no such URI: expected a file, or postgresql://USER@HOST/DATABASE")
    named = uri_password(rest)
    if named:
        raise InputError(
            f"{where} has a password ({named}), which others can read: leave it out, and give it by PGPASSFILE,"
            " PGPASSWORD or a service file"
        )


def check_policy(where: str, policy: str, known: Collection[str] = tuple(BUILT_IN)) -> None:
    """Raises InputError."""
    if policy not in known:
        raise InputError(f"{where} is {shown(policy)}: expected one of {', '.join(sorted(known))}")


def checked_flags(flags: Mapping[str, Any]) -> dict[str, str]:
    """The fields of Settings that flags set, as texts. Raises InputError that names the flag."""
    fields = daemon_flags.fields_of(flags, FLAGS, Settings, BOUNDS)
    settings = replace(Settings(), **fields)
    daemon_flags.check_log_format(settings.log_format)
    check_policy("flags.policy", settings.policy)
    read_ceiling("flags.ceiling", settings.ceiling)
    if settings.store:  # a pod has no disk that stays
        check_store_uri("flags.store", settings.store)
    return daemon_flags.as_texts(fields)
