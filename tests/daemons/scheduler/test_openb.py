"""The openb trace: read, ordered, replayed; what is wrong in a file is named."""

from __future__ import annotations

import gzip
import json

import pytest

from berth_core.errors import InputError
from berth_scheduler.__main__ import main
from berth_scheduler.openb import Trace, arrivals, packing_profile, read_trace, replay, typical_pods
from tests.bench.openb import FILES

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,1024,2,G2\nn0,4000,1024,1,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "p0,1000,10,1,600,\np1,1000,10,1,400,\np2,2000,10,2,1000,\np3,3000,10,0,0,\n"
)


@pytest.fixture
def lists(tmp_path):
    """Write both lists, one of them compressed; returns a function that takes their text."""

    def write(nodes: str = NODES, pods: str = PODS):
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "pods.csv.gz").write_bytes(gzip.compress(pods.encode()))
        return tmp_path / "nodes.csv", tmp_path / "pods.csv.gz"

    return write


def test_both_lists_are_read(lists):
    trace = read_trace(*lists())
    assert [one.name for one in trace.nodes] == ["n0", "n1"]
    assert trace.shares == 3000
    assert [(one.name, one.devices, one.shares) for one in trace.pods] == [
        ("p0", 1, 600), ("p1", 1, 400), ("p2", 2, 1000), ("p3", 0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        ("sn,cpu_milli\n", PODS, "there is no memory_mib"),
        (NODES.replace("8000", "-8"), PODS, r"nodes.csv: line 2: cpu_milli: expected a whole number, got '-8'"),
        (NODES.replace(",2,", ",0,").replace(",1,", ",0,"), PODS, "expected nodes with GPUs"),
        (NODES, PODS.replace("600", "1600"), r"line 2: gpu_milli: expected 1 to 1000, got 1600"),
        (NODES, PODS.replace("600,", "600,V100"), "line 2: gpu_spec: GPUs of a particular model"),
    ],
)
def test_a_wrong_list_is_refused_with_its_line(lists, nodes, pods, message):
    with pytest.raises(InputError, match=message):
        read_trace(*lists(nodes, pods))


def test_a_file_that_is_no_gzip(tmp_path, lists):
    nodes, pods = lists()
    pods.write_bytes(b"name")
    with pytest.raises(InputError, match=r"pods.csv.gz cannot be read"):
        read_trace(nodes, pods)


def test_the_order_of_arrival(lists):
    trace = read_trace(*lists())
    order = arrivals(trace, 42, 300)
    assert order == arrivals(trace, 42, 300), "the same seed, the same order"
    assert sorted(order[:4]) == list(trace.pods), "first all pods of the trace"
    asked = sum(one.devices * one.shares for one in order)
    assert asked <= 9000 + 1000, "the last may ask for two"
    assert asked + 1000 > 9000
    few = arrivals(trace, 42, 50)
    assert few == order[: len(few)]
    assert sum(one.devices * one.shares for one in few) <= 1500


def test_typical_pods_are_the_most_frequent_ones():
    trace = read_trace(*FILES)
    typical = typical_pods(trace.pods)
    assert len(typical) == 35
    assert typical[0] == {"cpu": "3152m", "count": 1, "shares": 810, "weight": 1047}
    assert sum(one["weight"] for one in typical) >= 0.95 * len(trace.pods)


def test_a_replay_counts_what_it_gives_out(lists):
    trace = read_trace(*lists())
    found = replay(trace, trace.pods, packing_profile(trace))
    assert (found.placed, found.unplaced) == (4, 0)
    assert found.allocated == {20: 20.0, 34: pytest.approx(100 / 3), 100: 100.0}
    twice = replay(trace, trace.pods * 2, packing_profile(trace))
    assert twice.unplaced == 3, "only the pod without a GPU has a place: 8 cores of 12 were asked for"
    assert max(twice.allocated.values()) == 100.0


def test_the_first_pods_of_the_real_trace_all_have_a_place():
    trace = read_trace(*FILES)
    assert (len(trace.nodes), len(trace.pods), trace.shares) == (1213, 8152, 6_212_000)
    some = Trace(trace.nodes[:200], trace.pods)
    order = arrivals(trace, 42, 1)
    found = replay(some, order, packing_profile(trace))
    assert found.unplaced == 0
    assert max(found.allocated.values()) == pytest.approx(sum(p.devices * p.shares for p in order) / some.shares * 100)


def test_the_command(lists, capsys):
    nodes, pods = lists()
    assert main(["simulate", "--openb", str(nodes), str(pods), "--arrived", "100", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seed"] == 42
    assert found["placed"] + found["unplaced"] >= 4
    assert main(["simulate", "--openb", str(nodes), str(pods)]) == 0
    assert "% of the GPUs asked for:" in capsys.readouterr().out
    assert main(["simulate"]) == 2
    assert main(["simulate", "--openb", str(nodes), str(pods), "--arrived", "0"]) == 2
