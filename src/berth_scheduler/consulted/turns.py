"""Pods that concern an extender, put before it one after the other in the order of the queue.

The scheduler hands them over, and goes on with other pods: an extender that is slow, or hangs, is waited for by those
that need it. Its opinion may be old when it comes, so the decision is made again with it, in one step, by the cluster
as it is then; nodes that came to fit meanwhile are asked about, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from berth_core.framework.contract import Nomination
from berth_core.framework.extended import Extended
from berth_core.framework.queue import QueuedPod
from berth_core.plugins.default_preemption import choose

from ..attempt import Attempt, Decision
from ..desk import Desk
from ..failures import Failures
from .extender import HttpExtender, judges
from .messages import ExtenderError
from .opinions import Whole, elected, heard

#: In a cluster that changes all the time new nodes may come to fit for ever.
ROUNDS = 4


class Decides(Protocol):
    """What the scheduler does with a pod, in steps that nothing interrupts."""

    def attempt(self, queued: QueuedPod) -> Attempt | None:
        """What is known of the pod now; None: there is nothing to decide, and the queue has let it go."""

    def decide(self, attempt: Attempt, extended: Extended | None) -> Decision:
        """Ask the engine."""

    def conclude(self, attempt: Attempt, decision: Decision) -> None:
        """Do what was decided."""


class Turns:
    """Made inside a running loop; puts pods before extenders while `run` runs."""

    def __init__(self, desk: Desk, failures: Failures, whole: Whole, decides: Decides) -> None:
        self._desk, self._failures, self._whole, self._decides = desk, failures, whole, decides
        self._line: asyncio.PriorityQueue[tuple[Any, int, QueuedPod]] = asyncio.PriorityQueue()
        self._number = count()

    def put(self, queued: QueuedPod) -> None:
        """Stand in line."""
        key = self._desk.queue.rules.sort_key(queued.pod, queued.queued_at)
        self._line.put_nowait((key, next(self._number), queued))

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                _key, _number, queued = await self._line.get()
                await self._one(queued)
        finally:
            await self._whole.stop()

    async def _one(self, queued: QueuedPod) -> None:
        extended: Extended | None = Extended()
        left, began = ROUNDS, asyncio.get_running_loop().time()
        while extended is not None:
            attempt = self._decides.attempt(queued)
            if attempt is None:
                return
            attempt = attempt._replace(began=began)
            try:
                extended = await self._turn(attempt, extended if left else extended.close())
            except Exception as exc:  # noqa: BLE001 - extenders, plugins from outside: it costs this pod an attempt
                self._failures.error(queued, attempt.pod, exc, attempt.began)
                return
            left -= 1

    async def _turn(self, attempt: Attempt, extended: Extended) -> Extended | None:
        """Ask about nodes that nobody was asked about; None: there were none, and the decision is made."""
        queued, extenders = attempt.queued, judges(attempt.running.extenders, attempt.queued.pod)
        decision = self._decides.decide(attempt, extended if extenders else None)
        names = _to_ask(decision, extended) if extenders else ()
        if names:
            pod = await self._whole.pod(queued.pod)
            if pod is not None:
                return await heard(extenders, self._whole, pod, names, extended)
            self._desk.queue.done(queued.pod.uid)  # gone: the watch is about to tell it
            return None
        if extenders and decision.nomination.candidates:
            decision = decision._replace(nomination=await self._elected(extenders, attempt, decision.nomination))
            again = self._decides.attempt(queued)
            if again is None:
                return None
            attempt = again._replace(began=attempt.began)
        self._decides.conclude(attempt, decision)
        return None

    async def _elected(self, extenders: list[HttpExtender], attempt: Attempt, found: Nomination) -> Nomination:
        """The choice among the nodes on which room could be made, with what extenders say of them."""
        snapshot = self._desk.cluster.snapshot
        pod = await self._whole.pod(attempt.queued.pod)
        if pod is None:
            return found
        try:
            return choose(await elected(extenders, self._whole, pod, found.candidates, snapshot))
        except ExtenderError as exc:
            return Nomination(message=f"preemption: {exc.message}")


def _to_ask(decision: Decision, extended: Extended) -> Sequence[str]:
    """The nodes that fit, where nobody was asked about one of them: scores may be relative. Else none."""
    outcome = decision.outcome
    if extended.closed or outcome is None or outcome.placement is None:
        return ()
    names = outcome.feasible
    return () if extended.asked.issuperset(names) else names
