"""Scheduling plugins that go wrong where their pod's label says so; found by their entry points, as any other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from berth_core.cluster.columns import IntColumn, ints
from berth_core.framework.binding import Binding
from berth_core.framework.contract import SUCCESS, Dirt, Permission, Status, Verdict, Waiting
from berth_core.framework.events import UNSCHEDULED_POD, Action, ClusterEvent, Wish
from berth_core.framework.state import Cycle
from berth_core.model.pod import PodInfo

LABEL = "berth.dev/naughty"


def wrong(pod: PodInfo) -> str:
    return dict(pod.labels).get(LABEL, "")


@dataclass(frozen=True)
class Naughty:
    """``seconds``: for which a filter sleeps. ``once``: a file that says that one process has done so."""

    seconds: float = 2.0
    once: str = ""

    name: ClassVar[str] = "Naughty"
    filter_dirt: ClassVar[Dirt] = Dirt.ROW
    score_dirt: ClassVar[Dirt] = Dirt.ROW

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return self._at("gate", pod, SUCCESS)

    def filter_key(self, cycle: Cycle) -> Hashable:
        return wrong(cycle.pod)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        if wrong(cycle.pod) == "sleeps-in-filter":
            time.sleep(self.seconds)
        if wrong(cycle.pod) == "sleeps-once" and not Path(self.once).exists():
            Path(self.once).touch()
            time.sleep(self.seconds)
        return self._at("filter", cycle.pod, Verdict(ints(len(rows)), (SUCCESS,)))

    def score_key(self, cycle: Cycle) -> Hashable:
        return wrong(cycle.pod)

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        return ints(len(rows), {"scores-101": 101, "scores-less": -1}.get(wrong(cycle.pod), 50))

    def permit(self, cycle: Cycle, _waiting: Sequence[Waiting]) -> Permission:
        return self._at("permit", cycle.pod, Permission())

    def give_way(self, pod: PodInfo, _waiting: Sequence[Waiting]) -> frozenset[str]:
        return self._at("permit", pod, frozenset())

    async def pre_bind(self, binding: Binding) -> Status:
        if wrong(binding.request.pod) == "sleeps-in-prebind":
            await asyncio.sleep(3600)
        return self._at("prebind", binding.request.pod, SUCCESS)

    def requeue_on(self) -> Sequence[Wish]:
        return (Wish(ClusterEvent(UNSCHEDULED_POD, Action.POD_LABEL)),)

    def _at(self, point: str, pod: PodInfo, otherwise: Any) -> Any:
        if wrong(pod) == f"raises-in-{point}":
            raise RuntimeError(f"{point} of {pod.name}")
        return None if wrong(pod) == f"nothing-from-{point}" else otherwise


@dataclass(frozen=True)
class NaughtyOrder:
    """Last come, first served; or what cannot be sorted by."""

    name: ClassVar[str] = "NaughtyOrder"

    def queue_key(self, pod: PodInfo, queued_at: float) -> Any:
        if wrong(pod) == "raises-in-order":
            raise RuntimeError(f"order of {pod.name}")
        return {"nothing-from-order": None, "text-from-order": "first"}.get(wrong(pod), -queued_at)
