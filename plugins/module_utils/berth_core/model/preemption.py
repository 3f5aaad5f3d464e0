# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What preemption looks at: facts of pods, and the budgets of disruptions.

Read by PodInfo, kept by the snapshot, asked by the plugin DefaultPreemption.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..errors import BerthError
from .fields import Object, integer, mapping, metadata, objects, string
from .labels import LabelSelector

NOT_STARTED = "~"
"""The start time of a pod that has not started: later than every time there is."""
LOWEST_PRIORITY = 1 << 31
"""Added to each priority that is summed up: else many pods below zero would weigh less than few."""


@dataclass(frozen=True)
class PreemptionFacts:
    """A pod's part in preemption.

    `never`: its preemptionPolicy forbids it to preempt. `nominated`: status.nominatedNodeName. `started`:
    status.startTime as the API server writes it (RFC 3339, UTC, whole seconds: such texts sort as the times do).
    `preempted`: it is going away because a scheduler wants its room.
    """

    never: bool = False
    nominated: str = ""
    started: str = NOT_STARTED
    preempted: bool = False


NO_FACTS = PreemptionFacts()


def read_facts(spec: Object, status: Object, terminating: bool, where: str) -> PreemptionFacts:
    """Read the facts of a pod. Raises InputError that names the field."""
    never = string(spec, "preemptionPolicy", f"{where}: spec.preemptionPolicy") == "Never"
    nominated = string(status, "nominatedNodeName", f"{where}: status.nominatedNodeName")
    started = string(status, "startTime", f"{where}: status.startTime") or NOT_STARTED
    if not (never or nominated or terminating) and started == NOT_STARTED:
        return NO_FACTS  # nearly all waiting pods are alike here: they share one object
    return PreemptionFacts(never, nominated, started, terminating and _preempted(status, where))


def _preempted(status: Object, where: str) -> bool:
    for one in objects(status, "conditions", f"{where}: status.conditions"):
        if one.get("type") == "DisruptionTarget":
            return one.get("status") == "True" and one.get("reason") == "PreemptionByScheduler"
    return False


@dataclass(frozen=True)
class VictimFacts:
    """What is known of a pod on a node, in case that somebody wants its room."""

    namespace: str
    name: str
    uid: str
    priority: int
    labels: tuple[tuple[str, str], ...]
    started: str = NOT_STARTED
    preempted: bool = False


def importance(pod: VictimFacts) -> tuple[int, str, str, str]:
    """Return what pods are sorted by, the most important first: by priority, then who has run longest."""
    return (-pod.priority, pod.started, pod.namespace, pod.name)


@dataclass(frozen=True)
class Candidate:
    """A node on which the request fits without these pods, the most important one first.

    `violations`: victims whose budget does not allow it.
    """

    node: str
    victims: tuple[VictimFacts, ...]
    violations: int

    @cached_property
    def rank(self) -> tuple[int, int, int, int]:
        """Return how much is lost, first what weighs most."""
        total = sum(pod.priority + LOWEST_PRIORITY for pod in self.victims)
        return (self.violations, self.victims[0].priority, total, len(self.victims))

    @cached_property
    def oldest(self) -> str:
        """Return when the first of the most important victims started."""
        return min(pod.started for pod in self.victims if pod.priority == self.victims[0].priority)


@dataclass(frozen=True)
class DisruptionBudget:
    """A PodDisruptionBudget. `allowed`: disruptions that it still has. `disrupted`: pods that are already counted.

    `selector` None: it covers no pod (there is none, it is empty, or it cannot be read).
    """

    namespace: str
    name: str
    selector: LabelSelector | None
    allowed: int
    disrupted: frozenset[str]

    @classmethod
    def from_object(cls, budget: Object) -> DisruptionBudget:
        """Read a PodDisruptionBudget of the API. Raises InputError that names the budget and the field."""
        namespace, name = metadata(budget, "PodDisruptionBudget")
        where = f"PodDisruptionBudget {namespace}/{name}"
        status = mapping(budget, "status", f"{where}: status")
        return cls(
            namespace=namespace,
            name=name,
            selector=_selector(mapping(budget, "spec", f"{where}: spec"), where),
            allowed=integer(status, "disruptionsAllowed", f"{where}: status.disruptionsAllowed"),
            disrupted=frozenset(mapping(status, "disruptedPods", f"{where}: status.disruptedPods")),
        )

    def covers(self, pod: VictimFacts) -> bool:
        """Tell whether the budget has a say about a pod."""
        if self.selector is None or not pod.labels or pod.namespace != self.namespace or pod.name in self.disrupted:
            return False
        return self.selector.matches(dict(pod.labels))


def _selector(spec: Object, where: str) -> LabelSelector | None:
    try:
        found = LabelSelector.parse(spec.get("selector"), f"{where}: spec.selector")
    except BerthError:
        # As kube-scheduler: a budget that cannot be read protects nobody. The eviction API is stricter.
        return None
    return found if found is not None and found.requirements else None
