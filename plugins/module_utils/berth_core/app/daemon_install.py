# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon's Deployment and what belongs to it, with its settings as variables of its containers.

Called by controller_install.py and task_backend_install.py. Nothing is read or written here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .daemon_flags import check_log_level
from .shipped import Object, Pods, check_replicas, digest, fill_in, renamed


@dataclass(frozen=True)
class Wanted(Pods):
    """A daemon. ``flags``: more of its flags, without the dashes."""

    log_level: str = "info"
    flags: Mapping[str, Any] = field(default_factory=dict)


def objects(
    shipped: Sequence[Mapping[str, Any]], wanted: Wanted, origin: str, prefix: str, settings: Mapping[str, str]
) -> list[Object]:
    """The shipped objects, called ``origin`` there, as asked for, in their order. A setting's variable is ``prefix``
    and its name in capitals; others replace the pods. Raises InputError for what cannot be."""
    check_replicas(wanted.replicas)
    check_log_level(wanted.log_level)
    given = {**settings, "log_level": wanted.log_level}
    variables = [{"name": prefix + name.upper(), "value": value} for name, value in sorted(given.items())]
    made = [renamed(body, origin, wanted.name, wanted.namespace) for body in shipped]
    for body in made:
        if body["kind"] == "Deployment":
            for container in body["spec"]["template"]["spec"]["containers"]:
                container.setdefault("env", []).extend(dict(one) for one in variables)
            fill_in(body, wanted, digest(json.dumps(given, sort_keys=True)))
    return made
