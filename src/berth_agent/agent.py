"""The whole agent of one node, put together. Made by `__main__`; read this file first.

    Configuration -> Settings -> Observer (the Look) -> Publisher (LocalDisks and their status) -> DiskWork, Parts

Everything runs in one event loop. Nothing is written, to the API server or to a disk, before the host's lock and the
node's Lease are this process's; what may block for long runs in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from datetime import datetime, timezone
from typing import Any, Callable

from berth_core.app.agent_settings import Settings
from berth_core.errors import StateError
from berth_core.model.resources import LOCAL_DISK
from berth_host.machine import Machine
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.events import Recorder
from berth_kube.informer import Informer
from berth_kube.lease import LeaderElection, Periods
from berth_kube.queue import Reconciler

from .config import Configuration
from .kubelet import KubeletClient
from .memory import give_back
from .metrics import AgentMetrics
from .neighbours import Neighbours
from .node_there import tell_of_missing_node
from .notify import Notifier
from .observer import Observer
from .parts import Ground
from .publish import Publisher
from .report import READY, SURVEYED, Report
from .seams import Look, Object, Tools
from .serving import serve
from .single import HostLock

LOG = logging.getLogger("berth_agent")
NAMESPACE = "berth-system"
COMPONENT = "berth-agent"
#: Disks that may be worked on at once; a wipe keeps its place for hours.
_WORKERS = 64
#: Seconds after the first publishing when starting is over; and when the connections are closed that it needed.
_SETTLED = (10.0, 180.0)

Job = Callable[[], Awaitable[Any]]


def periods(lease: float) -> Periods:
    """By default renewed as seldom as a node's own Lease or less: it is the only thing that is written at rest."""
    return Periods(lease=lease, renew=lease * 2 / 3, retry=lease / 4)


def utc_now() -> str:
    """RFC 3339, whole seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Agent:
    """One node's agent, made by whoever holds ``host_lock``.

    ``lease_client`` is for the Lease alone: every write of ``client`` needs that Lease. ``access``: who it is, for the
    kubelet.
    """

    def __init__(
        self,
        configuration: Configuration,
        client: KubeClient,
        lease_client: KubeClient,
        access: Config,
        version: str,
        host_lock: HostLock,
        machine: Machine | None = None,
        namespace: str = NAMESPACE,
    ) -> None:
        self.configuration = configuration
        self.node = configuration.settings.node
        self.machine = machine or Machine()
        self.notifier, self.metrics = Notifier(), AgentMetrics(version, client, lease_client)
        self.report = Report(utc_now, version, self._said)
        self.recorder = Recorder(client, COMPONENT, self.node)
        self.informer = Informer(client, LOCAL_DISK, fields=f"spec.nodeName={self.node}")
        self.observer = Observer(self.machine, self.settings, self._looked, self._surveyed)
        self.election = LeaderElection(
            lease_client,
            namespace,
            f"{COMPONENT}-{self.node}",
            host_lock.identity(self.node),
            periods=periods(self.settings().intervals.lease),
            annotations=self.report.annotations,
        )
        client.guard_writes(self.election.check)
        self.reconciler: Reconciler[str] = Reconciler("disk", self._reconcile, workers=_WORKERS)
        self.neighbours = Neighbours(client, self.node, self.report, self._wake_publisher)
        self.tools = self._tools(client)
        self.kubelet = KubeletClient(access, self.settings, f"{COMPONENT}/{version}")
        ground = Ground(self.tools, self.report, self.metrics, self.kubelet)
        self.work, self.others = ground.disk_work(), ground.others()
        self.publisher = Publisher(self.tools, self.work, self.neighbours, self.report, self._published)
        self.leads, self.ready = asyncio.Event(), asyncio.Event()
        self._when_ready: Callable[[], object] = lambda: None

    def when_ready(self, call: Callable[[], object]) -> None:
        """Call this once, when everything that was seen is published for the first time."""
        self._when_ready = call

    def settings(self) -> Settings:
        """The settings in force."""
        return self.configuration.settings

    def _tools(self, client: KubeClient) -> Tools:
        return Tools(
            node=self.node,
            client=client,
            recorder=self.recorder,
            settings=self.settings,
            look=lambda: self.observer.look,
            look_again=self.observer.look_again,
            disks=self._disks,
            wake_disk=self._wake_disk,
            check=self.election.check,
            check_alone=self.neighbours.check,
            now=utc_now,
            machine=self.machine,
        )

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(self, once: bool = False) -> None:
        """Until cancelled, or (``once``) until what was seen is published; then no disk or device is touched.

        Raises what ended one of the tasks.
        """
        changed = self._disk_changed
        self.informer.on(add=changed, update=lambda _old, new: changed(new), listed=self.publisher.listed)
        self.report.configuration(self.configuration.in_force)
        # The Lease is stopped last: until then nobody else may begin.
        lease = _spawn({"lease": self._hold_lease})
        running = _spawn(self._always())
        try:
            await _first_of([*lease, *running], self.leads.wait())
            running += _spawn({"publisher": self._publish} if once else self._leading())
            self._wake_all()
            await _first_of([*lease, *running], self.ready.wait() if once else asyncio.Event().wait())
        finally:
            self.notifier.tell("STOPPING=1")
            await _stop(running)
            await self.kubelet.close()
            await _stop(lease)

    def _always(self) -> Mapping[str, Job]:
        """What runs whether or not the agent has the node's Lease: all that only looks."""
        return {
            "configuration": self._follow_configuration,
            "watch": self.informer.run,
            "neighbours": self.neighbours.run,
            "observer": self.observer.run,
            "events": self.recorder.run,
            "server": self._serve,
            "watchdog": self._watchdog,
            "node": lambda: tell_of_missing_node(self.tools.client, self.node),
        }

    def _leading(self) -> Mapping[str, Job]:
        """What starts once the agent has had the Lease. When it is lost, every write is refused until it is back."""
        found: dict[str, Job] = {"publisher": self._publish, "disks": self.reconciler.run}
        if self.work is not None:
            found["disk work"] = self.work.run
        return {**found, **{type(part).__module__: part.run for part in self.others}}

    async def _hold_lease(self) -> None:
        while True:
            await self._hold_lease_once()

    async def _hold_lease_once(self) -> None:
        try:
            await self.election.run(self._led)
        except StateError as exc:
            LOG.warning("%s; nothing is written until it is back", exc.message)

    async def _led(self) -> None:
        self.leads.set()
        self._wake_all()
        await asyncio.Event().wait()

    async def _publish(self) -> None:
        await self.informer.wait_synced()
        await self.publisher.run()

    async def _serve(self) -> None:
        await serve(self.metrics.registry, self.settings, self.ready.is_set)

    async def _watchdog(self) -> None:
        """Signs of life for systemd: this loop turns."""
        self.notifier.tell("READY=1", f"STATUS=configuration {self.configuration.in_force.digest}")
        while True:
            await asyncio.sleep(self.notifier.watchdog or 3600)
            self.notifier.tell("WATCHDOG=1")

    async def _follow_configuration(self) -> None:
        while True:
            await asyncio.sleep(self.settings().intervals.poll)
            if self.configuration.poll():
                self.notifier.tell(f"STATUS=configuration {self.configuration.in_force.digest}")
                self._wake_all()
            self.report.configuration(self.configuration.in_force)

    def reload(self) -> None:
        """SIGHUP: read the configuration now, and survey the host."""
        self.notifier.tell("RELOADING=1")
        self.configuration.reload()
        self.report.configuration(self.configuration.in_force)
        self.observer.look_again()
        self._wake_all()
        self.notifier.tell("READY=1")

    # -- who wakes whom --------------------------------------------------------------------------------------------

    def _disks(self) -> Mapping[str, Object]:
        return {str(disk["metadata"]["name"]): disk for disk in self.informer.all()}

    def _looked(self, look: Look) -> None:
        self.metrics.looked(look, self.observer.surveys)
        self._wake_all()

    def _surveyed(self, problem: str) -> None:
        self.report.set(SURVEYED, "False" if problem else "True", "TakesLong" if problem else "Complete", problem)

    def _disk_changed(self, disk: Object) -> None:
        self.publisher.wake()
        self.reconciler.queue.add(str(disk["metadata"]["name"]))

    def _wake_disk(self, name: str) -> None:
        self.publisher.wake()
        self.reconciler.queue.add(name)

    def _wake_all(self) -> None:
        self.publisher.wake()
        for name in self._disks():
            self.reconciler.queue.add(name)
        for part in (*self.others, *([self.work] if self.work is not None else ())):
            part.wake()

    def _wake_publisher(self) -> None:
        self.publisher.wake()

    def _published(self, number: int) -> None:
        self.metrics.published(self.publisher.disks().values(), number)
        self.report.set(READY, "True", "Published")
        if not self.ready.is_set():
            LOG.info("everything that was seen is published")
            for seconds in _SETTLED:
                asyncio.get_running_loop().call_later(seconds, give_back)
            self._when_ready()
        self.ready.set()

    def _said(self) -> None:
        self.election.touch()

    async def _reconcile(self, name: str) -> float | None:
        look, disk = self.observer.look, self.publisher.disks().get(name)
        if self.work is None or look is None or disk is None:
            return None
        device, _ambiguous = look.find_or_problem(disk)
        return await self.work.reconcile(disk, device, look)


def _spawn(jobs: Mapping[str, Job]) -> list[asyncio.Task[Any]]:
    return [asyncio.ensure_future(_named(name, job)) for name, job in jobs.items()]


async def _named(name: str, job: Job) -> None:
    try:
        await job()
    except Exception:
        LOG.exception("%s failed", name)
        raise


async def _first_of(running: list[asyncio.Task[Any]], until: Awaitable[Any]) -> None:
    """Until ``until``; a task that ends before is an error of its own, or of the agent."""
    waiting = asyncio.ensure_future(until)
    try:
        await asyncio.wait([*running, waiting], return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            if task.done():
                task.result()
                raise StateError("a part of the agent has ended, and none should: see the log above")
    finally:
        waiting.cancel()


async def _stop(running: list[asyncio.Task[Any]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
