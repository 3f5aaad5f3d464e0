"""How long runs are to take, and which of these targets a run is compared with at its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from .runner import Run

#: Seconds: of `make check`; of `make test` after a typical change, with nothing proved before, and without any cache.
CHECK, CHANGE, WHOLE, NO_CACHE = 180, 1500, 2700, 4500
#: What takes minutes where the user's cache lacks it, and seconds elsewhere: programs, images, the machine's system.
BUILDERS = ("cluster", "images", "kind-image", "vm-image")
#: Seconds of these together that say that they have built.
BUILT = 300


@dataclasses.dataclass(frozen=True)
class Target:
    """How long a run of a set is to take, in seconds, when these files have changed; ``most``: what a test holds."""

    what: str
    set: str
    changed: tuple[str, ...]
    seconds: int
    most: int


DAEMONS = ("agent", "controller", "scheduler")
#: Those that the costs of the stages are held against.
TARGETS = (
    Target("`make check`", "check", ("Makefile",), CHECK, 270),
    *(
        Target(f"`make test`, `src/berth_{name}` changed", "test", (f"src/berth_{name}/x.py",), CHANGE, 3300)
        for name in DAEMONS
    ),
    # CI has 90 minutes, on a machine that may be a little slower and has to install packages first.
    Target("`make test FULL=1`", "test", ("Makefile",), WHOLE, 4950),
)


@dataclasses.dataclass(frozen=True)
class Measured:
    """A run that no stage's cost tells of: the seconds that it took when it was measured last, and on which day."""

    what: str
    target: int
    seconds: int
    date: str


MEASURED = (
    Measured("`make test FULL=1`, idle", WHOLE, 3094, "2026-11-29"),
    # 5,180 s, and 489 s of the demo before it, which built the programs.
    Measured("`make test`, no cache at all", NO_CACHE, 5669, "2026-11-28"),
    Measured("`make demo`, no cache at all", 347, 489, "2026-11-28"),
    Measured("`make demo`, again", 19, 16, "2026-11-29"),
)


def of_run(name: str, runs: Collection[Run]) -> tuple[str, int] | None:
    """What a run of the set is compared with, in words, and its seconds; None for a set without a target."""
    if name == "check":
        return "make check", CHECK
    if name != "test":
        return None
    if sum(run.seconds for run in runs if run.stage in BUILDERS) >= BUILT:
        return "make test without any cache", NO_CACHE
    if any(run.result == "PROVED" for run in runs):
        return "make test after a typical change", CHANGE
    return "make test FULL=1: nothing proved before", WHOLE


def told(name: str, runs: Sequence[Run], seconds: float, partial: str) -> str:
    """One line: what this run took, its target, and whether it is within. ``partial``: why it is a part of a run."""
    target = of_run(name, runs)
    if target is None:
        return ""
    took = f"time: {seconds / 60:.1f} min"
    lost = [run.stage for run in runs if run.result in ("FAILED", "NOT RUN")]
    if partial or lost:
        return f"{took}, compared with no target: {partial or f'{lost[0]} did not end well'}"
    more = (seconds - target[1]) / 60
    answer = "within it" if more <= 0 else f"{more:.1f} min more"
    return f"{took}; target {target[1] / 60:.0f} min ({target[0]}): {answer}"
