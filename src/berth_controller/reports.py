"""What people and machines are told: events, conditions, metrics, log lines. Decides nothing.

Called by binder and orphan_watch. An event of the same words about the same object is sent once until it changes, and
of other words no oftener than pace allows; a condition is written only when it differs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from berth_core.app.orphans import REASONS
from berth_core.errors import BerthError
from berth_core.lifecycle.step import DONE, Wait, Write
from berth_core.model.resources import BERTH, LOCAL_DISK, Resource
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.events import Recorder

from .pace import Pace

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
#: The controller's conditions, there only while they are True: a claim's Berth that cannot go on; an orphan.
BLOCKED, ORPHANED = "Blocked", "Orphaned"
#: Where more Events than this wait to be written, no claim is told other words: old ones would be written first.
CROWD = 50
#: Then it is tried again so many seconds later.
CROWDED = 10.0
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Metrics:
    """What is counted beside requests and visits, which berth_kube.metrics counts. Once for each registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        make: dict[str, Any] = {"registry": registry}
        self.writes = Counter("berth_controller_writes", "Writes of claims' steps", ["verb", "kind"], **make)
        self.waits = Counter("berth_controller_waits", "Visits that ended in waiting", ["reason"], **make)
        self.seconds = Histogram(
            "berth_controller_claim_bound_seconds", "From a claim that may be bound to Bound", buckets=_SECONDS, **make
        )
        self.rescues = Counter(
            "berth_controller_resync_rescues",
            "Visits that no change had asked for, with something to do",
            **make,
        )
        self.waiting = Gauge("berth_controller_claims_waiting", "Claims that wait for a free disk", **make)
        self.orphans = Gauge("berth_controller_orphans", "Orphans that were reported", ["reason"], **make)
        self.repairs = Counter("berth_controller_repairs", "Repairs of orphans", ["reason"], **make)
        for reason in REASONS:
            self.orphans.labels(reason).set(0)


@dataclass
class _Told:
    """What one claim was told last, by an event or not (``warned``), and the pace of its events."""

    text: tuple[str, str] = ("", "")
    pace: Pace = field(default_factory=Pace)
    warned: bool = False


class Reports:
    """``now`` gives the wall clock; it is only written down. Made inside a running loop."""

    def __init__(
        self, client: KubeClient, recorder: Recorder, metrics: Metrics, now: Callable[[], dt.datetime] = utc_now
    ) -> None:
        self._client, self._recorder, self.metrics = client, recorder, metrics
        self._now, self._loop = now, asyncio.get_running_loop()
        self._told: dict[Hashable, _Told] = {}

    async def waits(self, key: Hashable, about: Obj | None, record: Obj | None, step: Wait) -> float:
        """A visit came to rest. What it waits for is an event, once, and a condition of the claim's Berth.

        Returns the seconds after which the claim wants to be asked again, as its event came too soon: infinity where
        all was told.
        """
        if about is None:
            return math.inf
        if record is not None:
            await self.condition(BERTH, record, BLOCKED, step.reason if step.warn else "", step.message)
        if step == DONE:
            self.forget(key)
            return math.inf
        self.metrics.waits.labels(step.reason).inc()
        return self._tell(self._told.setdefault(key, _Told()), about, step)

    def _tell(self, told: _Told, about: Obj, step: Wait) -> float:
        text, now = (step.reason, step.message), self._loop.time()
        if told.text == text:
            return math.inf
        # What is waited for in the normal course, Kubernetes itself tells: no event, nothing to be sparing with.
        pause = self._pause(told, now) if step.warn else 0.0
        if pause:
            return pause
        told.text = text
        _log.info("%s %s waits: %s: %s", about.get("kind"), name_of(about), step.reason, step.message)
        if step.warn:
            told.pace.said(now)
            told.warned = True
            self.event(about, "Warning", step.reason, step.message, "Bind")
        return math.inf

    def _pause(self, told: _Told, now: float) -> float:
        pause = told.pace.pause(now)
        crowded = not pause and told.warned and self._recorder.backlog > CROWD
        return CROWDED if crowded else pause

    def forget(self, key: Hashable) -> None:
        """The claim waits for nothing more."""
        self._told.pop(key, None)

    def wrote(self, key: str, step: Write) -> None:
        """One write was carried out. A claim that is given its disk needs no event: the volume's name tells it."""
        self.metrics.writes.labels(step.do, step.resource.kind).inc()
        _log.info("claim %s: %s %s: %s", key, step.do, step.resource.kind, step.why)
        if step.resource == LOCAL_DISK and "claimRef" not in step.body["spec"]:
            self.event(step.body, "Normal", "LockGivenUp", f"{step.why}; claim {key}", "Release")

    def event(self, about: Obj, kind: str, reason: str, note: str, action: str) -> None:
        """Never waits, never fails."""
        self._recorder.event(about, kind, reason, note[:1024], action=action)

    def bound(self, seconds: float) -> None:
        """A claim became Bound, so long after it was first seen."""
        self.metrics.seconds.observe(seconds)

    async def condition(self, resource: Resource, about: Mapping[str, Any], kind: str, reason: str, text: str) -> None:
        """Say so in an own condition (True), or take it back (empty ``reason``). The only field that is applied."""
        old = condition_of(about, kind)
        same = old is not None and (old.get("reason"), old.get("message")) == (reason, text[:1024])
        if same or (old is None and not reason):
            return
        meta = {key: about["metadata"][key] for key in ("name", "namespace") if about["metadata"].get(key)}
        conditions = []
        if reason:
            since = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
            kept = old["lastTransitionTime"] if old is not None and old.get("status") == "True" else since
            conditions = [
                {"type": kind, "status": "True", "reason": reason, "message": text[:1024], "lastTransitionTime": kept}
            ]
        body = {"metadata": meta, "status": {"conditions": conditions}}
        try:
            await self._client.apply(resource, body, subresource="status")
        except BerthError as exc:
            _log.warning("condition %s of %s %s: %s", kind, resource.kind, meta["name"], exc.message)


def condition_of(about: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The condition of that type."""
    listed = (about.get("status") or {}).get("conditions") or ()
    return next((one for one in listed if one.get("type") == kind), None)


def name_of(item: Mapping[str, Any]) -> str:
    """namespace/name, or name."""
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
