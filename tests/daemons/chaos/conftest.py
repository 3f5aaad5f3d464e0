"""Three real hosts of these tests alone: a node that is silent is noticed within ten seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from berth_dev.cluster import Cluster
from berth_dev.pytest_plugin import EXISTING, temporary_cluster

#: Less than an API server is away: nodes are NotReady when it is back.
NODE_GRACE = 10


@pytest.fixture(scope="session")
def dev_cluster() -> Iterator[Cluster]:
    if os.environ.get(EXISTING):
        pytest.skip(f"{EXISTING} names an existing cluster, whose hosts are not ours to break")
    if os.geteuid() != 0:
        pytest.skip("real hosts need root")
    with temporary_cluster(hosts=3, node_grace=NODE_GRACE) as cluster:
        yield cluster
