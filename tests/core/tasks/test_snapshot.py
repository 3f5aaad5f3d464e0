"""Snapshots and the account against a simple model: events that come twice, late and out of order change nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth_core.tasks.account import Account
from berth_core.tasks.pods import PodState
from berth_core.tasks.snapshot import PodEvent, PodsSnapshot, differences
from tests.core.tasks.samples import pod, task

ONE = task()
#: The life of two pods of one try, as the API server tells it: (uid, version, phase, there).
LIFE = (
    ("a", 1, "Pending", True),
    ("a", 2, "Running", True),
    ("a", 3, "Failed", True),
    ("a", 4, "Failed", False),
    ("b", 5, "Pending", True),
    ("b", 6, "Running", True),
    ("b", 7, "Succeeded", True),
    ("b", 8, "Succeeded", False),
)


def event(uid: str, version: int, phase: str, there: bool) -> PodEvent:
    return PodEvent(pod(ONE, 1, phase, uid=uid, version=version), there)


EVENTS = [event(*one) for one in LIFE]


@given(st.lists(st.sampled_from(EVENTS), max_size=30), st.integers(1, 5))
def test_any_order_ends_where_the_newest_event_says(told: list[PodEvent], pieces: int) -> None:
    snapshot, account, charged, back = PodsSnapshot(), Account(), 0, 0
    for at in range(0, len(told), pieces):
        before, held = snapshot, len(account)
        snapshot = snapshot.applied(told[at : at + pieces])
        changes = differences(before, snapshot)
        assert changes == differences(before, snapshot, {one.pod.key for one in told[at : at + pieces]})
        returned = account.follow(changes, {ONE.uid: "ns/q"}.get)
        back += len(returned)
        charged += len(account) - held + len(returned)
    gone = {one.pod.uid for one in told if not one.there}
    for found in snapshot.all():
        assert found.uid not in gone
        assert found.version == max(one.pod.version for one in told if one.pod.uid == found.uid)
    living = [found for found in snapshot.all() if not found.over]
    assert len(account) == len(living)
    assert charged == back + len(living), "what was taken is given back once"
    assert account.total() == ({"cpu": 100} if living else {})


@given(st.permutations(EVENTS), st.data())
def test_the_whole_life_in_any_order_leaves_nothing(told: list[PodEvent], data: st.DataObject) -> None:
    twice = told + data.draw(st.lists(st.sampled_from(EVENTS), max_size=8))
    account, snapshot = Account(), PodsSnapshot()
    for one in twice:
        after = snapshot.applied([one], one.pod.version)
        account.follow(differences(snapshot, after), str)
        snapshot = after
    assert (dict(snapshot.pods), len(account), account.total(), snapshot.version) == ({}, 0, {}, 8)


def first(snapshot: PodsSnapshot) -> PodState:
    (found,) = snapshot.all()
    return found


def test_a_list_replaces_and_never_goes_back_in_time() -> None:
    snapshot = PodsSnapshot().applied(EVENTS[:2], 2)
    assert snapshot.replaced([], 1) is snapshot, "an older list"
    gone = snapshot.replaced([], 2)
    assert dict(gone.pods) == {}
    assert gone.applied([EVENTS[1]]).pods == {}, "what the list buried does not come back"
    later = PodsSnapshot().applied([EVENTS[5]], 2)
    assert first(later.replaced([], 3)).version == 6, "an own write that the list does not know yet stays"
    replaced = snapshot.replaced([EVENTS[4].pod], 5)
    assert [(one.old and one.old.uid, one.new and one.new.uid) for one in differences(snapshot, replaced)] == [
        ("a", None),
        (None, "b"),
    ]


def test_after_a_restore_older_versions_are_taken() -> None:
    snapshot = PodsSnapshot().applied([EVENTS[6]], 7).rewound()
    assert first(snapshot.replaced([EVENTS[5].pod], 6)).phase == "Running"


def test_a_charge_is_taken_and_given_back_once() -> None:
    account = Account()
    requests = (("cpu", 100), ("example.com/gpu", 1))
    assert account.charge(("u", 1), "ns/a", requests)
    assert not account.charge(("u", 1), "ns/b", requests)
    assert account.charge(("u", 2), "ns/b", requests)
    assert (account.used("ns/a"), account.total()) == (dict(requests), {"cpu": 200, "example.com/gpu": 2})
    assert account.give_back(("u", 1))
    assert not account.give_back(("u", 1))
    assert (account.used("ns/a"), account.used("ns/b")) == ({}, dict(requests))
