"""For how long a node that was chosen in vain is hidden from the scheduler, and from whom."""

from __future__ import annotations

from collections.abc import Hashable

from berth_controller.held_back import SECONDS, SHOWN, HeldBack


class Clock:
    """The time, and the claims that are bound or gone."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.settled: set[Hashable] = set()
        self.held = HeldBack(self.settled.__contains__, lambda: self.at)


def test_a_node_is_hidden_until_its_claims_are_settled() -> None:
    clock = Clock()
    clock.held.put("n1", "fast", ["a", "b"])
    assert clock.held.places() == {("n1", "fast")}
    assert clock.held.seconds() == SECONDS
    clock.settled.add("a")
    assert clock.held.places() == {("n1", "fast")}
    clock.settled.add("b")
    assert clock.held.places() == set()
    assert not clock.held


def test_a_claim_that_fits_nowhere_does_not_hide_a_node_for_ever() -> None:
    clock = Clock()
    clock.held.put("n1", "fast", ["a"])
    clock.at += SECONDS
    assert clock.held.places() == set()
    assert clock.held.seconds() is None
    clock.held.put("n1", "fast", ["a"])  # sent there again, and away again
    assert clock.held.places() == set(), "the node is shown to the others for a while"
    clock.at += SHOWN
    clock.held.put("n1", "fast", ["a"])
    assert clock.held.places() == {("n1", "fast")}


def test_other_claims_may_hide_the_node_at_once() -> None:
    clock = Clock()
    clock.held.put("n1", "fast", ["a"])
    clock.at += SECONDS
    clock.held.put("n1", "fast", ["b"])
    assert clock.held.places() == {("n1", "fast")}
