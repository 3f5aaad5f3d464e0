"""Groups that are held back: one failure for all members of a moment, longer each time, woken once."""

from __future__ import annotations

from berth_scheduler.groups import HeldBack

RING = ("default", "ring")


def test_members_that_fail_together_are_one_failure():
    held = HeldBack()
    held.failed(RING, 100.0, "ring-2: no room")
    held.failed(RING, 100.5, "ring-0: ring-2 has no place")
    assert held.holds(RING, 100.9) == "ring-2: no room"
    assert not held.holds(RING, 101.0)
    assert not held.holds(("default", "other"), 100.9)
    assert not held.holds(None, 100.9)


def test_it_lasts_longer_each_time_until_the_group_is_placed():
    held = HeldBack()
    now, lasted = 0.0, []
    for _number in range(6):
        held.failed(RING, now, "no room")
        end = next(at / 10 for at in range(int(now * 10), 10_000) if not held.holds(RING, at / 10))
        lasted.append(end - now)
        now = end
    assert lasted == [1, 2, 4, 8, 10, 10]
    held.placed(RING)
    held.failed(RING, now, "no room")
    assert not held.holds(RING, now + 1.0)


def test_its_members_are_woken_once():
    held = HeldBack()
    held.failed(RING, 5.0, "no room")
    assert held.due(5.9) == []
    assert held.due(6.0) == [RING]
    assert held.due(7.0) == []
    held.failed(RING, 7.0, "no room")
    held.gone(RING)
    assert held.due(99.0) == []
