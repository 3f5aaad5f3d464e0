"""sched/openb: how much of the openb trace's GPUs is given out. ``python -m tests.bench.openb SEED`` runs one seed.

The recipe of the FGD paper (src/berth_scheduler/openb.py): 10 orders of arrival, 130 % of the GPUs asked for. The peer
is the published measure alone (DevicePacking with cpuWeight 0) in the same engine, on the same orders; the published
mean stands in the notes: its ten orders came from another random generator.
"""

from __future__ import annotations

import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .figures import Figure

DATA = Path(__file__).resolve().parents[1] / "data" / "openb"
FILES = (DATA / "openb_node_list_gpu_node.csv.gz", DATA / "openb_pod_list_default.csv.gz")
SEEDS = range(42, 52)
ARRIVED = 130
PUBLISHED = 95.39
"""FGD's mean at 130 % over its seeds 42 to 51: analysis_allo_discrete.csv of the paper's repository."""


def openb(_ground: object) -> list[Figure]:
    """One figure: per cent of the GPUs that are never given out, the mean of all seeds."""
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(both, SEEDS))
    ours, peer = zip(*found, strict=True)
    notes = (
        f"{_spread(ours)} % of 6,212 GPUs given out when {ARRIVED} % were asked for, seeds {SEEDS[0]} to {SEEDS[-1]}",
        f"FGD's measure on the same orders: {_spread(peer)} %; published: {PUBLISHED} %",
    )
    left = 100 - statistics.mean(ours)
    return [Figure("sched/openb", left, 100 - statistics.mean(peer), "% of GPUs left", "FGD", notes)]


def _spread(values: tuple[float, ...]) -> str:
    return f"{statistics.mean(values):.2f} +- {statistics.stdev(values):.2f}"


def both(seed: int) -> tuple[float, float]:
    """Per cent given out by berth's measure and by the published one."""
    return given_out(seed), given_out(seed, cpuWeight=0)


def given_out(seed: int, **arguments: int) -> float:
    """One replay; its result is checked against the tables: no GPU twice, and all that counts is there."""
    from berth_scheduler.openb import arrivals, packing_profile, read_trace, replay

    trace = read_trace(*FILES)
    found = replay(trace, arrivals(trace, seed, ARRIVED), packing_profile(trace, **arguments))
    return found.allocated[ARRIVED]


if __name__ == "__main__":
    print(*both(int(sys.argv[1])))
