"""Faults one by one, then at random, on a ground with PostgreSQL: no byte changed, no disk twice, no commit missing.

Two groups, one after the other, or each on a ground of its own beside the other: most of their time nodes, Leases and
applications are waited for. What happens to hosts and their disks is in one, what happens to the control plane and to
its clients in the other, with the run at random.

`make chaos MINUTES=10 SEED=7` sets BERTH_CHAOS_MINUTES and BERTH_CHAOS_SEED of the run at random; without them that is
short, and its faults are always the same. That an agent dies after every write is told in tests/daemons/agent.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from berth_dev.pytest_plugin import say
from tests.daemons.chaos import at_random, faults, one_by_one, raw_disk, restored
from tests.daemons.chaos.ground import ChaosGround
from tests.daemons.chaos.invariants import check, everything_comes_to_rest, fingerprints

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]
Stage = tuple[ChaosGround, dict[tuple[str, str], str]]
MINUTES = os.environ.get("BERTH_CHAOS_MINUTES", "")
SECONDS = 60 * float(MINUTES) if MINUTES else 30.0
SEED = int(os.environ.get("BERTH_CHAOS_SEED") or (time.time_ns() % 1_000_000 if MINUTES else 1))

Story = Callable[[ChaosGround, random.Random], None]
#: With --dist=loadgroup one worker has all of a group, in this order.
HOSTS = pytest.mark.xdist_group("hosts")
CONTROL_PLANE = pytest.mark.xdist_group("control-plane")
ON_HOSTS: tuple[Story, ...] = (
    faults.bank_breaks,
    faults.disks_vanish,
    faults.agents_are_replaced,
    one_by_one.host_comes_back_as_another,
    one_by_one.node_is_made_again_with_empty_disks,
    faults.twin_of_a_held_disk,
    one_by_one.lun_of_two_nodes,
    raw_disk.raw_disk_under_a_living_user,
    faults.root_disk_is_full,
)
ON_THE_CONTROL_PLANE: tuple[Story, ...] = (
    one_by_one.namespace_made_anew,
    faults.api_server_is_away,
    restored.etcd_is_restored,
    one_by_one.leaders_are_paused,
)
ONE_BY_ONE = [
    pytest.param(each, id=each.__name__, marks=group)
    for group, stories in ((HOSTS, ON_HOSTS), (CONTROL_PLANE, ON_THE_CONTROL_PLANE))
    for each in stories
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


@pytest.fixture(autouse=True)
def no_wake_up_is_missing(stage: Stage) -> Iterator[None]:
    """Whatever happens, changes alone have claims looked at: a resync finds nothing to do."""
    controllers = stage[0].controllers
    before = controllers.rescued()
    yield
    assert controllers.rescued() == before


@pytest.mark.timeout(900 + 2 * SECONDS)
@pytest.mark.parametrize("fault", ONE_BY_ONE)
def test_one_fault(stage: Stage, fault: Story) -> None:
    ground, before = stage
    fault(ground, random.Random(1))
    check(ground, before)


@CONTROL_PLANE
@pytest.mark.timeout(900 + 2 * SECONDS)
def test_faults_at_random(stage: Stage) -> None:
    ground, before = stage
    story = at_random.run(ground, before, SECONDS, SEED, say)
    assert sum(story.struck.values()) >= 1
    assert story.commits > 0
    assert not story.missing
