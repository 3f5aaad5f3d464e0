# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodDisruptionBudgets as the Eviction API reads them, and the request by which it is asked to end a pod. Pure.

Called by disruption (a node is emptied), leaving (a replica leaves its place) and update_budgets (an update), and by
the drivers that evict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import BerthError, UnavailableError
from ..model.fields import integer, mapping
from ..model.labels import LabelSelector
from .host_maintenance import Key, key_of

Object = Mapping[str, Any]
#: The status of an eviction's answer that a budget forbids it now.
FORBIDDEN_NOW = 429
_ALWAYS_ALLOW = "AlwaysAllow"


class Budget(NamedTuple):
    """A PodDisruptionBudget. ``allowed``: disruptions that it has now. ``most``: with all of its pods healthy.

    ``stale``: its controller has not counted since it was changed. ``unready_go``: pods that are not Ready may always
    be evicted.
    """

    key: Key
    selector: LabelSelector | None
    allowed: int
    most: int
    healthy: int
    desired: int
    expected: int
    stale: bool
    unready_go: bool

    @classmethod
    def of(cls, budget: Object) -> Budget:
        where = f"PodDisruptionBudget {key_of(budget)}"
        spec, status = mapping(budget, "spec"), mapping(budget, "status")
        try:
            selector = LabelSelector.parse(spec.get("selector"), f"{where}: spec.selector")
        except BerthError:
            selector = LabelSelector()  # what cannot be read covers all: the API server refuses then, too
        healthy, desired, expected = (
            integer(status, name, where) for name in ("currentHealthy", "desiredHealthy", "expectedPods")
        )
        stale = integer(status, "observedGeneration", where) < integer(mapping(budget, "metadata"), "generation", where)
        allowed = 0 if stale else integer(status, "disruptionsAllowed", where)
        return cls(
            key_of(budget),
            selector,
            allowed,
            max(expected - desired, 1 if stale else 0),
            healthy,
            desired,
            expected,
            stale,
            spec.get("unhealthyPodEvictionPolicy") == _ALWAYS_ALLOW,
        )

    def covers(self, pod: Object) -> bool:
        meta = mapping(pod, "metadata")
        if self.selector is None or meta.get("namespace") != self.key.namespace:
            return False
        return self.selector.matches({key: str(value) for key, value in mapping(meta, "labels").items()})

    @property
    def lets_unready_go(self) -> bool:
        """Whether a pod that runs and is not Ready may be evicted now."""
        return self.unready_go or self.allowed > 0 or (not self.stale and self.healthy >= self.desired > 0)


def budgets_of(pod: Object, budgets: Iterable[Budget]) -> list[Budget]:
    """Those that have a say about the pod."""
    return [one for one in budgets if one.covers(pod)]


def eviction(pod: Object) -> dict[str, Any]:
    """The body of a POST to the pod's subresource ``eviction``: of this very pod, and of no other one of its name."""
    meta = pod["metadata"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        "deleteOptions": {"preconditions": {"uid": meta["uid"]}},
    }


def refusal(exc: UnavailableError) -> str:
    """Why a budget forbids an eviction now, by its answer. Raises ``exc`` where the answer says something else."""
    if exc.status != FORBIDDEN_NOW:
        raise exc
    told = [str(one.get("message")) for one in exc.causes if one.get("message")]
    return "; ".join(told) or exc.message
