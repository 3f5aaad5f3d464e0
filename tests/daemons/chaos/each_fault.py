"""Faults one by one, on one ground with PostgreSQL: no byte changed, no disk twice, no commit missing."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.daemons.chaos import faults, one_by_one
from tests.daemons.chaos.ground import ChaosGround
from tests.daemons.chaos.invariants import check, everything_comes_to_rest, fingerprints

pytestmark = [pytest.mark.hosts, pytest.mark.slow]
Stage = tuple[ChaosGround, dict[tuple[str, str], str]]
SEED = int(os.environ.get("BERTH_CHAOS_SEED") or time.time_ns() % 1_000_000)

ONE_BY_ONE: list[Callable[[ChaosGround, random.Random], None]] = [
    faults.agents_are_replaced,
    one_by_one.host_comes_back_as_another,
    faults.twin_of_a_held_disk,
    faults.root_disk_is_full,
]


@pytest.fixture(scope="module")
def stage(dev_cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The ground at rest, and the checksums of what nobody is to change."""
    ground = ChaosGround(dev_cluster, tmp_path_factory.mktemp("chaos"), SEED)
    try:
        ground.up()
        everything_comes_to_rest(ground)
        yield ground, fingerprints(ground)
        assert not ground.bank.missing()
    finally:
        ground.down()


@pytest.mark.parametrize("fault", ONE_BY_ONE, ids=[each.__name__ for each in ONE_BY_ONE])
def test_one_fault(stage: Stage, fault: Callable[[ChaosGround, random.Random], None]) -> None:
    ground, before = stage
    fault(ground, random.Random(1))
    check(ground, before)
