"""SchedulingGates, PrioritySort, backoff."""

from __future__ import annotations

import pytest

from berth_core.framework.contract import Code
from berth_core.framework.queue import backoff
from berth_core.model.pod import PodInfo
from berth_core.plugins.queue_order import PrioritySort, SchedulingGates
from tests.core.cluster.objects import pod


def test_gates_keep_a_pod_out():
    gated = PodInfo.from_manifest(pod(schedulingGates=[{"name": "quota"}, {"name": "example.com/image"}]))
    status = SchedulingGates().pre_enqueue(gated)
    assert (status.code, status.reasons) == (
        Code.UNRESOLVABLE,
        ("waiting for scheduling gates: [quota example.com/image]",),
    )
    assert SchedulingGates().pre_enqueue(PodInfo.from_manifest(pod())).ok


def test_priority_then_age():
    waiting = [("low-old", 0, 1.0), ("high-new", 9, 5.0), ("high-old", 9, 2.0), ("negative", -1, 0.0)]
    made = [(PodInfo.from_manifest(pod(name, priority=priority)), at) for name, priority, at in waiting]
    ordered = sorted(made, key=lambda pair: PrioritySort().queue_key(*pair))
    assert [one.name for one, _at in ordered] == ["high-old", "high-new", "low-old", "negative"]


@pytest.mark.parametrize(("attempts", "seconds"), [(0, 0), (1, 1), (2, 2), (4, 8), (5, 10), (5000, 10)])
def test_backoff_doubles_up_to_its_maximum(attempts, seconds):
    assert backoff(attempts) == seconds
