"""Which stage a lane takes next, and how long stages take in two lanes when each takes as long as it did before."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence

from .table import LANES, Stage


def choose(waiting: Sequence[Stage], running: Collection[str], lane: str) -> Stage | None:
    """The lane's first stage that need not wait for another one; else the other lane's; None: nothing can begin now."""
    unfinished = {stage.name for stage in waiting} | set(running)
    ready = [stage for stage in waiting if not unfinished & set(stage.after)]
    return next((stage for stage in ready if stage.lane == lane), ready[0] if ready else None)


def ends(stages: Sequence[Stage], seconds: Mapping[str, float]) -> dict[str, float]:
    """For each lane the second at which its last stage ends. KeyError for a stage without seconds."""
    waiting, running, over = list(stages), dict[str, str](), dict.fromkeys(LANES, 0.0)
    idle, agenda, now = list(LANES), list[tuple[float, str]](), 0.0
    while True:
        for lane in list(idle):
            stage = choose(waiting, running.values(), lane)
            if stage is not None:
                waiting.remove(stage)
                idle.remove(lane)
                running[lane] = stage.name
                heapq.heappush(agenda, (now + seconds[stage.name], lane))
        if not agenda:
            return over
        now, lane = heapq.heappop(agenda)
        over[lane] = now
        del running[lane]
        idle = [each for each in LANES if each in idle or each == lane]
