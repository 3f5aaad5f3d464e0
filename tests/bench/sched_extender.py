"""sched/extender: kube-scheduler with berth's extender in its path against kube-scheduler alone, at 1,000 nodes.

Twice: plain pods, which do not ask for the extender (managedResources), and pods with a claim on a local disk. Without
the extender these are kube-scheduler's and the controller's business alone, which is the same controller, the same
disks and the same claims; so what differs is filter, prioritize and bind by HTTP. All in one run, on one API server.

Plain pods go a third way, too: with an extender in kube-scheduler's configuration that nobody runs. What that costs is
kube-scheduler's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from berth_core.config.stock import MANAGED, ExtenderAddress, with_extender
from berth_core.model.resources import CSI_STORAGE_CAPACITY
from berth_dev.cluster import Cluster
from tests.daemons.controller.world import Process, install, kubeconfig
from tests.daemons.scheduler.extending import Extender
from tests.support.kube import client_for

from . import sched_disks
from .figures import Figure
from .ground import Ground
from .sched_contenders import STOCK, Contender, Running, stock_configuration, stock_with
from .sched_pods import pod, with_claim
from .sched_run import Run, Workload, ground_for, measure
from .sched_site import Obj, Site, until

CONTROLLER_NAMESPACE = "berth-system"
#: What the bench's kube-scheduler is compared with: itself.
ALONE = "kube-scheduler alone"


async def _disks(site: Site, work: Workload) -> None:
    """Disks and claims, and kube-scheduler has been told by the controller which nodes have some."""
    await sched_disks.make_class(site, sched_disks.OF_BERTH)
    await sched_disks.local_disks(site, work)
    await sched_disks.make_claims(site, work)

    async def published() -> bool:
        told = (await site.client.list(CSI_STORAGE_CAPACITY, CONTROLLER_NAMESPACE)).items
        return sum(1 for one in told if one["storageClassName"] == site.namespace) >= work.nodes

    await until(published, "the controller does not tell of the disks", 1)


def _asking(number: int) -> Obj:
    """With a claim, and one of the extender's."""
    found = with_claim(number)
    for which in ("requests", "limits"):
        found["spec"]["containers"][0]["resources"].setdefault(which, {})[MANAGED] = "1"
    return found


PLAIN = Workload("extender-plain", 1000, 2000, pod, lively=True)
DISKS = Workload("extender-disks", 1000, 100, with_claim, before=_disks, check=sched_disks.check, lively=True)


def extender(_ground: Ground) -> list[Figure]:
    """sched/extender: milliseconds a pod by the clock, with the extender and without it."""
    plain, disks = PLAIN.sized(), DISKS.sized()
    with ground_for(plain) as ground, _controller(ground.cluster, ground.folder):
        turns = [measure(ground, plain, who, f"turn{turn}") for turn, who in enumerate(TURNS)]
        alone = measure(ground, disks, STOCK, "alone")
        asking = measure(ground, replace(disks, pod=_asking), WITH, "with")
    return [
        _plain(plain, turns),
        _figure("sched/extender/disks", disks, [asking], [alone], "pods that ask for it, with a claim each"),
    ]


def _plain(work: Workload, runs: Sequence[Run]) -> Figure:
    with_it, without, named = (
        [run for run, turn in zip(runs, TURNS, strict=True) if turn is who] for who in (WITH, STOCK, NAMED)
    )
    figure = _figure("sched/extender/plain", work, with_it, without, "pods that do not ask for it")
    own = sum(run.beside for run in with_it) / sum(run.pods for run in with_it) * 1e3
    rate = 1 / _seconds(named)
    note = f"the extender's own CPU: {own:.3f} ms a pod; pods per second with one that does not run: {rate:.0f}"
    return figure._replace(notes=(*figure.notes, note))


def _figure(name: str, work: Workload, ours: Sequence[Run], alone: Sequence[Run], what: str) -> Figure:
    with_it, without = _seconds(ours), _seconds(alone)
    cpu = [", ".join(f"{run.milliseconds:.2f}" for run in runs) for runs in (ours, alone)]
    rates = f"with it {1 / with_it:.0f}, {ALONE} {1 / without:.0f}"
    notes = (
        f"{what}: {work.pods} on {work.nodes} nodes, all bound and the result checked; pods per second: {rates}",
        f"CPU a pod: {cpu[0]} ms, the extender among it, against {cpu[1]} ms",
    )
    return Figure(name, with_it * 1e3, without * 1e3, "ms", ALONE, notes)


def _seconds(runs: Sequence[Run]) -> float:
    """By the clock, a pod."""
    return sum(run.wall for run in runs) / sum(run.pods for run in runs)


@contextmanager
def _controller(cluster: Cluster, folder: Path) -> Iterator[None]:
    install(cluster)
    who = kubeconfig(cluster, client_for(cluster.kubeconfig), folder / "controller.kubeconfig")
    process = Process(who, folder / "controller.log", "--no-leader-elect", "--log-level", "warning")
    try:
        yield
    finally:
        process.stop()


@contextmanager
def _with_extender(cluster: Cluster, folder: Path) -> Iterator[Running]:
    log = folder / "extender.log"
    log.unlink(missing_ok=True)  # the port is read from it
    beside = Extender(cluster.kubeconfig, log)
    try:
        beside.works()
        at = ExtenderAddress(beside.url)
        configuration = with_extender(cluster.status()["version"], stock_configuration(cluster), at)
        with stock_with(cluster, folder, configuration) as running:
            yield running._replace(processes=(*running.processes, beside.process))
    finally:
        beside.stop()


@contextmanager
def _configured(cluster: Cluster, folder: Path) -> Iterator[Running]:
    nobody = ExtenderAddress("http://127.0.0.1:9")
    configuration = with_extender(cluster.status()["version"], stock_configuration(cluster), nobody)
    with stock_with(cluster, folder, configuration) as running:
        yield running


WITH = Contender(STOCK.scheduler, STOCK.lease, _with_extender)
NAMED = Contender(STOCK.scheduler, STOCK.lease, _configured)
#: Each at each place: what becomes slower from one run to the next does so for all. One says little, as they differ by
#: a fifth.
TURNS = (STOCK, WITH, NAMED, NAMED, STOCK, WITH, WITH, NAMED, STOCK)
