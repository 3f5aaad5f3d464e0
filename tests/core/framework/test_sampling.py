"""percentageOfNodesToScore: the share that a configuration gives is looked for, from where the last search ended."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth_core.cluster.snapshot import Snapshot
from berth_core.config.configuration import SchedulerConfiguration
from berth_core.framework.cycle import place
from berth_core.framework.sampling import Sample, sampled
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import DEFAULT_PROFILE
from tests.core.cluster.objects import container, node, pod

FILE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def one_by_one(sample: Sample, passing: set[int], total: int) -> tuple[list[int], int]:
    """The same, as kube-scheduler does it with one worker: node after node."""
    found: list[int] = []
    for looked_at in range(total):
        row = (sample.start + looked_at) % total
        if row in passing:
            if len(found) == sample.wanted(total):
                return sorted(found), looked_at
            found.append(row)
    return sorted(found), total


@given(st.integers(0, 1 << 32), st.integers(1, 400), st.integers(1, 99), st.sampled_from([0.3, 0.7, 0.95, 1.0]))
def test_the_share_is_found_as_one_by_one(seed, total, percentage, share):
    rng = Random(seed)
    passing = {row for row in range(total) if rng.random() < share}
    sample = Sample(percentage, rng.randrange(total))
    rows, looked_at = sampled(sample, np.array(sorted(passing), dtype=np.int64), total)
    expected, until = one_by_one(sample, passing, total)
    assert rows.tolist() == expected
    if len(passing) > sample.wanted(total):
        # The sample ends with the last node that it needs, not with the first one that it does not.
        assert looked_at == (expected and max((row - sample.start) % total for row in expected) + 1) <= until
    else:
        assert looked_at == until == total


def test_small_clusters_are_looked_at_whole():
    assert [Sample(5).wanted(total) for total in (1, 99, 100, 5000)] == [1, 99, 100, 250]


def test_searches_go_on_where_the_last_one_ended():
    snapshot = Snapshot.from_objects(nodes=[node(f"n{number:03}") for number in range(300)])
    start, nodes, scored = 0, [], []
    for number in range(6):
        asked = PlacementRequest(PodInfo.from_manifest(pod(f"p{number}", [container("1")])))
        outcome = place(DEFAULT_PROFILE, snapshot, asked, sample=Sample(40, start))
        start = (start + outcome.looked_at) % 300
        snapshot.assume(asked, outcome.placement)
        nodes.append(outcome.placement.node)
        scored.append(len(outcome.rows))
    assert scored == [120] * 6
    assert start == 120 * 6 % 300
    # Each search has other nodes before it, the emptiest of which stands first in its part of the table.
    assert nodes[:3] == ["n000", "n120", "n001"]
    assert place(DEFAULT_PROFILE, snapshot, asked, sample=Sample(40), explain=True).looked_at == 0


def test_a_profile_has_its_own_share_or_that_of_all():
    profiles = [{"schedulerName": "one"}, {"schedulerName": "two", "percentageOfNodesToScore": 5}]
    read = SchedulerConfiguration.parse({**FILE, "percentageOfNodesToScore": 30, "profiles": profiles})
    assert [read.share_of_nodes(one) for one in read.profiles] == [30, 5]
    assert SchedulerConfiguration.parse(FILE).share_of_nodes(SchedulerConfiguration.parse(FILE).profiles[0]) == 0
