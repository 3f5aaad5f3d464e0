# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of stateful_app that say how a changed template reaches the pods, checked. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

IN_PLACE_IF_POSSIBLE = "in_place_if_possible"
IN_PLACE_ONLY = "in_place_only"
SAME_NODE = "same_node"
#: The updateStrategy of a StatefulSet whose pods are brought to a new template by somebody else than its controller.
ON_DELETE = "OnDelete"
STRATEGIES = (IN_PLACE_IF_POSSIBLE, IN_PLACE_ONLY, SAME_NODE)


@dataclass(frozen=True)
class UpdateRules:
    """``partition``: ordinals below it keep their pods. ``unavailable``: how many replicas may be not Ready at once."""

    strategy: str
    partition: int
    unavailable: int


def update_rules(options: Mapping[str, Any], replicas: int) -> UpdateRules | None:
    """The rules that are asked for; None: the workload's own way. Raises InputError."""
    strategy, partition = options.get("update_strategy"), options.get("partition")
    unavailable = options.get("max_unavailable")
    if strategy is None:
        given = [name for name in ("partition", "max_unavailable") if options.get(name) is not None]
        if given:
            raise InputError(
                f"{given[0]} is given without update_strategy: it has no meaning there; name one of "
                f"{', '.join(STRATEGIES)}"
            )
        return None
    if partition is not None and not 0 <= partition <= replicas:
        raise InputError(f"partition is {partition}: expected 0 to {replicas} (replicas)")
    return UpdateRules(strategy, partition or 0, _unavailable(unavailable, replicas))


def _unavailable(given: Any, replicas: int) -> int:
    """A number, or a share of the replicas, rounded down and at least 1, as a StatefulSet's maxUnavailable."""
    text = "1" if given is None else str(given).strip()
    digits, percent = text.rstrip("%"), text.endswith("%")
    if not digits.isdigit() or int(digits) < 1 or (percent and (int(digits) > 100 or text.count("%") > 1)):
        raise InputError(f"max_unavailable is {given!r}: expected a number from 1, or a percentage such as 25%")
    return max(1, math.floor(replicas * int(digits) / 100)) if percent else int(digits)
