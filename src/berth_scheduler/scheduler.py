"""One pod after the other: out of the queue, through the cycle, assumed; the rest goes on beside it in binding.py.

Made by __main__. news.py fills the queue, failures.py takes back what found no place. A decision is one step of the
loop that nothing interrupts, so no two pods see the same room. Decides nothing: the engine does.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

from berth_core.app.asking import Ask, ask
from berth_core.errors import BerthError
from berth_core.framework.binding import Binding
from berth_core.framework.contract import Code, Nomination, Permission
from berth_core.framework.cycle import place
from berth_core.framework.diagnosis import Diagnosis
from berth_core.framework.dry_run import post_filter
from berth_core.framework.events import ASSIGNED_POD, Action, Change, ClusterEvent
from berth_core.framework.extended import Extended
from berth_core.framework.queue import QueuedPod, Rules, SchedulingQueue
from berth_core.framework.sampling import Sample
from berth_core.framework.state import Cycle
from berth_core.model.placement import Placement
from berth_core.plugins.coscheduling import group_of
from berth_core.plugins.dynamic_resources import out_of_reach
from berth_kube.client import KubeClient
from berth_kube.stopping import together

from .attempt import Attempt, Decision
from .binding import Failed, Flight, bundled, carry_out, give_back, nothing_before, tell_bound
from .bundles import Bundles
from .cluster import Cluster
from .consulted.extender import judges
from .consulted.opinions import Whole
from .consulted.turns import Turns
from .desk import Desk
from .failures import Failures
from .metrics import SCHEDULED, Metrics
from .news import News
from .preemption import Preempting, Preemptions
from .profiles import Running, actors_for
from .reports import Reports

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
#: Decisions in a row before the watches and the bindings get their turn.
STREAK = 16
#: Pods on their way to their nodes at one moment; beyond it decisions wait. Those whose volumes are still being
#: made are among them, so it is far more than the requests that the client sends at a time.
BINDING = 5000
#: Requests in line for a connection; beyond it decisions wait. It keeps the connections busy, and no more: what stands
#: in line is late for a pod that is more urgent, and is lost with the Lease.
LINE = 64
TICK = 1.0
NO_NODES = "no nodes available to schedule pods"


class Scheduler:
    """Made inside a running loop; listens from then on, places pods while `run` runs."""

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        reports: Reports,
        metrics: Metrics,
        profiles: Mapping[str, Running],
        rules: Rules,
        preempting: Preempting,
    ) -> None:
        self._client, self._cluster, self._metrics = client, cluster, metrics
        self._desk = desk = Desk(cluster, reports, metrics, dict(profiles), SchedulingQueue(rules))
        self._news, self._failures = News(desk), Failures(desk)
        self._preemptions = Preemptions(client, cluster, reports, preempting, desk.nominations, desk.try_again)
        self._loop = asyncio.get_running_loop()
        self._slot = asyncio.Semaphore(BINDING)
        self._bundles = Bundles(client, self._bundled)
        self._turns = Turns(desk, self._failures, Whole(client), self)
        self._start = 0
        self._tasks: set[asyncio.Task[None]] = set()

    # -- the life --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Place pods until cancelled. What is under way then is left as it stands: the next leader goes on from it."""
        try:
            await together(None, self._place_all(), self._turns.run(), self._bundles.run(), self._tick())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._preemptions.stop()

    async def _tick(self) -> None:
        while True:
            self._desk.queue.flush(self._loop.time())
            for group in self._desk.held_back.due(self._loop.time()):
                self._wake_members(group)
            self._desk.wake.set()
            await asyncio.sleep(TICK)

    async def _place_all(self) -> None:
        streak = 0
        while True:
            queued = self._desk.queue.pop(self._loop.time())
            if queued is None:
                self._desk.wake.clear()
                await self._desk.wake.wait()
                continue
            self._one(queued)
            streak += 1
            if streak >= STREAK or self._slot.locked():
                streak = 0
                await asyncio.sleep(0)
                async with self._slot:  # waits while too many are being bound
                    pass
                await self._bundles.room()
                if self._client.line > LINE:
                    await self._client.turn()

    def take(self, profiles: Mapping[str, Running], rules: Rules) -> None:
        """Go on with other profiles. Pods of names that are gone are left alone, those of new names come in."""
        self._desk.profiles, self._desk.queue.rules = dict(profiles), rules
        for queued in self._desk.queue.pods():
            if queued.profile not in profiles:
                self._desk.queue.remove(queued.pod.uid)
                self._desk.nominations.forget(queued.pod.uid)
        for pod in self._cluster.pods.all():
            if not pod["info"].node_name and pod["info"].uid not in self._desk.assumed:
                self._news.added(pod)
        self._desk.queue.activate([queued.pod.uid for queued in self._desk.queue.pods()])
        self._desk.wake.set()

    @property
    def names(self) -> frozenset[str]:
        """The names of schedulers that this one is."""
        return frozenset(self._desk.profiles)

    @property
    def queue(self) -> SchedulingQueue:
        """The pods that wait."""
        return self._desk.queue

    @property
    def busy(self) -> bool:
        """Whether binds keep the API server at work."""
        return self._bundles.busy

    @property
    def assumed(self) -> int:
        """How many pods count on a node without the watch having told it."""
        return len(self._desk.assumed)

    # -- one pod ---------------------------------------------------------------------------------------------------

    def _one(self, queued: QueuedPod) -> None:
        """Decide about one pod, or let extenders have their word first."""
        attempt = self.attempt(queued)
        if attempt is None:
            return
        if judges(attempt.running.extenders, queued.pod):
            self._turns.put(queued)
            return
        try:
            decision = self.decide(attempt)
        except Exception as exc:  # noqa: BLE001 - plugins from outside: their fault costs this pod an attempt, no more
            self._failures.error(queued, attempt.pod, exc, attempt.began)
            return
        self.conclude(attempt, decision)

    def attempt(self, queued: QueuedPod) -> Attempt | None:
        """What is known of a pod in flight now; None: there is nothing to decide, and the queue has let it go."""
        uid = queued.pod.uid
        pod = self._cluster.pods.get(queued.pod.name, queued.pod.namespace)
        running = self._desk.profiles.get(queued.profile)
        known = pod is not None and pod["info"].uid == uid and not pod["info"].node_name
        if pod is None or running is None or not known or uid in self._desk.assumed or pod["info"].terminating:
            self._desk.queue.done(uid)
            return None
        queued.pod = self._desk.nominations.of(pod["info"])
        return Attempt(queued, pod, running, self._loop.time())

    def decide(self, attempt: Attempt, extended: Extended | None = None) -> Decision:
        """Ask the engine. A pod with a berth goes there, and the berth's room is its own."""
        asked = ask(self._cluster, attempt.queued.pod)
        problem = attempt.pod["problem"] or asked.problem
        if problem:
            return Decision(asked, None, problem=problem)
        snapshot, berth = self._cluster.snapshot, asked.berth
        if berth is None:
            return self._place(attempt, asked, None, extended)
        kept = snapshot.set_aside(berth.namespace, berth.name)
        try:
            return self._place(attempt, asked, berth.node_name, extended)
        finally:
            snapshot.put_back(berth.namespace, berth.name, kept)

    def conclude(self, attempt: Attempt, decision: Decision) -> None:
        """Do what was decided."""
        self._metrics.algorithm.observe(self._loop.time() - attempt.began)
        if decision.outcome is None:
            total = len(self._cluster.snapshot.nodes)
            text = f"0/{total} nodes are available: {decision.problem}."
            self._failures.refuse(attempt.queued, attempt.pod, text, frozenset({"LocalDiskFit"}), attempt.began)
        elif decision.outcome.placement is None:
            self._no_place(attempt, decision.asked, decision.outcome.diagnosis, decision.nomination)
        else:
            self._go_on(attempt, decision.asked, decision.outcome.placement)

    def _place(self, attempt: Attempt, asked: Ask, only_node: str | None, extended: Extended | None) -> Decision:
        running = attempt.running
        profile, snapshot, nominated = running.profile, self._cluster.snapshot, self._desk.nominations.by_node
        wanted: dict[str, Any] = {"only_node": only_node, "hints": False, "nominated": nominated}
        if 0 < running.share < 100:
            wanted["sample"] = Sample(running.share, self._start)
        outcome = place(profile, snapshot, asked.request, extended=extended, **wanted)
        self._metrics.evaluated(attempt.queued.profile, outcome.counts)
        self._start = (self._start + outcome.looked_at) % max(1, len(snapshot.nodes))
        diagnosis = outcome.diagnosis
        if outcome.placement is not None or not diagnosis.total or not profile.post_filters:
            return Decision(asked, outcome)
        offset = random.randrange(diagnosis.total)  # noqa: S311 - not always the first nodes are disturbed
        found = post_filter(profile, snapshot, asked.request, diagnosis, offset, nominated)
        self._metrics.preempted(len(found.victims))
        return Decision(asked, outcome, found)

    def _no_place(self, attempt: Attempt, asked: Ask, diagnosis: Diagnosis, nomination: Nomination) -> None:
        queued, pod, running, began = attempt
        if not diagnosis.total:
            self._failures.failed(queued, pod, NO_NODES, began)
            return
        text = f"{diagnosis.summary()} {nomination.message}".rstrip()
        if asked.berth is not None:
            text += f" Its Berth is on node {asked.berth.node_name}, and no other node is looked at."
        if out_of_reach(diagnosis):
            self._beside(running.claims.deallocate(self._client, queued.pod))
        self._preemptions.begin(pod, queued.profile, nomination)
        self._failures.refuse(queued, pod, text, _rejectors(diagnosis), began, nomination.node)

    def _go_on(self, attempt: Attempt, asked: Ask, placement: Placement) -> None:
        """Count the choice from now on; ask Permit; carry it out beside the next decisions."""
        queued, pod, running, began = attempt
        binding = Binding(pod, asked.request, placement, self._client)
        flight = Flight(queued, binding, actors_for(running, queued.pod), began)
        self._desk.assumed.begin(flight, running, asked.claims)
        self._desk.nominations.remove(queued.pod.uid)
        refused = self._permit(running, flight)
        if refused is None and flight.verdict is None and nothing_before(flight):
            self._desk.queue.done(queued.pod.uid)
            self._bundles.put(flight)
        else:
            self._beside(self._carry(flight, refused))

    def _bundled(self, flight: Flight, error: BerthError | None) -> None:
        """What became of a bind that went with others."""
        if error is not None:
            self._beside(self._end(flight, bundled(flight, error)))
            return
        self._bound(flight)
        if flight.actors.post_binds:
            self._beside(tell_bound(flight))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _permit(self, running: Running, flight: Flight) -> Failed | None:
        cycle = Cycle(self._cluster.snapshot, flight.binding.request)
        group = group_of(flight.queued.pod)
        for name, plugin in running.permits:
            try:
                answer = plugin.permit(cycle, self._desk.room.waiting())
                if not isinstance(answer, Permission):
                    raise TypeError(f"expected a Permission, got {answer!r}")
            except Exception as exc:  # noqa: BLE001 - plugins from outside
                return Failed(f"plugin {name} failed: {type(exc).__name__}: {exc}")
            if answer.status.code == Code.WAIT:
                why = self._desk.held_back.holds(group, self._loop.time())
                if why is not None:
                    return Failed(f"a member of its pod group found no place a moment ago: {why.rstrip('.')}", name)
                flight.waits_for[name] = answer.timeout
            elif not answer.status.ok:
                return Failed(", ".join(answer.status.reasons), name, answer.status.code)
            else:
                self._desk.room.allow(answer.allow, name)
        if flight.waits_for:
            self._desk.room.enter(flight)
        if group is not None:
            self._go_on_together(group, bool(flight.waits_for))
        return None

    def _go_on_together(self, group: tuple[str, str], waits: bool) -> None:
        """Who waits for the others does so while they are tried, not while they wait for something to happen."""
        if waits:
            self._wake_members(group)
        else:
            self._desk.held_back.placed(group)

    def _wake_members(self, group: tuple[str, str]) -> None:
        uids = [pod["info"].uid for pod in self._cluster.group(group)]
        if not uids:
            self._desk.held_back.gone(group)
        self._desk.queue.activate([uid for uid in uids if uid not in self._desk.assumed])
        self._desk.wake.set()

    async def _carry(self, flight: Flight, failed: Failed | None) -> None:
        """Permit's wait and all that follows."""
        if failed is None and flight.verdict is not None:
            failed = await self._wait(flight)
        await self._end(flight, self._act(flight, failed))

    async def _act(self, flight: Flight, failed: Failed | None) -> Failed | None:
        if failed is not None:
            return failed
        self._desk.queue.done(flight.queued.pod.uid)
        async with self._slot:
            return await carry_out(flight)

    async def _end(self, flight: Flight, outcome: Coroutine[Any, Any, Failed | None]) -> None:
        """Whatever comes out of it, the pod is somewhere afterwards."""
        try:
            failed = await outcome
        except Exception as exc:  # noqa: BLE001 - the scheduler's fault: the pod must not be lost for it
            _log.exception("pod %s: what became of it is not known", flight.binding.key)
            failed = Failed(f"{type(exc).__name__}: {exc}")
        if failed is None:
            self._bound(flight)
            await tell_bound(flight)
            return
        await give_back(flight)
        self._take_back(flight, failed)

    async def _wait(self, flight: Flight) -> Failed | None:
        began = self._loop.time()
        plugin, status = await self._desk.room.wait(flight)
        self._metrics.permitted("Success" if status.ok else "Unschedulable", self._loop.time() - began)
        return None if status.ok else Failed(", ".join(status.reasons), plugin, status.code)

    def _bound(self, flight: Flight) -> None:
        queued, now = flight.queued, self._loop.time()
        _log.info("bound", extra={"pod": flight.binding.key, "node": flight.node, "attempts": queued.attempts})
        self._desk.reports.scheduled(flight.binding.pod, queued.profile, flight.node)
        self._metrics.attempt(SCHEDULED, queued.profile, now - flight.began)
        self._metrics.bound(queued.attempts, now - (queued.first_attempt or now))

    def _take_back(self, flight: Flight, failed: Failed) -> None:
        """The choice counts no more; the pod goes back into the queue, and others may have its room."""
        queued, info = flight.queued, flight.queued.pod
        if self._desk.assumed.get(info.uid) is flight:
            self._desk.assumed.end(flight)
            self._news.changed(
                Change(ClusterEvent(ASSIGNED_POD, Action.DELETE), replace(info, node_name=flight.node), None)
            )
        pod = self._cluster.pods.get(info.name, info.namespace)
        if pod is None or pod["info"].uid != info.uid or pod["info"].node_name or pod["info"].terminating:
            self._desk.queue.done(info.uid)
            return
        queued.pod = pod["info"]
        if failed.plugin:
            text = f"0/{len(self._cluster.snapshot.nodes)} nodes are available: 1 {failed.message}."
            self._failures.refuse(queued, pod, text, frozenset({failed.plugin}), flight.began)
        else:
            self._failures.failed(queued, pod, failed.message, flight.began)


def _rejectors(diagnosis: Diagnosis) -> frozenset[str]:
    """The plugins whose word must change."""
    named = frozenset(one.plugin for one in diagnosis.refusals)
    return named | {diagnosis.rejected_by} if diagnosis.rejected_by else named
