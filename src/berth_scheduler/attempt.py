"""One try to place a pod, and what came out of it: what scheduler.py and consulted/turns.py hand to each other."""

from __future__ import annotations

from typing import Any, NamedTuple

from berth_core.app.asking import Ask
from berth_core.framework.contract import Nomination
from berth_core.framework.cycle import Outcome
from berth_core.framework.queue import QueuedPod

from .profiles import Running

Obj = dict[str, Any]
NO_NOMINATION = Nomination("")


class Attempt(NamedTuple):
    """A pod that has no node, as it is now, and who places it. ``began``: by the loop's clock."""

    queued: QueuedPod
    pod: Obj
    running: Running
    began: float


class Decision(NamedTuple):
    """``outcome`` None: the engine was not asked, because of ``problem``."""

    asked: Ask
    outcome: Outcome | None
    nomination: Nomination = NO_NOMINATION
    problem: str = ""
