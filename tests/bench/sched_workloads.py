"""sched/: berth-scheduler beside kube-scheduler, workload by workload, on one API server, in one run.

BERTH_SCHED_NODES and BERTH_SCHED_PODS give every workload another size than that of its own in the table below.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from . import sched_disks, sched_preempt
from .figures import Figure
from .ground import Ground
from .sched_ceiling import ceiling
from .sched_checks import check_apart, check_spread, zone_of
from .sched_pods import CPUS, MEMORIES, apart, pod, shaped, spread, with_claim
from .sched_run import OURS, STOCK, Run, Workload, compare, ground_for, measure
from .sched_site import Obj, Site

PEER = "kube-scheduler"


async def _spread_out(_site: Site, pods: Sequence[Obj], work: Workload) -> str:
    names = [f"{work.shape.prefix}{index}" for index in range(work.nodes)]
    together = check_spread(pods, {name: zone_of(name, work.shape) for name in names}, most=1)
    return f"at most {together} of an application on a node"


async def _kept_apart(_site: Site, pods: Sequence[Obj], _work: Workload) -> str:
    check_apart(pods)
    return ""


async def _where_they_belong(_site: Site, pods: Sequence[Obj], work: Workload) -> str:
    for one in pods:
        for zone in (one["spec"].get("nodeSelector") or {}).values():
            assert zone_of(one["spec"]["nodeName"], work.shape) == zone, one["metadata"]["name"]
    return f"{len({one['metadata']['labels']['app'] for one in pods})} of {CPUS * MEMORIES} shapes"


PLAIN = Workload("plain", 5000, 10_000, pod)
SPREAD = Workload("spread", 1000, 5000, spread, check=_spread_out)
INTERPOD = Workload("interpod", 1000, 5000, apart, check=_kept_apart)
LOCALDISK = Workload(
    "localdisk", 500, 200, with_claim, before=sched_disks.lay_out, check=sched_disks.check, lively=True
)
SHAPES = Workload("shapes", 5000, 10_000, shaped, check=_where_they_belong)
PREEMPT = Workload(
    "preempt", 1000, 1000, sched_preempt.urgent, before=sched_preempt.fill, check=sched_preempt.check, lively=True
)
LATENCY = Workload("latency", 5000, 2000, pod, rate=100.0)


def plain(_ground: Ground) -> list[Figure]:
    """sched/plain: milliseconds of scheduler CPU a pod; pods per CPU second beside it."""
    return [_cpu(PLAIN, *_plain()[:2])]


def rate(_ground: Ground) -> list[Figure]:
    """sched/rate: milliseconds a pod from leading to the last bind, and how busy the API server was meanwhile."""
    ours, stock, most = _plain()
    notes = (
        f"pods per second: berth-scheduler {ours.pods / ours.wall:.0f}, {PEER} {stock.pods / stock.wall:.0f}",
        f"{most:.0f} when nobody decides, nobody watches and no Event is written",
        _busy(ours, stock),
    )
    return [Figure("sched/rate", ours.wall / ours.pods * 1e3, stock.wall / stock.pods * 1e3, "ms", PEER, notes)]


def memory(_ground: Ground) -> list[Figure]:
    """sched/memory: megabytes resident after the last bind."""
    ours, stock, _most = _plain()
    return [Figure("sched/memory", ours.memory, stock.memory, "MB", PEER)]


def startup(_ground: Ground) -> list[Figure]:
    """sched/startup: seconds of CPU from the process's start until everything is read, and it could lead."""
    ours, stock, _most = _plain()
    notes = (
        "to read the nodes and pods of sched/plain",
        f"by the clock: berth-scheduler {ours.start_wall:.1f} s, {PEER} {stock.start_wall:.1f} s",
    )
    return [Figure("sched/startup", ours.start_cpu, stock.start_cpu, "s CPU", PEER, notes)]


def under_spread(_ground: Ground) -> list[Figure]:
    """sched/spread: evenly over zones, as well as it goes over nodes."""
    return _compared(SPREAD)


def under_interpod(_ground: Ground) -> list[Figure]:
    """sched/interpod: pods of one application each on a node of its own."""
    return _compared(INTERPOD)


def under_localdisk(_ground: Ground) -> list[Figure]:
    """sched/localdisk: each pod with a claim on a local disk."""
    return _compared(LOCALDISK)


def under_shapes(_ground: Ground) -> list[Figure]:
    """sched/shapes: 2,000 different pods."""
    return _compared(SHAPES)


def under_preempt(_ground: Ground) -> list[Figure]:
    """sched/preempt: each pod has to end another one."""
    return _compared(PREEMPT)


def latency(_ground: Ground) -> list[Figure]:
    """sched/latency: from a pod's creation to its bind, while pods arrive at a steady rate."""
    work = LATENCY.sized()
    ours, stock = compare(work)
    figures = []
    for share, label in ((0.50, "p50"), (0.99, "p99")):
        found = [1e3 * run.waits[int(share * (len(run.waits) - 1))] for run in (ours, stock)]
        figures.append(Figure(f"sched/latency/{label}", found[0], found[1], "ms", PEER))
    notes = (f"{work.pods} pods on {work.nodes} nodes, {work.rate:.0f} a second", *_told(ours, stock))
    return [*figures[:1], figures[1]._replace(notes=notes)]


@lru_cache(maxsize=1)
def _plain() -> tuple[Run, Run, float]:
    """Both, and how many pods a second could be bound at the most."""
    work = PLAIN.sized()
    with ground_for(work) as ground:
        stock = measure(ground, work, STOCK)
        return measure(ground, work, OURS), stock, ceiling(ground, work)


def _compared(work: Workload) -> list[Figure]:
    work = work.sized()
    return [_cpu(work, *compare(work))]


def _cpu(work: Workload, ours: Run, stock: Run) -> Figure:
    work = work.sized()
    notes = (
        f"{work.pods} pods on {work.nodes} nodes, all bound and the result checked",
        *_told(ours, stock),
        _busy(ours, stock),
    )
    return Figure(f"sched/{work.name}", ours.milliseconds, stock.milliseconds, "ms CPU", PEER, notes)


def _told(ours: Run, stock: Run) -> tuple[str, ...]:
    """Lines about both, berth-scheduler's first."""
    return tuple(
        f"{name}: {run.pods / run.told_cpu:.0f} pods per CPU second with all {run.events[1]} Events, "
        f"{run.pods / run.cpu:.0f} to the last bind ({run.events[0]} Events by then); "
        f"{run.pods / run.wall:.0f} pods per second; {run.memory:.0f} MB" + (f"; {run.said}" if run.said else "")
        for name, run in (("berth-scheduler", ours), (PEER, stock))
    )


def _busy(ours: Run, stock: Run) -> str:
    """How near to its limit the API server was."""
    parts = [
        f"{name} {run.api / run.wall:.2f} + {run.etcd / run.wall:.2f} ({run.api:.1f} s of CPU in {run.wall:.1f} s)"
        for name, run in (("berth-scheduler", ours), (PEER, stock))
    ]
    return f"cores that API server + etcd took meanwhile: {', '.join(parts)}"
