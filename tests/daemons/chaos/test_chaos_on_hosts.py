"""Faults of hosts, their disks and their agents one by one, on a ground with PostgreSQL: no byte changed, no disk
twice, no commit missing.

A file of its own, so that it runs on a cluster of its own beside test_chaos: most of their time both wait.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.daemons.chaos import faults, one_by_one, raw_disk
from tests.daemons.chaos.ground import ChaosGround, Stage
from tests.daemons.chaos.invariants import check

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]

ONE_BY_ONE: list[Callable[[ChaosGround, random.Random], None]] = [
    faults.bank_breaks,
    faults.disks_vanish,
    faults.agents_are_replaced,
    one_by_one.host_comes_back_as_another,
    one_by_one.node_is_made_again_with_empty_disks,
    faults.twin_of_a_held_disk,
    one_by_one.lun_of_two_nodes,
    raw_disk.raw_disk_under_a_living_user,
    faults.root_disk_is_full,
]


@pytest.mark.parametrize("fault", ONE_BY_ONE, ids=[each.__name__ for each in ONE_BY_ONE])
def test_one_fault(stage: Stage, fault: Callable[[ChaosGround, random.Random], None]) -> None:
    ground, before = stage
    fault(ground, random.Random(1))
    check(ground, before)
