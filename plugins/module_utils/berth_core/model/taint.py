# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taints and tolerations, and the one question asked of them.

Called by the node and pod models and by the plugins NodeUnschedulable, TaintToleration and PodTopologySpread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .fields import Object, objects, string

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"


@dataclass(frozen=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __str__(self) -> str:
        """Return the taint as kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class Toleration:
    """A toleration of a pod. An empty key with Exists tolerates every key, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether this toleration covers the taint.

        The operators Lt and Gt are alpha and off in Kubernetes v1.36: there, as here, they tolerate nothing.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


#: What a cordon is to a pod, whether its taint is there already or not.
CORDON = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Tell whether one of the tolerations covers the taint."""
    return any(one.tolerates(taint) for one in tolerations)


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether a taint that keeps pods away (NoSchedule, NoExecute) is not tolerated."""
    return any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(taint, tolerations) for taint in taints)


def parse_taints(parent: Object, path: str) -> tuple[Taint, ...]:
    """Read `taints` of a node's spec."""
    return tuple(
        Taint(string(one, "key"), string(one, "value"), string(one, "effect"))
        for one in objects(parent, "taints", path)
    )


def parse_tolerations(parent: Object, path: str) -> tuple[Toleration, ...]:
    """Read `tolerations` of a pod's spec."""
    return tuple(
        Toleration(string(one, "key"), string(one, "operator") or "Equal", string(one, "value"), string(one, "effect"))
        for one in objects(parent, "tolerations", path)
    )
