"""berth-scheduler: places pods. The composition root: `berth-scheduler --help`.

The election has a client of its own; writes of the others are each preceded by the question whether this process still
leads. Caches and the queue are filled before it leads, so that the next leader begins at once. Who loses the lease
ends, and is started anew.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from berth_core.config.configuration import SchedulerConfiguration
from berth_core.errors import BerthError, InputError
from berth_kube import config, fast, logs
from berth_kube.client import KubeClient
from berth_kube.events import Recorder
from berth_kube.lease import LeaderElection, Periods, identity
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.serve import caches_server
from berth_kube.stopping import together, until_stopped
from berth_kube.token import renew_token

from .bundles import CONNECTIONS
from .cluster import Cluster
from .configuration import NAME, Configurations
from .consulted.extender import check_files
from .consulted.pool import Pool
from .metrics import Metrics
from .preemption import Preempting
from .profiles import Running, queue_rules, run_profile
from .reports import Reports
from .scheduler import Scheduler
from .settings import Settings, add_run, read

_log = logging.getLogger(__name__)

#: Every pod of a burst gets its event, and the API server is not flooded for good.
#: Nobody waits for one: a few go out together, and their answers are looked at together.
EVENTS: Mapping[str, Any] = {
    "rate": 500.0,
    "burst": 2000,
    "waiting": 50_000,
    "by_note": False,
    "writers": 4,
    "together": 32,
    "gather": 0.1,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 asked to stop; 1 the lease was lost, or the API refused; 2 wrong settings."""
    given = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog=NAME, description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_run(commands)
    others = {} if given[:1] == ["run"] else _other_commands(commands)
    arguments = parser.parse_args(given)
    try:
        if arguments.command in others:
            return others[arguments.command](arguments)
        settings = read(arguments)
        logs.setup(settings.log_format, settings.log_level)
        return fast.run(run(settings))
    except InputError as exc:
        print(f"{NAME}: {exc.message}", file=sys.stderr)  # noqa: T201 - nothing runs yet that could log
        return 2


def _other_commands(commands: Any) -> dict[str, Callable[[argparse.Namespace], int]]:
    """All but `run`, which starts often and has no need of what they import."""
    from .extender.command import add_extend, extend_command
    from .simulate import add_simulate, simulate_command

    add_simulate(commands)
    add_extend(commands)
    return {"simulate": simulate_command, "extend": extend_command}


async def run(settings: Settings) -> int:
    """Until a signal, or until this process may not lead any more."""
    files = Configurations(settings, lambda found: check_files(found.extenders))
    return await until_stopped(_serve(settings, files, files.load()), _log)


async def _serve(settings: Settings, files: Configurations, configuration: SchedulerConfiguration) -> None:
    me = settings.identity or identity(socket.gethostname())
    requests, metrics = RequestMetrics(), Metrics()
    who = config.load(settings.kubeconfig or configuration.kubeconfig or None)
    options = fast.client_options()
    make: dict[str, Any] = {"field_manager": NAME, "observe": requests.requests(), "connections": CONNECTIONS}
    async with (
        KubeClient(who, user_agent=NAME, **make, **options) as client,
        KubeClient(who, user_agent=f"{NAME}/events", connections=8, **options) as telling,
        KubeClient(who, user_agent=f"{NAME}/leader", connections=2) as electing,
        contextlib.aclosing(Pool()) as extenders,
    ):
        reports = Reports(client, {})
        cluster = Cluster(client)
        preempting = Preempting(cluster)
        running = _profiles(settings, files, configuration, cluster, preempting, extenders)
        rules = queue_rules(configuration, running)
        scheduler = Scheduler(client, cluster, reports, metrics, running, rules, preempting)
        recorders = Recorders(telling, me, reports, lambda: scheduler.busy)
        recorders.take(running)
        _show(metrics, cluster, scheduler)
        election = _election(electing, configuration, me)
        requests.leading(lambda: election is None or election.leading)

        def take(changed: SchedulerConfiguration | InputError) -> None:
            metrics.reloaded(not isinstance(changed, InputError))
            if isinstance(changed, InputError):
                _log.error("the changed configuration is refused, the last one stays: %s", changed.message)
                return
            new = _profiles(settings, files, changed, cluster, preempting, extenders)
            recorders.take(new)
            scheduler.take(new, queue_rules(changed, new))
            _log.info("the changed configuration is in force", extra={"profiles": ", ".join(sorted(new))})

        async def work() -> None:
            await cluster.wait_synced()
            _log.info("%s works as %s", NAME, me)
            await scheduler.run()

        if election is not None:
            client.guard_writes(election.check)
            telling.guard_writes(election.check)
        tls = settings.tls_certificate, settings.tls_key
        refused = requests.refused("metrics")
        server = caches_server(settings.port, settings.address, lambda: cluster.synced, *tls, refused)
        working = election.run(work) if election is not None else work()
        beside = _beside(settings, electing, cluster, requests.refused("page"))
        await together(server, working, cluster.run(), recorders.run(), files.watch(take), *beside)


def _beside(
    settings: Settings, client: KubeClient, cluster: Cluster, refused: Callable[[str], None]
) -> list[Coroutine[Any, Any, None]]:
    """What runs whether it leads or stands by."""
    found: list[Coroutine[Any, Any, None]] = [_settle(cluster)]
    if settings.renew_token:
        found.append(renew_token(client, Path(settings.renew_token)))
    if settings.page_port:
        from .page import Page  # the report is much to read for who does not serve it

        found.append(Page(settings.page_port, cluster, refused=refused).run())
    return found


async def _settle(cluster: Cluster) -> None:
    """The collector of cycles looks seldom while the caches are filled, and never again at what they hold by then.

    That is before this process leads. Never to look would be cheaper, but who waits for an API server for long makes
    cycles too.
    """
    gc.set_threshold(50_000, 20, 50)
    await cluster.wait_synced()
    gc.collect()
    gc.freeze()
    await asyncio.Event().wait()


class Recorders:
    """One recorder for each profile: its name stands in the events, as kube-scheduler's does. ``busy``: of Recorder."""

    def __init__(self, client: KubeClient, instance: str, reports: Reports, busy: Callable[[], bool]) -> None:
        self._client, self._instance, self._reports, self._busy = client, instance, reports, busy
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def take(self, names: Iterable[str]) -> None:
        """Make recorders for new names."""
        for name in names:
            if name not in self._tasks:
                recorder = Recorder(self._client, name, self._instance, busy=self._busy, **EVENTS)
                self._reports.recorders[name] = recorder
                self._tasks[name] = asyncio.ensure_future(recorder.run())

    async def run(self) -> None:
        """Until cancelled; then what waits is written."""
        try:
            await asyncio.Event().wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            for recorder in self._reports.recorders.values():
                with contextlib.suppress(BerthError):
                    await recorder.flush()


def _profiles(
    settings: Settings,
    files: Configurations,
    configuration: SchedulerConfiguration,
    cluster: Cluster,
    preempting: Preempting,
    extenders: Pool,
) -> dict[str, Running]:
    asked = extenders.take(configuration.extenders_in_order())
    return {
        one.scheduler_name: run_profile(
            one, files.table, cluster, preempting, settings.mount_root, configuration.share_of_nodes(one), asked
        )
        for one in configuration.profiles
    }


def _election(client: KubeClient, configuration: SchedulerConfiguration, me: str) -> LeaderElection | None:
    lease = configuration.leader_election
    if not lease.leader_elect:
        return None
    periods = Periods(lease.lease_duration, lease.renew_deadline, lease.retry_period)
    return LeaderElection(client, lease.resource_namespace, lease.resource_name, me, periods=periods)


def _show(metrics: Metrics, cluster: Cluster, scheduler: Scheduler) -> None:
    sizes = {
        "nodes": lambda: len(cluster.snapshot.nodes),
        "pods": lambda: len(cluster.pods.store),
        "assumed_pods": lambda: scheduler.assumed,
    }
    metrics.show(scheduler.queue.counts, scheduler.queue.kept_changes, sizes, cluster.snapshot.unreadable)


if __name__ == "__main__":
    sys.exit(main())
