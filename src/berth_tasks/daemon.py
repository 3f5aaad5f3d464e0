"""The parts of one leader: made when it leads, from what the API server and the checkpoint say. Called by __main__."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from berth_core.app.task_backend_settings import Settings, is_database
from berth_core.errors import StateError
from berth_core.model.resources import NAMESPACE, TASK
from berth_core.tasks.bounds import read_ceiling
from berth_core.tasks.policies import Policies
from berth_core.tasks.snapshot import PodsSnapshot
from berth_core.tasks.task import Task
from berth_kube.client import KubeClient
from berth_kube.informer import Informer
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.queue import Reconciler

from .backend import KubernetesTaskSchedulerBackend
from .batches import Batches
from .checkpoint import Checkpoint
from .filler import FillerWork
from .held_offers import HeldOffers
from .kept import Kept
from .kubernetes_client import KubernetesClient
from .lifecycle_manager import TaskPodsLifecycleManager
from .metrics import Figures, Metrics
from .nodes import Nodes
from .polling_source import PodsPollingSnapshotSource
from .queues import Queues, known_policies
from .quotas import Quotas
from .sqlite_store import SqliteStore
from .store import PodSnapshotStore
from .task_registry import TaskKey
from .usage import Usage
from .watch_source import PodsWatchSnapshotSource

_log = logging.getLogger(__name__)


class Daemon:
    """``synced``: everything was listed once; ``backend``: from when it leads."""

    def __init__(self, client: KubeClient, requests: RequestMetrics, settings: Settings) -> None:
        self._client, self._requests, self._settings = client, requests, settings
        self._metrics = Metrics()
        self.synced = False
        self.backend: KubernetesTaskSchedulerBackend | None = None

    async def run(self, works: Callable[[], None]) -> None:
        """Until cancelled. ``works`` is called once everything was listed."""
        settings, client = self._settings, self._client
        kept, snapshot = await _taken_over(settings, client)
        room = asyncio.Event()
        tasks, policies = Informer(client, TASK, packing=Kept()), Policies(known_policies(), settings.policy)
        queues = Queues(client, policies, room.set)
        nodes, quotas = Nodes(client, room.set), Quotas(client, room.set)
        pods = KubernetesClient(client, settings.log_lines)
        self.backend = backend = KubernetesTaskSchedulerBackend(
            *(pods, nodes, queues.all, quotas, policies, Usage.of(client, settings)),
            read_ceiling("--ceiling", settings.ceiling),
        )
        batches = Batches(client, backend)
        held, filler = HeldOffers(client, backend.offers, room.set), FillerWork(backend, nodes, queues, room.set)
        backend.tasks.at = partial(task_at, tasks)
        store = PodSnapshotStore(backend.allocations.follow, backend.tasks.at)
        manager = TaskPodsLifecycleManager(
            *(client, pods, tasks, batches, store, backend, self._metrics, room),
            running_after=settings.running_after,
            pending_after=settings.pending_after,
        )
        visits: Reconciler[TaskKey] = Reconciler(
            "task", manager.reconcile, settings.workers, observe=self._requests.reconciles("task")
        )
        self._tell(visits, Now(backend, batches, filler))
        try:
            async with asyncio.TaskGroup() as group:
                known = (tasks, queues, batches, nodes, quotas, held)
                for each in known:
                    group.create_task(each.run())
                await asyncio.gather(*(each.wait_synced() for each in known))
                for task in tasks.store.all_kept():
                    _know(backend, task)
                batches.load()
                held.begin()
                store.begin(snapshot)
                del snapshot  # of all its pods nothing else is kept here for as long as this process leads
                source = PodsWatchSnapshotSource(client, store)
                group.create_task(source.run())
                await source.synced.wait()
                manager.listen(visits)
                store.subscribe("tasks", manager.on_snapshot)
                if kept is not None:
                    store.subscribe("checkpoint", kept.save)
                self.synced = True
                works()
                for work in (
                    *(
                        queues.tell(),
                        store.run(),
                        backend.tasks.run(),
                        manager.rounds(),
                        manager.tell(),
                        visits.run(),
                        pods.run(),
                    ),
                    *(PodsPollingSnapshotSource(client, store, settings.poll_interval).run(), filler.run()),
                ):
                    group.create_task(work)
        finally:
            if kept is not None:
                await kept.close()

    def _tell(self, visits: Reconciler[TaskKey], now: Now) -> None:
        """What the metrics say of this leader."""
        self._requests.depth("task", lambda: len(visits.queue))
        self._metrics.charged.set_function(now.charged)
        self._metrics.watch(now)


class Now:
    """What is there now, for the metrics (metrics.Now)."""

    def __init__(self, backend: KubernetesTaskSchedulerBackend, batches: Batches, filler: FillerWork) -> None:
        self.waiting_by_reason, self.used = backend.waiting_by_reason, backend.used
        self.queues, self.offered = backend.queues, backend.offered
        self.filler_room, self.filler_running = filler.room, filler.running
        self._backend, self._batches = backend, batches

    def charged(self) -> int:
        """How many tries have resources."""
        return len(self._backend.account)

    def by_state(self) -> Figures:
        """Tasks and elements of batches by their state."""
        return self._backend.tasks.by_state() + self._batches.by_state()


def _checkpoint(settings: Settings, client: KubeClient) -> Checkpoint | None:
    """A file is of one cluster, and its server's address tells it; behind one address there are many in a database."""
    if is_database(settings.store):
        from .postgresql_store import PostgresqlStore  # what it stands on is installed where it is used

        return Checkpoint(PostgresqlStore(settings.store, settings.namespace), lambda: _uid(client))
    return Checkpoint(SqliteStore(settings.store), lambda: _address(client)) if settings.store else None


async def _address(client: KubeClient) -> str:
    return client.server


async def _uid(client: KubeClient) -> str:
    """The uid of the namespace that is there as long as the cluster is."""
    return str((await client.get(NAMESPACE, "kube-system"))["metadata"]["uid"])


async def _taken_over(settings: Settings, client: KubeClient) -> tuple[Checkpoint | None, PodsSnapshot | None]:
    """The checkpoint and what an earlier process has kept in it."""
    checkpoint = _checkpoint(settings, client)
    try:
        return checkpoint, await checkpoint.load() if checkpoint is not None else None
    except StateError as exc:
        _log.error("%s", exc.message)
        return checkpoint, None


def task_at(tasks: Informer, key: TaskKey) -> Task | None:
    """The Task of that namespace and name; None where there is none, or it cannot be read."""
    kept = tasks.kept(key[1], key[0])
    return kept if isinstance(kept, Task) else None


def _know(backend: KubernetesTaskSchedulerBackend, kept: Task | Mapping[str, Any]) -> None:
    if isinstance(kept, Task):  # of what cannot be read as one its turn says so
        backend.know(kept)
