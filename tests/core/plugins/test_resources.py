"""NodeResourcesFit and NodeResourcesBalancedAllocation: what fits, and v1.36's arithmetic of scores."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.cluster.columns import every_row
from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.contract import Code
from berth_core.framework.state import Cycle
from berth_core.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from berth_core.plugins.node_resources_fit import NodeResourcesFit
from berth_core.plugins.resource_scores import Load, broken_line, least_allocated, round_half_away
from tests.core.cluster.objects import berth, container, node, pod, request
from tests.core.plugins.helpers import codes, judged, scored

GPU = {"example.com/gpu": "2"}
ONE = {"example.com/gpu": "1"}


def wants(cpu=None, memory=None, **more):
    return request(pod("new", [container(cpu, memory, **more)]))


def cluster(*nodes, used=()):
    pods = [
        pod(f"used-{index}", [container(cpu, memory, **more)], node_name=where)
        for index, (where, cpu, memory, more) in enumerate(used)
    ]
    return Snapshot.from_objects(nodes=nodes, pods=pods)


@pytest.mark.parametrize(
    ("asked", "used", "reasons", "code"),
    [
        (wants("4", "8Gi"), [], (), Code.SUCCESS),
        (wants("1", "1Gi"), [("a", "3", "7Gi", {})], (), Code.SUCCESS),
        (wants("1001m", "1Gi"), [("a", "3", "7Gi", {})], ("Insufficient cpu",), Code.UNSCHEDULABLE),
        (wants("2", "2Gi"), [("a", "3", "7Gi", {})], ("Insufficient cpu", "Insufficient memory"), Code.UNSCHEDULABLE),
        (wants("5"), [], ("Insufficient cpu",), Code.UNRESOLVABLE),
        (wants("5", "2Gi"), [("a", "0", "7Gi", {})], ("Insufficient cpu", "Insufficient memory"), Code.UNRESOLVABLE),
        (wants(), [("a", "99", "99Gi", {})], (), Code.SUCCESS),
        (wants("0"), [("a", "99", "99Gi", {})], (), Code.SUCCESS),
        (wants(example__com="1"), [], ("Insufficient example/com",), Code.UNRESOLVABLE),
        (wants(**{"example.com/gpu": "2"}), [], (), Code.SUCCESS),
        (wants(**GPU), [("a", None, None, ONE)], ("Insufficient example.com/gpu",), Code.UNSCHEDULABLE),
        (wants(**{"example.com/gpu": "0"}), [("a", None, None, {"example.com/gpu": "9"})], (), Code.SUCCESS),
        (wants(**{"ephemeral-storage": "2Gi"}), [], ("Insufficient ephemeral-storage",), Code.UNRESOLVABLE),
        (wants(**{"hugepages-2Mi": "2Mi"}), [], ("Insufficient hugepages-2Mi",), Code.UNRESOLVABLE),
    ],
)  # fmt: skip
def test_fit(asked, used, reasons, code):
    snapshot = cluster(node("a", **GPU), used=used)
    assert judged(NodeResourcesFit(), snapshot, asked) == {"a": reasons}
    assert codes(NodeResourcesFit(), snapshot, asked)["a"] == code


def test_too_many_pods_stands_first_and_is_not_final():
    snapshot = cluster(node("a", pods="1"), used=[("a", "4", None, {})])
    assert judged(NodeResourcesFit(), snapshot, wants("1")) == {"a": ("Too many pods", "Insufficient cpu")}
    assert codes(NodeResourcesFit(), snapshot, wants())["a"] == Code.UNSCHEDULABLE
    assert judged(NodeResourcesFit(), Snapshot.from_objects(nodes=[node("a", pods="0")]), wants()) == {
        "a": ("Too many pods",)
    }


def test_berths_take_room():
    snapshot = Snapshot.from_objects(
        nodes=[node("a", **GPU)], berths=[berth("db", 0, "a", {"cpu": "4", "example.com/gpu": "2"})]
    )
    asked = wants("1", **{"example.com/gpu": "1"})
    assert judged(NodeResourcesFit(), snapshot, asked) == {"a": ("Insufficient cpu", "Insufficient example.com/gpu")}


def test_ignored_extended_resources_are_not_looked_at():
    snapshot = cluster(node("a"))
    asked = wants(**{"example.com/gpu": "1", "other.org/nic": "1"})
    ignoring = NodeResourcesFit.from_args(
        {"ignoredResources": ["example.com/gpu"], "ignoredResourceGroups": ["other.org"]}, "args"
    )
    assert judged(ignoring, snapshot, asked) == {"a": ()}
    assert judged(NodeResourcesFit(), snapshot, asked)["a"] == (
        "Insufficient example.com/gpu",
        "Insufficient other.org/nic",
    )
    cpu = NodeResourcesFit.from_args({"ignoredResources": ["cpu"]}, "args")
    assert judged(cpu, snapshot, wants("9")) == {"a": ("Insufficient cpu",)}, "only extended resources can be ignored"


def strategy(kind, *resources, **more):
    listed = [{"name": name, "weight": weight} for name, weight in resources]
    return NodeResourcesFit.from_args({"scoringStrategy": {"type": kind, "resources": listed, **more}}, "args")


amounts = st.one_of(st.integers(1, 1 << 52), st.integers(1, 1000), st.sampled_from([1 << 45, (1 << 45) - 1, 1 << 52]))


@given(st.lists(st.tuples(amounts, st.integers(0, 100), st.integers(-2, 2)), min_size=1, max_size=5))
def test_a_free_share_is_exact_however_large(asked):
    pairs = [(there, max(0, there * (100 - share) // 100 + more)) for there, share, more in asked]
    allocatable, used = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    found = least_allocated([Load(used, used, allocatable, None)], [("memory", 1)], len(pairs))
    assert found.tolist() == [max(0, (there - taken) * 100 // there) for there, taken in pairs]


def test_least_allocated():
    # 3 of 4 cores are left, and 6 of 8Gi.
    assert scored(NodeResourcesFit(), cluster(node("a")), wants("1", "2Gi")) == {"a": 75}
    # cpu: 3000 of 6000 free = 50; memory: 5120 of 10240 Mi = 50, by whole numbers at every step.
    used = [("a", "2", "1Gi", {}), ("b", "1", "1Gi", {})]
    snapshot = cluster(node("a", "6", "10Gi"), node("b", "7", "10Gi"), used=used)
    assert scored(NodeResourcesFit(), snapshot, wants("1", "4Gi")) == {"a": 50, "b": (5 * 100 // 7 + 50) // 2}


def test_weights_count():
    plugin = strategy("LeastAllocated", ("cpu", 3), ("memory", 1))
    assert scored(plugin, cluster(node("a", "4", "8Gi")), wants("2", "8Gi")) == {"a": (50 * 3 + 0) // 4}


def test_a_container_without_requests_is_assumed_to_want_something():
    # 100m of 4 cores and 200Mi of 8Gi.
    assert scored(NodeResourcesFit(), cluster(node("a")), wants()) == {
        "a": (3900 * 100 // 4000 + (8192 - 200) * 100 // 8192) // 2
    }


def test_more_than_there_is_scores_nothing():
    snapshot = cluster(node("a"), used=[("a", None, "8Gi", {})] * 1)
    assert scored(strategy("LeastAllocated", ("memory", 1)), snapshot, wants()) == {"a": 0}
    assert scored(strategy("MostAllocated", ("memory", 1)), snapshot, wants()) == {"a": 100}


def test_most_allocated():
    assert scored(strategy("MostAllocated", ("cpu", 1), ("memory", 1)), cluster(node("a")), wants("1", "6Gi")) == {
        "a": (25 + 75) // 2
    }


def test_an_extended_resource_counts_when_the_pod_wants_it_and_the_node_has_it():
    plugin = strategy("MostAllocated", ("cpu", 1), ("example.com/gpu", 9))
    snapshot = cluster(node("a", **GPU), node("b"))
    assert scored(plugin, snapshot, wants("1", **{"example.com/gpu": "1"})) == {"a": (25 + 50 * 9) // 10, "b": 25}
    assert scored(plugin, snapshot, wants("1")) == {"a": 25, "b": 25}


def test_requested_to_capacity_ratio():
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    plugin = strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), requestedToCapacityRatio={"shape": shape})
    # cpu 25, memory 0 (200Mi of 8Gi is 2%): 25 and 2, the mean 13.5 rounds up.
    assert scored(plugin, cluster(node("a")), wants("1")) == {"a": 14}
    least = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
    plugin = strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), requestedToCapacityRatio={"shape": least})
    # A resource that scores 0 is left out of the mean.
    assert scored(plugin, cluster(node("a")), wants("4", "4Gi")) == {"a": 50}


@given(st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True), st.data())
def test_the_broken_line_stays_between_its_points(at, data):
    shape = [(x, data.draw(st.integers(0, 100))) for x in sorted(at)]
    values = broken_line(shape, np.arange(0, 101))
    for x, y in shape:
        assert values[x] == y
    for (left, low), (right, high) in pairwise(shape):
        between = values[left : right + 1]
        assert between.min() >= min(low, high)
        assert between.max() <= max(low, high)


def test_rounding_halves_up_and_nothing_else():
    assert list(round_half_away(np.array([0.5, 1.5, 2.4999999, 0.49999999999999994, 3.0]))) == [1, 2, 2, 0, 3]


# -- balance, as v1.36 sees it: the change that the pod makes


def balance(snapshot, asked, **args):
    return scored(NodeResourcesBalancedAllocation.from_args(args, "args"), snapshot, asked)


def test_no_change_of_balance_is_75():
    assert balance(cluster(node("a")), wants("1", "2Gi")) == {"a": 75}


def test_better_balance_is_more_and_worse_is_less():
    used = [("a", "3", "0", {}), ("b", "0", "6Gi", {})]
    snapshot = cluster(node("a"), node("b"), used=used)
    # a has 0.75 and 0 before (0.375: 62), 0.75 and 0.75 after (100); b has 0 and 0.75, then 0 and 1 (0.5: 50).
    assert balance(snapshot, wants("0", "6Gi")) == {"a": 50 + (50 + 100 - 62) // 2, "b": 50 + (50 + 50 - 62) // 2}


def test_balance_does_not_assume_requests():
    snapshot = cluster(node("a"), used=[("a", None, None, {})])
    assert balance(snapshot, wants("2", "4Gi")) == {"a": 75}


def test_a_pod_that_wants_nothing_is_not_rated():
    assert balance(cluster(node("a")), wants()) == "skipped"
    assert balance(cluster(node("a")), wants(**{"example.com/gpu": "1"})) == "skipped"


def test_three_resources_use_the_standard_deviation():
    names = [{"name": name} for name in ("cpu", "memory", "example.com/gpu")]
    asked = wants("2", "2Gi", **{"example.com/gpu": "2"})
    # 0.5, 0.25, 1.0: population deviation 0.3118 -> 68; before: all 0 -> 100.
    assert balance(cluster(node("a", **GPU)), asked, resources=names) == {"a": 50 + (50 + 68 - 100) // 2}
    # The node without the third resource is rated on two: 0.5 and 0.25 -> 87.
    assert balance(cluster(node("a")), asked, resources=names) == {"a": 50 + (50 + 87 - 100) // 2}


milli = st.integers(0, 9000).map(lambda number: f"{number}m")
size = st.integers(0, 20000).map(lambda number: f"{number}Mi")


@given(milli, size, milli, size, milli, size)
def test_scores_stay_in_range(cpu, memory, used_cpu, used_memory, want_cpu, want_memory):
    snapshot = cluster(node("a", cpu, memory), used=[("a", used_cpu, used_memory, {})])
    asked = wants(want_cpu, want_memory)
    for plugin in (
        NodeResourcesFit(),
        strategy("MostAllocated", ("cpu", 1), ("memory", 2)),
        NodeResourcesBalancedAllocation(),
    ):
        found = scored(plugin, snapshot, asked)
        assert found == "skipped" or 0 <= found["a"] <= 100


capacity = st.integers(1, 1 << 45)
share = st.integers(0, 150)
RATED = (NodeResourcesFit(), NodeResourcesBalancedAllocation(), strategy("LeastAllocated", ("memory", 3), ("cpu", 2)))


@given(capacity, share, share, capacity, share, share)
def test_one_row_is_asked_about_as_one_of_many(cpu, cpu_used, cpu_more, memory, memory_used, memory_more):
    """For a single row other code does the same arithmetic: not a unit may differ."""
    used = ("a", f"{cpu * cpu_used // 100}m", str(memory * memory_used // 100), {})
    snapshot = cluster(node("a", f"{cpu}m", str(memory)), node("b"), used=[used])
    asked = wants(f"{cpu * cpu_more // 100}m", str(memory * memory_more // 100))
    many, cycle = every_row(2), Cycle(snapshot, asked)
    for plugin in RATED:
        apart = [plugin.score(cycle, many[row : row + 1]).tolist()[0] for row in (0, 1)]
        assert apart == plugin.score(cycle, many).tolist()
    verdict = NodeResourcesFit().filter(cycle, many)
    for row in (0, 1):
        alone = NodeResourcesFit().filter(cycle, many[row : row + 1])
        assert alone.table[int(alone.codes[0])] == verdict.table[int(verdict.codes[row])]


def test_one_row_of_a_resource_that_not_every_node_has():
    snapshot = cluster(node("a", memory="0"), node("b"))
    found = scored(NodeResourcesFit(), snapshot, wants("1", "1Gi"))
    assert {name: scored(NodeResourcesFit(), snapshot, wants("1", "1Gi"), among=[name])[name] for name in "ab"} == found
