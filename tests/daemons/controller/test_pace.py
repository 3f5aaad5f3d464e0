"""How often a claim is told something else: the rule on a clock of the test's own, and the rounds on a real loop."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from berth_controller.pace import FIRST, MOST, QUIET, Pace
from berth_controller.wakes import EACH, GAP, WORDS, ClaimKey, Wakes


def test_the_first_word_comes_at_once_and_those_that_follow_ever_more_seldom() -> None:
    pace, now, gaps = Pace(), 1000.0, []
    assert pace.pause(now) == 0
    for _number in range(7):
        pace.said(now)
        gaps.append(pace.pause(now))
        assert pace.pause(now + gaps[-1] - 0.5) == 0.5
        now += gaps[-1]
        assert pace.pause(now) == 0
    assert gaps == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, MOST, MOST, MOST]


def test_who_was_told_nothing_for_a_while_is_told_quickly_again() -> None:
    pace = Pace()
    for now in (0.0, 10.0, 20.0, 30.0):
        pace.said(now)
    assert pace.pause(30.0) > FIRST
    pace.said(30.0 + QUIET)
    assert pace.pause(30.0 + QUIET) == FIRST


CLAIMS = [ClaimKey("default", f"u-{number}") for number in range(50)]


async def rounds(soon: bool, seconds: float) -> tuple[Counter[ClaimKey], float]:
    """How often each claim is visited while disks of its class change all the time, and when it was at first."""
    visits: Counter[ClaimKey] = Counter()
    loop = asyncio.get_running_loop()
    began, first = loop.time(), []

    def visit(key: ClaimKey) -> None:
        visits[key] += 1
        first.append(loop.time() - began)

    wakes = Wakes(visit)
    for key, storage_class in zip(CLAIMS, itertools.cycle(["fast", "slow"])):
        wakes.put(key, storage_class)
    running = asyncio.ensure_future(wakes.run())
    while loop.time() - began < seconds:
        wakes.wake(["fast"], soon)
        await asyncio.sleep(0.001)
    await asyncio.sleep(max(GAP, WORDS) + 0.2)  # the last change is told, too
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return visits, first[0]


def test_many_changes_are_few_rounds_and_the_first_comes_at_once() -> None:
    gap = GAP + EACH * len(CLAIMS[::2])
    visits, first = asyncio.run(rounds(True, 5 * gap))
    assert first < gap / 2
    assert set(visits) == set(CLAIMS[::2]), "the other class is left alone"
    assert 2 <= max(visits.values()) <= 7


def test_changes_of_words_wait_for_more_of_their_kind() -> None:
    visits, first = asyncio.run(rounds(False, WORDS / 2))
    assert first >= WORDS * 0.9
    assert set(visits.values()) == {1}
