# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether PodDisruptionBudgets, and the pod's node, allow that an update takes a pod down now, and what is said where
they do not. Pure.

Called by app.update in each look, for both drivers, and by app.leaving. The API server judges each eviction once more;
in place nobody does, so pods that are on their way count here although a budget's status may not know of them yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ..model.times import age
from .budgets import Budget, budgets_of
from .observed import ready
from .update_rules import IGNORE

#: How to go past a budget; the kind StatefulApp has its own words for it.
IGNORED = f"disruption_budgets: {IGNORE}"
#: Seconds until budgets are read again: while the last pod has come back just now, and afterwards.
SOON, LATER = 0.5, 5.0
#: Seconds that the budgets' controller may take to count such a pod.
_COUNTED = 10.0
#: Of pods in these phases the Eviction API asks no budget.
_FREE = ("Pending", "Succeeded", "Failed")
Object = Mapping[str, Any]


class Verdict(NamedTuple):
    """``waits``: what comes before the pod may go, a line for each of ``names``, the budgets that forbid it.

    ``never``: why no waiting helps; empty where it may.
    """

    names: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    never: str = ""


class Restrictions(NamedTuple):
    """What may forbid that a pod goes, as it was read. ``budgets``: those of the namespace that count.

    ``closed``: node -> why it takes no pod back (way_home), of the nodes that were asked for.
    """

    budgets: Sequence[Budget] = ()
    closed: Mapping[str, str] = {}


#: Nothing forbids anything.
UNRESTRICTED = Restrictions()


class Allowance:
    """What restrictions leave in one look; None: nobody has read them. ``pods``: all of the app; ``away``: names of
    those that are on their way; ``whole``: each replica has its pod, so that none is missing from what a budget has
    counted.

    What `may` has found: ``waits``, a line each; ``never``, why no waiting helps; ``asks``: restrictions are to be
    read, and ``nodes``, to which pods are to come back.
    """

    def __init__(
        self,
        restrictions: Restrictions | None,
        pods: Sequence[Object],
        away: Iterable[str],
        whole: bool,
    ) -> None:
        self._read = restrictions is not None
        self._budgets, self._closed = restrictions if restrictions is not None else UNRESTRICTED
        self._pods, self._whole = pods, whole
        self._away = {*away, *(str(pod["metadata"]["name"]) for pod in pods if not ready(pod))}
        self.waits: list[str] = []
        self.never, self.asks = "", False
        self.nodes: list[str] = []

    def may(self, pod: Object, deletes: bool) -> bool:
        """Whether the pod may be taken down now; from then on it is on its way. ``deletes``: see `verdict`."""
        node = str(pod["spec"].get("nodeName") or "")
        if not self._read:
            self.asks = True
            self.nodes += [node] if deletes and node else []
            return False
        if deletes and self._closed.get(node):
            name = pod["metadata"]["name"]
            self.waits.append(f"node {node} to take pod {name} back ({self._closed[node]})")
            return False
        found = self.verdict(pod, deletes)
        if not found.names:
            self._away.add(str(pod["metadata"]["name"]))
            return True
        self.waits += found.waits
        self.never = self.never or found.never
        return False

    def again(self, now: datetime) -> float:
        """Seconds until budgets are to be read again, as nothing tells a driver of a change of theirs."""
        ages = [
            age(str(one.get("lastTransitionTime")), now)
            for pod in self._pods
            for one in (pod.get("status") or {}).get("conditions") or ()
            if one["type"] == "Ready"
        ]
        return SOON if any(one is not None and one < _COUNTED for one in ages) else LATER

    def verdict(self, pod: Object, deletes: bool) -> Verdict:
        """``deletes``: the pod is evicted; else its containers are ended, for which no pod needs leave that is not
        Ready."""
        own = budgets_of(pod, self._budgets)
        if (deletes and (pod.get("status") or {}).get("phase") in _FREE) or not (deletes or ready(pod)):
            return Verdict()
        if deletes and len(own) > 1:
            return _several(pod, own)
        if ready(pod):
            full = [(one, self._state(one)) for one in own if self._left(one) < 1]
        else:
            full = [(one, f"which is not Ready: {_counts(one)}") for one in own if not one.lets_unready_go]
        never = next((_never(pod, one) for one, _why in full if self._never_allows(one)), "")
        waits = tuple(_wait(pod, one, why) for one, why in full)
        return Verdict(tuple(str(one.key) for one, _why in full), waits, never)

    def _left(self, budget: Budget) -> int:
        away = [pod for pod in self._pods if budget.covers(pod) and pod["metadata"]["name"] in self._away]
        return min(budget.allowed, budget.most - len(away))

    def _state(self, budget: Budget) -> str:
        return _counts(budget) if budget.allowed < 1 else "another of its pods is on its way"

    def _never_allows(self, budget: Budget) -> bool:
        covered = sum(budget.covers(pod) for pod in self._pods)
        return self._whole and not budget.stale and max(budget.expected, covered) <= budget.desired


def _counts(budget: Budget) -> str:
    if budget.stale:
        return "it was changed, and its pods are still to be counted"
    there = f"{budget.healthy} of {budget.expected} pods are healthy"
    return f"it allows {budget.allowed} now, {there}, {budget.desired} have to be"


def line(budget: Budget, name: str) -> str:
    """What is waited for before a replica is taken down, as hindrances of leaving tell it."""
    return f"PodDisruptionBudget {budget.key} to allow the disruption of pod {name} ({_counts(budget)}; {_past()})"


def _wait(pod: Object, budget: Budget, why: str) -> str:
    name = pod["metadata"]["name"]
    return f"PodDisruptionBudget {budget.key} to allow the disruption of pod {name} ({why}; {_past()})"


def _past() -> str:
    return f"{IGNORED} goes past it"


def _never(pod: Object, budget: Budget) -> str:
    policy = "" if ready(pod) else ", or its unhealthyPodEvictionPolicy to AlwaysAllow"
    return (
        f"pod {pod['metadata']['name']} is not updated: PodDisruptionBudget {budget.key} never allows its disruption "
        f"({budget.desired} of {budget.expected} pods have to be healthy), so no waiting helps. Change its "
        f"minAvailable or maxUnavailable{policy}, add replicas, or go past it with {IGNORED}"
    )


def _several(pod: Object, budgets: Sequence[Budget]) -> Verdict:
    names = tuple(str(one.key) for one in budgets)
    told = (
        f"pod {pod['metadata']['name']} is not updated: it has several PodDisruptionBudgets ({', '.join(names)}), and "
        f"the API server evicts no such pod. Leave it one of them, or go past them with {IGNORED}"
    )
    return Verdict(names, (told,), told)
