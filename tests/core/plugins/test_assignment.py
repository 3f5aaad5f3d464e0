"""Which disk to which claim, which share on which device: checked by trying all ways."""

from __future__ import annotations

from itertools import permutations, product

from hypothesis import given
from hypothesis import strategies as st

from berth_core.plugins.assignment import assign_disks, assign_shares

fits = st.lists(st.lists(st.integers(0, 5), unique=True, max_size=6), min_size=1, max_size=4)


def every_way(wanted, disks=6):
    """All assignments of different disks to the claims."""
    ways = permutations(range(disks), len(wanted))
    return [way for way in ways if all(disk in ok for disk, ok in zip(way, wanted, strict=True))]


@given(fits)
def test_an_assignment_is_found_exactly_when_there_is_one(wanted):
    found = assign_disks(wanted)
    assert (found is None) == (not every_way(wanted))


@given(fits)
def test_no_disk_is_given_twice_and_none_that_does_not_fit(wanted):
    found = assign_disks(wanted)
    if found is not None:
        assert len(set(found)) == len(wanted)
        assert all(disk in ok for disk, ok in zip(found, wanted, strict=True))


@given(fits)
def test_the_disks_taken_are_the_smallest(wanted):
    found = assign_disks(wanted)
    if found is not None:
        # Disks are numbered by size: no other way takes a set that is smaller, compared disk by disk.
        best = min(tuple(sorted(way)) for way in every_way(wanted))
        assert tuple(sorted(found)) == best
        assert found == min(way for way in every_way(wanted) if tuple(sorted(way)) == best)


def test_a_greedy_choice_would_fail():
    assert assign_disks([[0, 1], [0]]) == (1, 0)
    assert assign_disks([[0, 1, 2], [1], [0, 1]]) == (2, 1, 0)
    assert assign_disks([[0], [0]]) is None
    assert assign_disks([[]]) is None


items = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([100, 250, 400, 500, 1000]), st.frozensets(st.integers(0, 3), max_size=4)
    ),
    min_size=1,
    max_size=5,
)
shares = st.lists(st.sampled_from([0, 250, 500, 700, 1000]), min_size=4, max_size=4)


def possible(placed, wanted, free):
    left = list(free)
    used = set()
    for device, (claim, amount, ok) in zip(placed, wanted, strict=True):
        if device not in ok or (claim, device) in used:
            return False
        used.add((claim, device))
        left[device] -= amount
    return min(left) >= 0


@given(items, shares)
def test_shares_are_placed_exactly_when_they_can_be(wanted, free):
    found = assign_shares(wanted, free)
    ways = [way for way in product(range(4), repeat=len(wanted)) if possible(way, wanted, free)]
    assert (found is None) == (not ways)
    assert found is None or possible(found, wanted, free)


def test_the_fullest_device_that_takes_a_share_is_taken():
    every = frozenset(range(3))
    assert assign_shares([(0, 250, every)], [1000, 300, 500]) == (1,)
    assert assign_shares([(0, 1000, every), (1, 300, every)], [1000, 300, 500]) == (0, 1)


def test_many_alike_do_not_take_forever():
    every = frozenset(range(16))
    assert assign_shares([(0, 1000, every)] * 16, [1000] * 16) is not None
    assert assign_shares([(0, 1000, every)] * 16, [1000] * 15 + [999]) is None
    assert assign_shares([(claim, 501, every) for claim in range(17)], [1000] * 16) is None
