"""For how long replicas were not Ready, as whoever looks now and then has seen it."""

from __future__ import annotations

from berth_core.app.downtime import Downtime


def test_the_times_in_which_a_replica_was_not_ready_are_added_up():
    clock = Downtime()
    clock.look({0: True, 1: True}, 10.0)
    clock.look({0: True, 1: False}, 11.0)
    clock.look({0: True, 1: False}, 12.0)
    assert clock.seconds(1) == 0.0, "it is not over"
    clock.look({0: True, 1: True}, 13.25)
    clock.look({0: True, 1: False}, 20.0)
    clock.look({0: True, 1: True}, 21.0)
    assert [clock.seconds(ordinal) for ordinal in (0, 1, 2)] == [0.0, 3.25, 0.0]
    assert clock.ordinals == {0, 1}
    assert clock.words() == "1: 3.25 s, 0: 0 s"


def test_of_many_replicas_those_that_were_down_for_longest_are_told_one_by_one():
    clock = Downtime()
    clock.look(dict.fromkeys(range(1000), False), 0.0)
    for ordinal in range(1000):
        clock.look({ordinal: True}, float(ordinal))
    words = clock.words()
    assert words.startswith("999: 999 s, 998: 998 s, ")
    assert words.endswith("980: 980 s, 980 others: 979 s at most")
    assert len(words) < 500
