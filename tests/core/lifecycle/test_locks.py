"""The lock as a pure change: who may take it, and what giving it up leaves behind."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.errors import LockError
from berth_core.lifecycle.locks import Holder, lock_device, lock_disk, unlock_device, unlock_disk
from berth_core.model.tenant import Tenant


def disk(**spec):
    return {
        "metadata": {"name": "h1-d0", "resourceVersion": "7"},
        "spec": {"nodeName": "h1", "identity": {"serial": "A", "size": 10}, **spec},
    }


def holder(uid="u1", app="db", ordinal=0, claim="data"):
    return Holder("default", f"{app}-{ordinal}", uid, app, ordinal, claim)


def test_a_free_disk_is_locked_for_the_first_time():
    before = disk()
    after = lock_disk(before, holder())
    assert after["spec"]["claimRef"] == {
        "namespace": "default",
        "name": "db-0",
        "uid": "u1",
        "app": "db",
        "ordinal": 0,
        "claim": "data",
        "dataUID": "u1",
    }
    assert "claimRef" not in before["spec"], "the object that was read is never changed"
    assert after["metadata"]["resourceVersion"] == "7", "the compare-and-swap needs the version that was read"


def test_taking_a_lock_again_changes_nothing():
    assert lock_disk(lock_disk(disk(), holder()), holder()) is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (holder("u2", "web"), "held by default/db-0"),
        (holder("u1", claim="wal"), "held by default/db-0"),
        (holder("u2"), "held by default/db-0"),
    ],
)
def test_a_held_disk_is_refused_with_its_holder(other, message):
    with pytest.raises(LockError, match=message):
        lock_disk(lock_disk(disk(), holder()), other)


def test_a_reserved_disk_is_refused():
    with pytest.raises(LockError, match="reserved"):
        lock_disk(disk(reserved=True), holder())


def test_a_cordoned_disk_is_refused():
    with pytest.raises(LockError, match="is cordoned"):
        lock_disk(disk(unschedulable=True), holder())


def test_a_disk_that_is_to_be_wiped_is_refused():
    with pytest.raises(LockError, match="to be wiped, as ann asked"):
        lock_disk(disk(wipe={"requestedBy": "ann"}), holder())


def test_an_undone_first_lock_leaves_no_trace():
    free = disk()
    assert unlock_disk(lock_disk(free, holder()), "u1", keep_data=False) == free


def test_data_is_kept_for_the_same_replica_alone():
    kept = unlock_disk(lock_disk(disk(), holder()), "u1", keep_data=True)
    assert kept["spec"]["retainedFor"] == {
        "namespace": "default",
        "app": "db",
        "ordinal": 0,
        "claim": "data",
        "dataUID": "u1",
    }
    for other in (holder("u2", "web"), holder("u2", ordinal=1), holder("u2", claim="wal")):
        with pytest.raises(LockError, match="keeps the data of default/db-0"):
            lock_disk(kept, other)
    again = lock_disk(kept, holder("u2"))
    assert again["spec"]["claimRef"]["uid"] == "u2"
    assert again["spec"]["claimRef"]["dataUID"] == "u1", "the filesystem was made under the first lock"
    assert "retainedFor" not in again["spec"]


@pytest.mark.promise
def test_data_is_kept_for_the_same_namespace_by_its_uid():
    """Deleted and made again, perhaps by somebody else, it has its old name and another uid."""
    of = {uid: holder(f"u-{uid}")._replace(tenant=Tenant(uid, since="2026-11-24")) for uid in ("ns-1", "ns-2")}
    kept = unlock_disk(lock_disk(disk(), of["ns-1"]), "u-ns-1", keep_data=True)
    assert kept["spec"]["retainedFor"]["namespaceUID"] == "ns-1"
    with pytest.raises(LockError) as caught:
        lock_disk(kept, of["ns-2"])
    assert str(caught.value) == (
        "LocalDisk h1-d0 keeps the data of default/db-0 (claim data) of an earlier namespace of that name (uid ns-1; "
        "the one of today, uid ns-2, was made 2026-11-24); where nobody needs it: ansible localhost -m "
        "berth.stateful.local_disk -a 'name=h1-d0 state=released force_retained=true'"
    )
    assert lock_disk(kept, of["ns-1"])["spec"]["claimRef"]["namespaceUID"] == "ns-1"


def test_data_of_an_older_release_is_found_by_name_and_has_the_uid_from_then_on():
    kept = unlock_disk(lock_disk(disk(), holder()), "u1", keep_data=True)
    now = holder("u2")._replace(tenant=Tenant("ns-1"))
    again = unlock_disk(lock_disk(kept, now), "u2", keep_data=True)
    assert again["spec"]["retainedFor"] == {**kept["spec"]["retainedFor"], "namespaceUID": "ns-1"}
    with pytest.raises(LockError, match="of an earlier namespace"):
        lock_disk(again, holder("u3")._replace(tenant=Tenant("ns-2")))


@pytest.mark.promise
def test_data_of_a_pods_ephemeral_volume_is_no_other_pods():
    of = {uid: holder(f"u-{uid}")._replace(tenant=Tenant("ns-1", uid)) for uid in ("p-1", "p-2", "")}
    kept = unlock_disk(lock_disk(disk(), of["p-1"]), "u-p-1", keep_data=True)
    for other in ("p-2", ""):
        with pytest.raises(LockError, match="for the ephemeral volume of an earlier pod"):
            lock_disk(kept, of[other])
    with pytest.raises(LockError, match="no pod's ephemeral volume"):
        lock_disk(unlock_disk(lock_disk(disk(), of[""]), "u-", keep_data=True), of["p-2"])


def test_undoing_a_second_lock_keeps_the_data_of_the_first():
    kept = unlock_disk(lock_disk(disk(), holder()), "u1", keep_data=True)
    assert unlock_disk(lock_disk(kept, holder("u2")), "u2", keep_data=False) == kept


def test_only_the_holder_gives_a_lock_up():
    assert unlock_disk(lock_disk(disk(), holder()), "u2", keep_data=False) is None
    assert unlock_disk(disk(), "u1", keep_data=True) is None


HOLDERS = st.builds(
    holder, uid=st.sampled_from(["u1", "u2", "u3"]), app=st.sampled_from(["db", "web"]), ordinal=st.integers(0, 1)
)
MOVES = st.lists(st.tuples(st.booleans(), HOLDERS, st.booleans()), max_size=12)


@given(MOVES)
def test_no_sequence_of_moves_hands_a_disk_or_its_data_over(moves):
    now = disk()
    for take, who, keep in moves:
        before = copy.deepcopy(now["spec"])
        try:
            changed = lock_disk(now, who) if take else unlock_disk(now, who.uid, keep)
        except LockError:
            continue
        if changed is None:
            continue
        now = changed
        held, was = now["spec"].get("claimRef"), before.get("claimRef")
        assert not (held and was), "handed over in one write"
        kept = before.get("retainedFor")
        if kept and held:
            assert (held["app"], held["ordinal"], held["dataUID"]) == (kept["app"], kept["ordinal"], kept["dataUID"])
        assert not (held and now["spec"].get("retainedFor"))


def device(shares=1000):
    return {
        "metadata": {"name": "h1-gpu0"},
        "spec": {"nodeName": "h1", "deviceClass": "gpu", "uuid": "G", "capacity": {"shares": shares}},
    }


def test_shares_of_a_device_are_given_out_until_there_are_none():
    one = lock_device(device(), holder("u1"), 600)
    with pytest.raises(LockError, match=r"400 of 1000 shares free, 500 are asked for \(held by default/db-0: 600\)"):
        lock_device(one, holder("u2", "web"), 500)
    two = lock_device(one, holder("u2", "web"), 400)
    assert lock_device(two, holder("u1"), 600) is None
    assert unlock_device(unlock_device(two, "u1"), "u2") == device()
    assert unlock_device(one, "u2") is None


@given(st.lists(st.tuples(st.sampled_from(["u1", "u2", "u3", "u4"]), st.integers(1, 1000), st.booleans()), max_size=12))
def test_a_device_never_gives_out_more_than_it_has(moves):
    now = device()
    for uid, shares, take in moves:
        try:
            changed = lock_device(now, holder(uid, uid), shares) if take else unlock_device(now, uid)
        except LockError:
            continue
        now = changed or now
        assert sum(ref["shares"] for ref in now["spec"].get("claimRefs", [])) <= 1000
