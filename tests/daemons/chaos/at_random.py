"""Faults at random for so long, one or two at a time, everything checked after each round. The seed says which.

Called by test_chaos.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.daemons.chaos.faults import ANY_TIME, KINDS, Fault
from tests.daemons.chaos.ground import ChaosGround
from tests.daemons.chaos.invariants import check

MINUTES = os.environ.get("BERTH_CHAOS_MINUTES", "")
SECONDS = 60 * float(MINUTES) if MINUTES else 30.0
SEED = int(os.environ.get("BERTH_CHAOS_SEED") or (time.time_ns() % 1_000_000 if MINUTES else 1))


class Story(NamedTuple):
    """What a run came to."""

    struck: Counter[str]
    commits: int
    missing: list[int]


def run(
    ground: ChaosGround, before: dict[tuple[str, str], str], seconds: float, seed: int, say: Callable[[str], None]
) -> Story:
    """Raises what `check` raises, with the seed and what had been done said before."""
    say(f"chaos: seed {seed}, {seconds:.0f} s")
    chance = random.Random(seed)
    struck: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for fault in _round(chance):
            say(f"chaos: {fault.__name__}")
            struck[fault.__name__] += 1
            fault(ground, chance)
        check(ground, before)
    story = Story(struck, len(ground.bank.acknowledged()), ground.bank.missing())
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(struck.items()))
    say(
        f"chaos: seed {seed}: {sum(struck.values())} faults ({kinds}); "
        f"{story.commits} commits acknowledged, {len(story.missing)} missing; {ground.churn.served} claims served; "
        f"{ground.witness.changes} changes of disks seen, {ground.witness.wrong or 'none wrong'}"
    )
    return story


def _round(chance: random.Random) -> Iterator[Fault]:
    """One fault; at every third time another strikes before all has come to rest again."""
    yield chance.choices(list(KINDS), list(KINDS.values()))[0]
    if chance.random() < 1 / 3:
        yield chance.choice(ANY_TIME)
