"""The schedulers that are compared, as processes. Each waits for its Lease, which the bench holds until it lets go.

Both run as the administrator, say nothing of single pods in their logs, and have the settings of their defaults; the
stock scheduler's client is not held back by its own rate limit.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import yaml

from berth_core.model.resources import LEASE, NAMESPACE
from berth_dev.cluster import Cluster
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.lease_record import Claim, claimed, holder_of, released, taken
from tests.dev.hosts_help import eventually
from tests.support.tcp import free_port

from .sched_site import until

HOLDER = "bench"


class Running(NamedTuple):
    """Processes whose CPU and memory count; ``synced``: true once everything is read and only the Lease is missing."""

    processes: tuple[Popen[bytes], ...]
    log: Path
    synced: Callable[[], bool]

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes)

    def check(self) -> None:
        """All of them run."""
        if any(process.poll() is not None for process in self.processes):
            raise SystemExit(f"sched/: a scheduler has ended:\n{self.log.read_text()[-3000:]}")


class Contender(NamedTuple):
    """``scheduler``: the name that its pods bear; ``start`` is used with ``with``."""

    scheduler: str
    lease: tuple[str, str]
    start: Callable[[Cluster, Path], AbstractContextManager[Running]]


@contextmanager
def program(argv: list[str], log: Path, more: Mapping[str, str] | None = None) -> Iterator[Popen[bytes]]:
    """A process that ends with the ``with``; ``more``: what is added to its environment."""
    with log.open("wb") as stream:
        process = Popen(argv, stdout=stream, stderr=stream, env={**os.environ, **(more or {})})
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _ours(cluster: Cluster, folder: Path) -> Iterator[Running]:
    port, log = free_port(), folder / "berth-scheduler.log"
    argv = [sys.executable, "-m", "berth_scheduler", "run", "--kubeconfig", str(cluster.kubeconfig)]
    with program([*argv, "--port", str(port), "--log-level", "warning"], log) as process:
        yield Running((process,), log, lambda: ready(port))


@contextmanager
def without_election(cluster: Cluster, log: Path) -> Iterator[int]:
    """berth-scheduler, which needs no Lease, once it is ready; the port of its metrics."""
    port = free_port()
    argv = [sys.executable, "-m", "berth_scheduler", "run", "--kubeconfig", str(cluster.kubeconfig)]
    with program([*argv, "--port", str(port), "--log-level", "warning", "--no-leader-elect"], log):
        eventually(lambda: ready(port), 300, "berth-scheduler is ready")
        yield port


def ready(port: int) -> bool:
    """Whether the daemon at that port of this machine says that it is."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def stock_configuration(cluster: Cluster) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": True},
    }


@contextmanager
def stock_with(cluster: Cluster, folder: Path, configuration: Mapping[str, Any]) -> Iterator[Running]:
    """kube-scheduler with that configuration."""
    file, log = folder / "kube-scheduler.yaml", folder / "kube-scheduler.log"
    file.write_text(yaml.safe_dump(dict(configuration)))
    argv = [str(cluster.bin_dir / "kube-scheduler"), "--config", str(file), "--secure-port", "0"]
    with program(argv, log) as process:
        # It asks for the Lease when its caches are filled, and not before.
        yield Running((process,), log, lambda: b"ttempting to acquire leader lease" in log.read_bytes())


OURS = Contender("berth-scheduler", ("berth-system", "berth-scheduler"), _ours)
STOCK = Contender(
    "default-scheduler",
    ("kube-system", "kube-scheduler"),
    lambda cluster, folder: stock_with(cluster, folder, stock_configuration(cluster)),
)


async def hold(client: KubeClient, lease: tuple[str, str]) -> None:
    """Take the Lease, whoever had it."""
    namespace, name = lease
    if await client.find(NAMESPACE, namespace) is None:
        await client.create(NAMESPACE, {"metadata": {"name": namespace}})
    found = await client.find(LEASE, name, namespace)
    wanted = claimed(taken(found, namespace, name), Claim(HOLDER, 36_000, utc_now()), {})
    await (client.create(LEASE, wanted) if found is None else client.replace(LEASE, wanted))


async def let_go(client: KubeClient, lease: tuple[str, str]) -> float:
    """Give the Lease up and wait until it is taken; returns when that was seen (time.monotonic)."""
    namespace, name = lease
    await client.replace(LEASE, released(await client.get(LEASE, name, namespace), utc_now()))

    async def led() -> bool:
        return holder_of(await client.get(LEASE, name, namespace)) not in ("", HOLDER)

    await until(led, f"nobody takes the Lease {namespace}/{name}", 0.02)
    return time.monotonic()


async def wait_synced(running: Running, used: Callable[[], float]) -> None:
    """Until its caches are filled and it rests: what it takes from then on is not for its start."""
    end = time.monotonic() + 600
    while not running.synced():
        running.check()
        if time.monotonic() > end:
            raise SystemExit("sched/: a scheduler does not fill its caches")
        await asyncio.sleep(0.05)
    before = -1.0
    while used() - before > 0.05:
        before = used()
        await asyncio.sleep(1)
