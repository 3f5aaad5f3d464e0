# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The updateStrategy of a StatefulSet's manifest, in the words of the options for updates. Pure.

It is never applied: berth brings a changed template to the pods, and the StatefulSet is OnDelete. So it is judged here,
as the API server would judge it. Called by update_rules.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import InputError
from ..model.names import shown
from .given import agreed
from .template_shape import mapping

#: The updateStrategy of a StatefulSet whose pods are brought to a new template by somebody else than its controller.
ON_DELETE = "OnDelete"
_ROLLING_UPDATE = "RollingUpdate"
_WHOSE = "of the StatefulSet in template or src"
_FIELD = "spec.updateStrategy"
_PARTITION = f"{_FIELD}.rollingUpdate.partition"
_UNAVAILABLE = f"{_FIELD}.rollingUpdate.maxUnavailable"


class Rolling(NamedTuple):
    """Which replicas, and how many at once; None: nobody says it. Each with its name, for refusals."""

    partition: int | None
    unavailable: str | None
    partition_name: str
    unavailable_name: str


def rolling_of(own: Any, options: Mapping[str, Any]) -> Rolling:
    """What the manifest (``own``: its updateStrategy) and the options say together. Raises InputError."""
    partition, unavailable = _said(own, options)
    asked, most = options.get("partition"), options.get("max_unavailable")
    return Rolling(
        agreed("partition", asked, _PARTITION, partition, None),
        agreed("max_unavailable", None if most is None else str(most).strip(), _UNAVAILABLE, unavailable, None),
        f"{_PARTITION} {_WHOSE}" if asked is None and partition is not None else "partition",
        f"{_UNAVAILABLE} {_WHOSE}" if most is None and unavailable is not None else "max_unavailable",
    )


def _said(own: Any, options: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """(partition, maxUnavailable) of the manifest."""
    strategy = mapping(own, f"{_FIELD} {_WHOSE}")
    _known(strategy, ("type", "rollingUpdate"), _FIELD)
    kind = strategy.get("type") or _ROLLING_UPDATE
    rolling = mapping(strategy.get("rollingUpdate"), f"{_FIELD}.rollingUpdate {_WHOSE}")
    if kind == ON_DELETE:
        _check_on_delete(rolling, options)
    elif kind != _ROLLING_UPDATE:
        raise InputError(f"{_FIELD}.type {_WHOSE} is {shown(kind)}: expected {_ROLLING_UPDATE}; or leave it out")
    _known(rolling, ("partition", "maxUnavailable"), f"{_FIELD}.rollingUpdate")
    partition, unavailable = rolling.get("partition"), rolling.get("maxUnavailable")
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int)):
        raise InputError(f"{_PARTITION} {_WHOSE} is {shown(partition)}: expected a whole number, from 0")
    return partition, None if unavailable is None else str(unavailable).strip()


def _check_on_delete(rolling: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Where an option says who brings the template to the pods, OnDelete says that it is not their controller."""
    if rolling:
        raise InputError(f"{_FIELD}.rollingUpdate {_WHOSE} is given with type {ON_DELETE}: leave one of them out")
    if not options.get("update_strategy") and not options.get("paused"):
        raise InputError(
            f"{_FIELD}.type {_WHOSE} is {ON_DELETE}, with which a changed template reaches no pod by itself, and here "
            "each replica is updated. Leave updateStrategy out; or say beside it how they are updated "
            "(update_strategy), or that none is for now (paused: true)"
        )


def _known(found: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = [str(key) for key, value in found.items() if key not in known and value is not None]
    if unknown:
        raise InputError(
            f"{where} {_WHOSE}: {shown(', '.join(unknown))} cannot be taken: leave it out; what is taken: "
            f"{', '.join(known)}"
        )
