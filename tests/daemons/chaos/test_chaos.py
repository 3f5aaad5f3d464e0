"""Faults one by one, then at random, on one ground with PostgreSQL: no byte changed, no disk twice, no commit missing.

One file, as two grounds side by side take longer than one: each disk that is plugged in wakes the agents of both.

`make chaos MINUTES=10 SEED=7` sets BERTH_CHAOS_MINUTES and BERTH_CHAOS_SEED of the run at random; without them that is
short, and its faults are always the same. That an agent dies after every write is told in tests/daemons/agent.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from berth_dev.pytest_plugin import say
from tests.daemons.chaos import at_random, faults, one_by_one, raw_disk, restored
from tests.daemons.chaos.at_random import SECONDS, SEED
from tests.daemons.chaos.ground import ChaosGround, Stage
from tests.daemons.chaos.invariants import check

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900 + 2 * SECONDS)]

ONE_BY_ONE: list[Callable[[ChaosGround, random.Random], None]] = [
    faults.bank_breaks,
    faults.disks_vanish,
    faults.agents_are_replaced,
    one_by_one.host_comes_back_as_another,
    one_by_one.node_is_made_again_with_empty_disks,
    faults.twin_of_a_held_disk,
    one_by_one.lun_of_two_nodes,
    one_by_one.namespace_made_anew,
    raw_disk.raw_disk_under_a_living_user,
    faults.root_disk_is_full,
    faults.api_server_is_away,
    restored.etcd_is_restored,
    one_by_one.leaders_are_paused,
]


@pytest.mark.parametrize("fault", ONE_BY_ONE, ids=[each.__name__ for each in ONE_BY_ONE])
def test_one_fault(stage: Stage, fault: Callable[[ChaosGround, random.Random], None]) -> None:
    ground, before = stage
    fault(ground, random.Random(1))
    check(ground, before)


def test_faults_at_random(stage: Stage) -> None:
    ground, before = stage
    story = at_random.run(ground, before, SECONDS, SEED, say)
    assert sum(story.struck.values()) >= 1
    assert story.commits > 0
    assert not story.missing
