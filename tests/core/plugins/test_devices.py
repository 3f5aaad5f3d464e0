"""LocalDeviceFit: whole devices and shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.cycle import place
from berth_core.model.placement import DeviceClaim
from berth_core.plugins.local_device_fit import LocalDeviceFit
from berth_core.plugins.table import DEFAULT_PROFILE
from tests.core.cluster.objects import device, node, request, share
from tests.core.plugins.helpers import judged, scored


def cluster(*devices):
    return Snapshot.from_objects(nodes=[node("h1"), node("h2")], devices=devices)


def chosen(snapshot, *claims, ordinal=0):
    found = place(DEFAULT_PROFILE, snapshot, request(devices=claims, ordinal=ordinal)).placement
    return None if found is None else (found.node, dict(found.devices))


def test_whole_devices():
    snapshot = cluster(device("a", "h1"), device("b", "h2"), device("c", "h2"))
    assert chosen(snapshot, ("gpu", "gpu", 2)) == ("h2", {"gpu": (("b", 1000), ("c", 1000))})
    assert chosen(snapshot, ("gpu", "gpu", 3)) is None
    assert chosen(snapshot, ("gpu", "fpga")) is None


def test_a_share_goes_to_the_device_that_is_already_shared():
    snapshot = cluster(device("a", "h1"), device("b", "h2", refs=[share("db", 0, 500)]))
    assert chosen(snapshot, ("gpu", "gpu", 1, 250)) == ("h2", {"gpu": (("b", 250),)})
    assert chosen(snapshot, ("gpu", "gpu", 1, 501)) == ("h1", {"gpu": (("a", 501),)})
    assert scored(LocalDeviceFit(), snapshot, request(devices=[("gpu", "gpu", 1, 250)])) == {"h1": 25, "h2": 50}


def test_a_shared_device_is_not_a_whole_one():
    snapshot = cluster(device("a", "h1", refs=[share("db", 0, 1)]))
    assert chosen(snapshot, ("gpu", "gpu")) is None
    (verdict,) = place(DEFAULT_PROFILE, snapshot, request(devices=[("gpu", "gpu")])).diagnosis.devices
    assert (verdict.reason, verdict.detail) == ("held", "999 of 1000 shares free, by default/db-0")


def test_two_claims_may_share_a_device_and_never_more_than_there_is():
    snapshot = cluster(device("a", "h1"))
    assert chosen(snapshot, ("x", "gpu", 1, 400), ("y", "gpu", 1, 600)) == (
        "h1",
        {"x": (("a", 400),), "y": (("a", 600),)},
    )
    assert chosen(snapshot, ("x", "gpu", 1, 401), ("y", "gpu", 1, 600)) is None


def test_several_shares_of_one_claim_are_on_different_devices():
    assert chosen(cluster(device("a", "h1")), ("x", "gpu", 2, 100)) is None
    assert chosen(cluster(device("a", "h1"), device("b", "h1")), ("x", "gpu", 2, 100)) == (
        "h1",
        {"x": (("a", 100), ("b", 100))},
    )


@pytest.mark.parametrize("change", [{"phase": "Faulted"}, {"phase": "Missing"}, {"phase": ""}, {"reserved": True}])
def test_what_cannot_be_had(change):
    snapshot = cluster(device("a", "h1", **change))
    assert judged(LocalDeviceFit(), snapshot, request(devices=[("gpu", "gpu")])) == {
        "h1": ("node(s) didn't have the free local devices for gpu",),
        "h2": ("node(s) didn't have the free local devices for gpu",),
    }


def test_own_shares_are_no_obstacle_to_their_replica_alone():
    snapshot = cluster(device("a", "h1", refs=[share("web", 0, 1000)]))
    assert chosen(snapshot, ("gpu", "gpu")) == ("h1", {"gpu": (("a", 1000),)})
    assert chosen(snapshot, ("gpu", "gpu"), ordinal=1) is None


def test_a_lock_that_becomes_visible_is_not_counted_twice():
    snapshot = cluster(device("a", "h1"))
    first = request(devices=[("gpu", "gpu", 1, 500)], ordinal=0)
    snapshot.assume(first, place(DEFAULT_PROFILE, snapshot, first).placement)
    snapshot.upsert_device(device("a", "h1", refs=[share("web", 0, 500)]))
    assert chosen(snapshot, ("gpu", "gpu", 1, 500), ordinal=1) == ("h1", {"gpu": (("a", 500),)})
    assert chosen(snapshot, ("gpu", "gpu", 1, 501), ordinal=1) is None


def test_the_way_out():
    hints = place(DEFAULT_PROFILE, cluster(), request(devices=[("gpu", "a100", 2)])).diagnosis.hints()
    assert hints == ("2 whole devices of class a100 free on h1 or h2",)


@given(st.lists(st.tuples(st.integers(1, 2), st.sampled_from([100, 300, 500, 1000])), min_size=1, max_size=8))
def test_shares_never_exceed_a_device(want):
    snapshot = cluster(device("a", "h1"), device("b", "h1"), device("c", "h2"))
    taken = dict.fromkeys("abc", 0)
    for ordinal, (count, shares) in enumerate(want):
        asked = request(devices=[DeviceClaim("gpu", "gpu", count, shares)], ordinal=ordinal)
        found = place(DEFAULT_PROFILE, snapshot, asked).placement
        if found is not None:
            snapshot.assume(asked, found)
            for name, amount in found.devices["gpu"]:
                taken[name] += amount
    assert max(taken.values()) <= 1000
