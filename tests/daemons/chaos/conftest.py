"""Three real hosts for these tests alone: a node that is silent is noticed within ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berth_dev.cluster import Cluster
from berth_dev.pytest_plugin import cluster_of_hosts
from tests.daemons.chaos.at_random import SEED
from tests.daemons.chaos.ground import ChaosGround, Stage
from tests.daemons.chaos.invariants import everything_comes_to_rest, fingerprints

#: Less than an API server is away: nodes are NotReady when it is back.
NODE_GRACE = 10


@pytest.fixture(scope="module")
def dev_cluster() -> Iterator[Cluster]:
    with cluster_of_hosts(node_grace=NODE_GRACE) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def stage(dev_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
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
