"""Three real hosts of these tests alone: a node that is silent is noticed within ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berth_dev.cluster import Cluster
from berth_dev.pytest_plugin import cluster_of_hosts

#: Less than an API server is away: nodes are NotReady when it is back.
NODE_GRACE = 10


@pytest.fixture(scope="session")
def dev_cluster() -> Iterator[Cluster]:
    with cluster_of_hosts(node_grace=NODE_GRACE) as cluster:
        yield cluster
