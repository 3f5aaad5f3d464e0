"""LocalDiskFit: which disks can be had, which are chosen, and how a refusal is explained."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.cycle import place
from berth_core.model.labels import LabelSelector
from berth_core.model.placement import DiskClaim, Placement
from berth_core.plugins.local_disk_fit import LocalDiskFit
from berth_core.plugins.table import DEFAULT_PROFILE
from tests.core.cluster.objects import GI, claim_ref, disk, node, request, retained, volume
from tests.core.plugins.helpers import judged, passing, scored

NODES = (node("h1"), node("h2"), node("h3"))


NAMESPACE = {"metadata": {"name": "default", "uid": "ns-2", "creationTimestamp": "2026-11-24T20:00:00Z"}}


def cluster(*disks, nodes=NODES):
    return Snapshot.from_objects(nodes=nodes, disks=disks, namespaces=[NAMESPACE])


@pytest.mark.promise
def test_data_of_an_earlier_namespace_is_another_ones():
    kept = retained("web", 0)
    left, own = disk("b", "h3", retainedFor={**kept, "namespaceUID": "ns-1"}), {**kept, "namespaceUID": "ns-2"}
    assert chosen(cluster(disk("a", "h1"), left), one()) == ("h1", {"data": "a"})
    assert chosen(cluster(disk("a", "h1"), disk("b", "h3", retainedFor=own)), one()) == ("h3", {"data": "b"})
    refused = place(DEFAULT_PROFILE, cluster(left), one())
    assert refused.placement is None
    assert refused.diagnosis.summary() == (
        "0/3 nodes are available: 3 node(s) didn't have a free local disk for data (LocalDisk b keeps the data of "
        "default/web-0 of an earlier namespace of that name (uid ns-1; the one of today, uid ns-2, was made "
        "2026-11-24T20:00:00Z); where nobody needs it: ansible localhost -m berth.stateful.local_disk -a 'name=b "
        "state=released force_retained=true')."
    )
    (verdict,) = refused.diagnosis.disks
    assert (verdict.reason, verdict.detail) == (
        "with data of an earlier namespace or pod of that name",
        "of default/web-0",
    )
    assert place(DEFAULT_PROFILE, cluster(left), one(ordinal=1)).diagnosis.summary() == (
        "0/3 nodes are available: 3 node(s) didn't have a free local disk for data."
    ), "told to no other replica"


@pytest.mark.promise
def test_a_stale_lock_of_an_earlier_namespace_is_another_ones():
    held = disk("b", "h3", claimRef={**claim_ref("web", 0), "namespaceUID": "ns-1"}, phase="InUse")
    assert chosen(cluster(disk("a", "h1"), held), one()) == ("h1", {"data": "a"})
    (verdict,) = place(DEFAULT_PROFILE, cluster(held), one()).diagnosis.disks
    assert verdict.reason == "held"


def test_a_namespace_that_is_made_anew_in_the_cache_changes_whose_data_it_is():
    snapshot = cluster(disk("a", "h1"), disk("b", "h3", retainedFor={**retained("web", 0), "namespaceUID": "ns-2"}))
    assert chosen(snapshot, one()) == ("h3", {"data": "b"})
    snapshot.upsert_namespace({"metadata": {"name": "default", "uid": "ns-3"}})
    assert chosen(snapshot, one()) == ("h1", {"data": "a"})
    snapshot.remove_namespace("default")
    assert chosen(snapshot, one()) == ("h1", {"data": "a"})


@pytest.mark.promise
def test_the_data_of_an_earlier_pods_ephemeral_volume_is_another_ones():
    snapshot = cluster(disk("a", "h1"), disk("b", "h3", retainedFor={**retained("web", 0), "podUID": "p-1"}))
    assert chosen(snapshot, one(pod_uid="p-1")) == ("h3", {"data": "b"})
    assert chosen(snapshot, one(pod_uid="p-2")) == ("h1", {"data": "a"})
    ours = one(pod_uid="p-2", owner=("default", "web", 0, "data"))
    snapshot.assume(ours, Placement("h1", {"data": "a"}))
    assert chosen(snapshot, ours) == ("h1", {"data": "a"}), "what is assumed to be its own"


def chosen(snapshot, asked):
    found = place(DEFAULT_PROFILE, snapshot, asked).placement
    return None if found is None else (found.node, dict(found.disks))


def one(size=GI, ordinal=0, app="web", **more):
    return request(disks=[DiskClaim("data", size, **more)], app=app, ordinal=ordinal)


def test_the_smallest_that_fits():
    snapshot = cluster(disk("a", "h1", 4 * GI), disk("b", "h1", 2 * GI), disk("c", "h1", GI))
    assert chosen(snapshot, one(2 * GI)) == ("h1", {"data": "b"})
    assert chosen(snapshot, one(0)) == ("h1", {"data": "c"})
    assert chosen(snapshot, one(2 * GI + 1)) == ("h1", {"data": "a"})
    assert chosen(snapshot, one(5 * GI)) is None


def test_equal_disks_go_by_name_whatever_the_order_of_arrival():
    assert chosen(cluster(disk("b", "h1"), disk("a", "h1")), one()) == ("h1", {"data": "a"})


def test_the_node_with_the_least_waste():
    snapshot = cluster(disk("a", "h1", 4 * GI), disk("b", "h2", 2 * GI), disk("c", "h3", 3 * GI))
    assert scored(LocalDiskFit(), snapshot, one(2 * GI)) == {"h1": 50, "h2": 100, "h3": 66}
    assert chosen(snapshot, one(2 * GI)) == ("h2", {"data": "b"})


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("reserved", {"reserved": True}),
        ("Faulted", {"phase": "Faulted"}),
        ("Missing", {"phase": "Missing"}),
        ("not observed yet", {"phase": "Pending"}),
        ("not observed yet", {"phase": ""}),
        ("unhealthy", {"health": "FAILED"}),
        ("in use without a lock", {"phase": "InUse"}),
        ("to be wiped", {"wipe": {"requestID": "r1"}}),
        ("cordoned", {"unschedulable": True}),
        ("held", {"claimRef": claim_ref("db", 1), "phase": "InUse"}),
        ("with data of another replica", {"retainedFor": retained("db", 1), "phase": "Released"}),
        ("of another class", {"storage_class": "slow"}),
        ("of another volumeMode", {"volumeMode": "Block"}),
        ("of another filesystem", {"fsType": "xfs"}),
        ("not selected by label", {"labels": {"tier": "cold"}}),
        ("too small", {"size": GI - 1}),
    ],
)
def test_what_cannot_be_had_and_why(reason, change):
    good = {"labels": {"tier": "hot"}}
    snapshot = cluster(disk("d", "h1", **{**good, **change}))
    hot = LabelSelector.from_labels({"tier": "hot"})
    asked = one(GI, storage_class="fast", fs_type="ext4", selector=hot)
    outcome = place(DEFAULT_PROFILE, snapshot, asked)
    assert outcome.placement is None
    (verdict,) = outcome.diagnosis.disks
    assert (verdict.name, verdict.node, verdict.claim, verdict.fits, verdict.reason) == (
        "d",
        "h1",
        "data",
        False,
        reason,
    )
    snapshot.upsert_disk(disk("d", "h1", **good))
    assert chosen(snapshot, asked) == ("h1", {"data": "d"})


def test_a_disk_that_is_being_deleted():
    going = disk("d", "h1")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert chosen(cluster(going), one()) is None


def test_a_disk_that_nobody_holds_can_be_had():
    assert chosen(cluster(disk("d", "h1", phase="Available")), one()) == ("h1", {"data": "d"})


@pytest.mark.parametrize("phase", ["Released", "Locked"])
def test_a_disk_whose_lock_somebody_has_taken_off_waits_for_its_agents_look(phase):
    snapshot = cluster(disk("d", "h1", phase=phase))
    assert chosen(snapshot, one()) is None
    told = [verdict.reason for verdict in place(DEFAULT_PROFILE, snapshot, one(), explain=True).diagnosis.disks]
    assert told == ["not looked at since the lock went"]
    snapshot.upsert_disk(disk("d", "h1", phase="Available"))
    assert chosen(snapshot, one()) == ("h1", {"data": "d"})


def test_a_disk_below_a_volume_whose_lock_is_gone_waits_until_that_volume_is_gone():
    snapshot, left = cluster(disk("d", "h1")), volume("d-01234567")
    assert chosen(snapshot, one()) is not None
    left["metadata"]["annotations"] = {"berth.dev/berth-uid": "0123456789"}
    snapshot.upsert_volume(left)
    assert chosen(snapshot, one()) is None
    (verdict,) = place(DEFAULT_PROFILE, snapshot, one(), explain=True).diagnosis.disks
    assert (verdict.reason, verdict.detail) == ("below a PersistentVolume whose lock is gone", "(d-01234567)")
    snapshot.upsert_disk(disk("d", "h1", phase="Released", retainedFor=retained("web", 0)))
    assert chosen(snapshot, one()) == ("h1", {"data": "d"}), "its own data"
    snapshot.upsert_disk(disk("d", "h1"))
    assert chosen(snapshot, one()) is None
    snapshot.remove_volume("d-01234567")
    assert chosen(snapshot, one()) == ("h1", {"data": "d"})


def test_any_filesystem_does_on_a_disk_that_declares_none_and_for_a_claim_that_asks_for_none():
    assert chosen(cluster(disk("d", "h1")), one(fs_type="xfs")) is not None
    assert chosen(cluster(disk("d", "h1", fsType="xfs")), one(fs_type="xfs")) is not None
    assert chosen(cluster(disk("d", "h1", fsType="xfs")), one()) is not None
    assert (
        chosen(cluster(disk("d", "h1", fsType="xfs", volumeMode="Block")), one(fs_type="ext4", volume_mode="Block"))
        is not None
    )


def test_no_class_asked_for_is_any_class_and_the_empty_class_is_not():
    snapshot = cluster(disk("d", "h1", storage_class="slow"), disk("e", "h1", storage_class=""))
    assert chosen(snapshot, one()) == ("h1", {"data": "d"})
    assert chosen(snapshot, one(storage_class="")) == ("h1", {"data": "e"})


# -- data stays with its replica


def test_a_replica_goes_back_to_its_data():
    snapshot = cluster(disk("a", "h1"), disk("b", "h3", 9 * GI, phase="Released", retainedFor=retained("web", 0)))
    assert chosen(snapshot, one()) == ("h3", {"data": "b"})
    assert chosen(snapshot, one(ordinal=1)) == ("h1", {"data": "a"})
    outcome = place(DEFAULT_PROFILE, snapshot, one())
    assert outcome.counts.nodes == ("h3",)


@pytest.mark.parametrize(
    "other", [retained("web", 1), retained("db", 0), retained("web", 0, "log"), retained("web", 0, namespace="x")]
)
def test_data_of_another_replica_or_claim_is_never_touched(other):
    assert chosen(cluster(disk("b", "h3", phase="Released", retainedFor=other)), one()) is None


def test_a_replica_without_a_way_to_its_data_is_not_put_elsewhere():
    kept = {"phase": "Released", "retainedFor": retained("web", 0)}
    for change in ({"phase": "Faulted"}, {"phase": "Missing"}, {"reserved": True}, {"size": GI >> 1}):
        snapshot = cluster(disk("a", "h1"), disk("b", "h3", **{**kept, **change}))
        outcome = place(DEFAULT_PROFILE, snapshot, one())
        assert outcome.placement is None
        assert outcome.diagnosis.nodes["h1"].reasons == ("node(s) didn't hold the data of default/web-0",)
        assert outcome.diagnosis.nodes["h3"].reasons == ("node(s) didn't have a free local disk for data",)
        assert "h1" not in " ".join(outcome.diagnosis.hints())


def test_data_on_a_cordoned_node_waits_for_the_node():
    nodes = [node("h1"), node("h3", unschedulable=True)]
    outcome = place(
        DEFAULT_PROFILE, cluster(disk("a", "h1"), disk("b", "h3", retainedFor=retained("web", 0)), nodes=nodes), one()
    )
    assert outcome.diagnosis.hints() == ("uncordon h3",)


def test_data_on_two_nodes_is_said_plainly():
    snapshot = cluster(
        disk("a", "h1", retainedFor=retained("web", 0)), disk("b", "h2", retainedFor=retained("web", 0, "log"))
    )
    asked = request(disks=[("data", GI), ("log", GI)])
    message = place(DEFAULT_PROFILE, snapshot, asked).diagnosis.message()
    assert "the data of default/web-0 is on disks of different nodes: data on h1 (a), log on h2 (b)" in message


def test_a_lock_of_its_own_is_no_obstacle():
    snapshot = cluster(disk("a", "h1"), disk("b", "h2", phase="InUse", claimRef=claim_ref("web", 0)))
    assert chosen(snapshot, one()) == ("h2", {"data": "b"})


def test_a_second_claim_finds_a_disk_beside_the_data():
    snapshot = cluster(
        disk("a", "h1"), disk("b", "h3", retainedFor=retained("web", 0)), disk("c", "h3"), disk("d", "h1")
    )
    assert chosen(snapshot, request(disks=[("data", GI), ("log", GI)])) == ("h3", {"data": "b", "log": "c"})


# -- pinned disks


def test_a_pinned_disk():
    snapshot = cluster(disk("a", "h1"), disk("b", "h2", 8 * GI), disk("c", "h3", 8 * GI))
    assert chosen(snapshot, one(disk_names=("b", "c"))) == ("h2", {"data": "b"})
    snapshot.assume(one(disk_names=("b", "c")), Placement("h2", {"data": "b"}))
    assert chosen(snapshot, one(disk_names=("b", "c"), ordinal=1)) == ("h3", {"data": "c"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"claimRef": claim_ref("db", 2)}, "1 held (b by default/db-2)"),
        ({"reserved": True}, "1 reserved (b)"),
        ({"phase": "Missing"}, "1 Missing (b)"),
        ({"claimRef": claim_ref("db", 2), "size": 1}, "1 held (b by default/db-2)"),
    ],
)
def test_a_pinned_disk_that_cannot_be_had_says_why(change, words):
    snapshot = cluster(disk("a", "h1"), disk("b", "h2", **change))
    outcome = place(DEFAULT_PROFILE, snapshot, one(disk_names=("b",)))
    assert f"local disks for claim data: {words}." in outcome.diagnosis.message()
    assert outcome.diagnosis.hints() == ()


def test_a_pinned_disk_that_is_not_there():
    message = place(DEFAULT_PROFILE, cluster(disk("a", "h1")), one(disk_names=("z",))).diagnosis.message()
    assert "local disks for claim data: 1 not found (z)." in message


def test_a_pinned_disk_on_a_cordoned_node():
    nodes = [node("h1"), node("h2", unschedulable=True)]
    outcome = place(DEFAULT_PROFILE, cluster(disk("a", "h1"), disk("b", "h2"), nodes=nodes), one(disk_names=("b",)))
    assert outcome.diagnosis.hints() == ("uncordon h2",)
    assert "1 node(s) were unschedulable" in outcome.diagnosis.message()


# -- all claims together


def test_a_disk_is_not_given_to_two_claims():
    asked = request(disks=[("data", GI), ("log", GI)])
    assert chosen(cluster(disk("a", "h1"), disk("b", "h2")), asked) is None
    assert judged(LocalDiskFit(), cluster(disk("a", "h1")), asked) == {
        "h1": ("node(s) didn't have enough free local disks for all claims together",),
        "h2": ("node(s) didn't have a free local disk for data, log",),
        "h3": ("node(s) didn't have a free local disk for data, log",),
    }
    assert chosen(cluster(disk("a", "h1"), disk("b", "h1", 2 * GI)), asked) == ("h1", {"data": "a", "log": "b"})


def test_a_choosy_claim_gets_its_disk_though_another_would_take_it():
    snapshot = cluster(disk("a", "h1", GI, "fast"), disk("b", "h1", 2 * GI, "slow"))
    asked = request(disks=[DiskClaim("any", GI), DiskClaim("fast", GI, "fast")])
    assert chosen(snapshot, asked) == ("h1", {"any": "b", "fast": "a"})


def test_the_smaller_claim_gets_the_smaller_disk():
    snapshot = cluster(disk("a", "h1", 2 * GI), disk("b", "h1", 8 * GI))
    assert chosen(snapshot, request(disks=[("big", 2 * GI), ("small", GI)])) == ("h1", {"small": "a", "big": "b"})


def test_a_pod_without_claims_is_not_looked_at():
    assert judged(LocalDiskFit(), cluster(), request()) == "skipped"
    assert scored(LocalDiskFit(), cluster(), request()) == "skipped"


def test_disks_of_unknown_nodes_are_nobodys():
    assert chosen(cluster(disk("a", "gone")), one()) is None


# -- many replicas, one after the other


sizes = st.lists(st.tuples(st.sampled_from(["h1", "h2", "h3"]), st.integers(1, 4)), min_size=1, max_size=8)
asks = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=6)


@given(sizes, asks)
def test_no_disk_is_ever_given_twice(have, want):
    snapshot = cluster(*(disk(f"d{index}", where, size * GI) for index, (where, size) in enumerate(have)))
    size_of = {f"d{index}": (where, size * GI) for index, (where, size) in enumerate(have)}
    given_out = []
    for ordinal, claims in enumerate(want):
        asked = request(disks=[(f"c{index}", size * GI) for index, size in enumerate(claims)], ordinal=ordinal)
        found = place(DEFAULT_PROFILE, snapshot, asked).placement
        if found is None:
            continue
        snapshot.assume(asked, found)
        given_out += found.disks.values()
        for index, size in enumerate(claims):
            where, real = size_of[found.disks[f"c{index}"]]
            assert where == found.node
            assert real >= size * GI
    assert len(given_out) == len(set(given_out))


@given(sizes, st.integers(1, 4), st.integers(1, 4))
def test_passing_nodes_are_those_where_disks_can_be_had(have, first, second):
    snapshot = cluster(*(disk(f"d{index}", where, size * GI) for index, (where, size) in enumerate(have)))
    here = {name: sorted(size for where, size in have if where == name) for name in ("h1", "h2", "h3")}
    small, large = sorted((first, second))
    expected = [name for name, free in here.items() if len([s for s in free if s >= small]) >= 2 and free[-1] >= large]
    assert passing(LocalDiskFit(), snapshot, request(disks=[("x", first * GI), ("y", second * GI)])) == expected
