"""DevicePacking: shares of devices stay together, and the formula is the published one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import InputError
from berth_core.framework.cycle import place
from berth_core.framework.profile import Profile
from berth_core.plugins.fragmentation import Typical, TypicalPod, fragmentation, gradients, unserved
from berth_core.plugins.table import TABLE, make_profile
from tests.core.cluster.objects import container, device, node, pod, request, share
from tests.core.plugins.helpers import scored

ARGS = {
    "deviceClass": "gpu",
    "typicalPods": [
        {"cpu": "1", "count": 1, "shares": 1000, "weight": 6},
        {"cpu": "1", "count": 1, "shares": 500, "weight": 3},
        {"cpu": "2", "count": 0, "weight": 1},
    ],
}
PACKING = TABLE.make("DevicePacking", ARGS)
PROFILE = make_profile(
    "packing", {"DevicePacking": ARGS}, [("NodeResourcesFit", 0), ("LocalDeviceFit", 0), ("DevicePacking", 1)]
)


def wanted(*claims, cpu="1", ordinal=0):
    return request(pod(f"web-{ordinal}", [container(cpu)]), devices=claims, ordinal=ordinal)


def expected(typical, cpu, free):
    """The paper's definition, word for word, for one node."""
    total = sum(one.weight for one in typical)
    lost = 0.0
    for one in typical:
        able = [shares for shares in free if shares >= one.shares]
        if one.count == 0 or cpu < one.cpu or len(able) < one.count:
            useless = sum(free)
        else:
            useless = sum(shares for shares in free if shares < one.shares)
        lost += useless * one.weight / total
    return lost


KINDS = st.builds(
    lambda cpu, count, shares, weight: TypicalPod(cpu, count, shares if count else 0, weight),
    st.integers(0, 5000), st.integers(0, 3), st.integers(1, 1000), st.integers(1, 9),
)  # fmt: skip
FREE = st.lists(st.integers(0, 1000), min_size=4, max_size=4)


@settings(max_examples=100, deadline=None)
@given(st.lists(KINDS, min_size=1, max_size=5), st.lists(st.tuples(st.integers(0, 6000), FREE), min_size=1, max_size=4))
def test_fragmentation_is_the_published_formula(kinds, nodes):
    cpu, free = np.array([one[0] for one in nodes]), np.array([one[1] for one in nodes])
    got = fragmentation(Typical(kinds), cpu, free)
    assert got == pytest.approx([expected(kinds, *one) for one in nodes])


@settings(max_examples=100, deadline=None)
@given(st.lists(KINDS, min_size=1, max_size=5), st.lists(st.tuples(st.integers(0, 6000), FREE), min_size=2, max_size=6))
def test_a_row_rates_the_same_alone_and_among_others(kinds, nodes):
    cpu, free, typical = np.array([one[0] for one in nodes]), np.array([one[1] for one in nodes]), Typical(kinds)
    together = gradients(typical, cpu, free, 500, 1, 300, 0.5)
    alone = [gradients(typical, cpu[at : at + 1], free[at : at + 1], 500, 1, 300, 0.5)[0] for at in range(len(nodes))]
    assert together.tolist() == [one.tolist() for one in alone]


def test_devices_without_cpu_beside_them():
    """Pods with devices need 1 core for each on average: kinds without devices do not count."""
    typical = Typical([TypicalPod(2000, 1, 1000, 1), TypicalPod(500, 2, 500, 2), TypicalPod(9000, 0, 0, 5)])
    assert typical.cpu_per_share == 1.0
    cpu, free = np.array([0, 1500, 5000]), np.array([[1000, 500], [1000, 1000], [1000, 1000]])
    assert unserved(typical, cpu, free).tolist() == [1500, 500, 0]
    (fall,) = gradients(typical, cpu[1:2], free[1:2], 1000, 1, 1000, 0.5)
    without = gradients(typical, cpu[1:2], free[1:2], 1000, 1, 1000)[0]
    assert fall.tolist() == (without + 0.5 * (500 - 500)).tolist()
    (fall,) = gradients(typical, cpu[1:2], free[1:2], 1500, 0, 0, 0.5)
    assert fall[0] == gradients(typical, cpu[1:2], free[1:2], 1500, 0, 0)[0, 0] + 0.5 * (500 - 2000)
    assert unserved(Typical([TypicalPod(2000, 0, 0, 1)]), cpu, free).tolist() == [0, 0, 0]


@settings(max_examples=100, deadline=None)
@given(st.lists(KINDS, min_size=1, max_size=4), st.integers(0, 6000), FREE, st.integers(1, 3), st.integers(1, 1000))
def test_a_gradient_is_before_less_after(kinds, cpu, free, count, shares):
    (got,) = gradients(Typical(kinds), np.array([cpu]), np.array([free]), 500, count, shares)
    for first in range(4):
        able = [index for index in range(first, 4) if free[index] >= shares][:count]
        if len(able) < count or able[0] != first:
            assert got[first] == -np.inf
            continue
        after = [left - shares * (index in able) for index, left in enumerate(free)]
        assert got[first] == pytest.approx(expected(kinds, cpu, free) - expected(kinds, cpu - 500, after))


def test_a_half_goes_where_a_half_is_left():
    """The other half of the whole device would be lost to most pods."""
    snapshot = Snapshot.from_objects(
        nodes=[node("a"), node("b")],
        devices=[
            device("a0", "a"),
            device("a1", "a"),
            device("b0", "b", refs=[share("db", 0, 500)]),
            device("b1", "b"),
        ],
    )
    found = place(PROFILE, snapshot, wanted(("gpu", "gpu", 1, 500))).placement
    assert (found.node, found.devices) == ("b", {"gpu": (("b0", 500),)})


def test_a_small_share_does_not_break_the_half():
    """LocalDeviceFit alone would take the fullest device; here the half that is left would then serve nobody."""
    devices = [device("a0", "a", refs=[share("db", 0, 500)]), device("a1", "a", refs=[share("db", 1, 400)])]
    snapshot = Snapshot.from_objects(nodes=[node("a")], devices=devices)
    small = wanted(("gpu", "gpu", 1, 100))
    alone = make_profile("fit", {}, [("NodeResourcesFit", 0), ("LocalDeviceFit", 1)])
    assert place(alone, snapshot, small).placement.devices == {"gpu": (("a0", 100),)}
    assert place(PROFILE, snapshot, small).placement.devices == {"gpu": (("a1", 100),)}


def test_a_pod_that_needs_much_cpu_goes_where_cpu_is_to_spare():
    """As published, both nodes rate alike until cpu is short, and the first by name is taken."""
    nodes = [node("a", cpu="4"), node("b", cpu="16")]
    devices = [device(f"{one}{index}", one) for one in "ab" for index in range(3)]
    snapshot = Snapshot.from_objects(nodes=nodes, devices=devices)
    assert place(PROFILE, snapshot, wanted(("gpu", "gpu", 1), cpu="2")).placement.node == "b"
    weights = [("NodeResourcesFit", 0), ("LocalDeviceFit", 0), ("DevicePacking", 1)]
    published = make_profile("published", {"DevicePacking": {**ARGS, "cpuWeight": 0}}, weights)
    assert place(published, snapshot, wanted(("gpu", "gpu", 1), cpu="2")).placement.node == "a"


def test_whole_devices_and_what_is_assumed():
    snapshot = Snapshot.from_objects(nodes=[node("a")], devices=[device(f"a{index}", "a") for index in range(3)])
    first = wanted(("gpu", "gpu", 2))
    found = place(PROFILE, snapshot, first).placement
    assert found.devices == {"gpu": (("a0", 1000), ("a1", 1000))}
    snapshot.assume(first, found)
    second = wanted(("gpu", "gpu", 1), ordinal=1)
    assert place(PROFILE, snapshot, second).placement.devices == {"gpu": (("a2", 1000),)}
    assert place(PROFILE, snapshot, wanted(("gpu", "gpu", 2), ordinal=1)).placement is None


def test_a_pod_without_devices_keeps_off_the_cpu_that_devices_need():
    snapshot = Snapshot.from_objects(nodes=[node("a", cpu="4"), node("b", cpu="4")], devices=[device("a0", "a")])
    # On a, 0.9 of the pods need a device and could not use it any more: 90 % of one device is lost, and by cpuWeight
    # half of it once more, as there is no cpu beside it.
    assert scored(PACKING, snapshot, wanted(cpu="4")) == {"a": int(100 / (1 + math.exp(0.9 + 0.5))), "b": 50}
    published = TABLE.make("DevicePacking", {**ARGS, "cpuWeight": 0})
    assert scored(published, snapshot, wanted(cpu="4")) == {"a": int(100 / (1 + math.exp(0.9))), "b": 50}
    assert place(PROFILE, snapshot, wanted(cpu="4")).placement.node == "b"


def test_who_is_not_rated():
    snapshot = Snapshot.from_objects(nodes=[node("a")], devices=[device("a0", "a"), device("f0", "a", "fpga")])
    assert scored(PACKING, snapshot, wanted(("x", "fpga"))) == "skipped"
    assert scored(PACKING, snapshot, wanted(("x", "gpu", 1, 10), ("y", "gpu", 1, 10))) == "skipped"
    assert scored(PACKING, Snapshot.from_objects(nodes=[node("a")]), wanted()) == "skipped"
    found = place(PROFILE, snapshot, wanted(("x", "gpu", 1, 10), ("y", "gpu", 1, 20))).placement
    assert found.devices == {"x": (("a0", 10),), "y": (("a0", 20),)}, "LocalDeviceFit's choice stands"


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({}, "deviceClass: expected the class"),
        ({"deviceClass": "gpu"}, "typicalPods: expected at least one"),
        ({"deviceClass": "gpu", "typicalPods": [{"shares": 0}]}, r"typicalPods\[0\]: expected cpu"),
        ({"deviceClass": "gpu", "typicalPods": [{"gpus": 1}]}, r"typicalPods\[0\].gpus: unknown argument"),
        ({"deviceClass": "gpu", "typicalPods": [{"weight": 0}]}, r"typicalPods\[0\]: expected cpu"),
        ({**ARGS, "cpuWeight": 101}, r"cpuWeight: expected 0"),
    ],
)
def test_arguments(args, path):
    with pytest.raises(InputError, match=path):
        TABLE.make("DevicePacking", args)


def test_it_is_in_no_profile_that_does_not_ask_for_it():
    assert "DevicePacking" not in [one.name for one in make_profile().plugins]
    assert isinstance(PROFILE, Profile)
