"""The queue of waiting pods: order, backoff, gates, hints, and nothing lost while a pod is in flight.

Times are made up: the queue is told what time it is.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.framework.contract import SUCCESS, unresolvable
from berth_core.framework.events import ASSIGNED_POD, NODE, Action, Change, ClusterEvent, Wish
from berth_core.framework.queue import LEFTOVER_AFTER, Rules, SchedulingQueue
from berth_core.model.pod import PodInfo
from berth_core.plugins.queue_order import PrioritySort, SchedulingGates
from tests.core.cluster.objects import pod

PROFILE = "it"
NODE_ADDED = Change(ClusterEvent(NODE, Action.ADD))
POD_GONE = Change(ClusterEvent(ASSIGNED_POD, Action.DELETE))
WISHES = {
    "Fit": (Wish(ClusterEvent(NODE, Action.ADD)),),
    "Picky": (Wish(ClusterEvent(NODE, Action.ADD), lambda one, _change: one.name == "liked"),),
    "Broken": (Wish(ClusterEvent(NODE, Action.ADD), lambda _one, _change: 1 // 0 == 0),),
    "Room": (Wish(ClusterEvent(ASSIGNED_POD, Action.DELETE)),),
    "SchedulingGates": (Wish(ClusterEvent("UnschedulablePod", Action.POD_GATES_ELIMINATED)),),
}


def waiting(name: str, priority: int = 0, **spec: object) -> PodInfo:
    made = pod(name, priority=priority, **spec)
    made["metadata"]["uid"] = f"uid-{name}"
    return PodInfo.from_manifest(made)


GATES = (("SchedulingGates", SchedulingGates()),)


def queue(gates=GATES) -> SchedulingQueue:
    return SchedulingQueue(Rules(PrioritySort().queue_key, {PROFILE: gates}, {PROFILE: WISHES}))


def refused(one: SchedulingQueue, now: float, *plugins: str, pending: bool = False):
    """Pop the next pod, and refuse it."""
    popped = one.pop(now)
    assert popped is not None
    popped.refused_by = frozenset() if pending else frozenset(plugins)
    popped.pending = frozenset(plugins) if pending else frozenset()
    one.refused(popped, now)
    return popped


def names(one: SchedulingQueue, now: float) -> list[str]:
    """Everything that may be tried now, in order."""
    found = []
    while (popped := one.pop(now)) is not None:
        found.append(popped.pod.name)
    return found


def test_priority_first_then_who_came_first():
    one = queue()
    for at, (name, priority) in enumerate([("old", 0), ("new", 0), ("high", 5)]):
        one.add(waiting(name, priority), PROFILE, float(at))
    assert names(one, 9.0) == ["high", "old", "new"]


def test_a_refused_pod_waits_for_what_its_plugin_listens_to():
    one = queue()
    one.add(waiting("a"), PROFILE, 0.0)
    refused(one, 10.0, "Fit")
    one.changed(POD_GONE, 100.0)
    assert one.counts()["unschedulable"] == 1
    one.changed(NODE_ADDED, 100.0)
    assert one.counts()["active"] == 1


def test_a_hint_decides_for_its_pod_and_one_that_fails_says_yes():
    one = queue()
    for name in ("liked", "other"):
        one.add(waiting(name), PROFILE, 0.0)
    refused(one, 1.0, "Picky")
    refused(one, 1.0, "Picky")
    one.add(waiting("third"), PROFILE, 1.0)
    refused(one, 1.0, "Broken")
    one.changed(NODE_ADDED, 100.0)
    assert sorted(names(one, 100.0)) == ["liked", "third"]


@pytest.mark.parametrize("plugins", [("Fit",), ()], ids=["refusals", "errors"])
def test_backoff_doubles_and_is_rounded_down_to_whole_seconds(plugins):
    one = queue()
    one.add(waiting("a"), PROFILE, 0.0)
    waited = []
    now = 100.5
    for _attempt in range(6):
        refused(one, now, *plugins)
        one.changed(NODE_ADDED, now)
        assert one.counts()["backoff"] == 1
        freed = now
        while one.counts()["backoff"]:
            freed += 0.25
            one.flush(freed)
        waited.append(freed - now)
        now = freed + 0.5 - freed % 1
        now += 0.0 if now >= freed else 1.0
    # From x.5 a backoff of n seconds ends with the window in which x.5 + n lies.
    assert waited == [1.5, 2.5, 4.5, 8.5, 10.5, 10.5]


def test_who_is_held_back_is_tried_early_when_nothing_else_is_to_do_but_not_after_an_error():
    one = queue()
    one.add(waiting("a"), PROFILE, 0.0)
    refused(one, 1.0, "Fit")
    one.changed(NODE_ADDED, 1.0)
    assert names(one, 1.0) == ["a"]
    two = queue()
    two.add(waiting("b"), PROFILE, 0.0)
    refused(two, 1.0)
    assert two.counts()["backoff"] == 1
    assert names(two, 1.0) == []
    two.flush(3.0)
    assert names(two, 3.0) == ["b"]


def test_what_happens_in_flight_counts_when_the_pod_comes_back():
    one = queue()
    one.add(waiting("a"), PROFILE, 0.0)
    popped = one.pop(10.0)
    one.changed(POD_GONE, 10.1)
    one.changed(NODE_ADDED, 10.2)
    assert one.kept_changes() == 2
    popped.refused_by = frozenset({"Fit"})
    one.refused(popped, 10.3)
    assert one.counts()["backoff"] == 1
    assert one.kept_changes() == 0


def test_what_happened_before_the_flight_does_not_count():
    one = queue()
    one.add(waiting("a"), PROFILE, 0.0)
    one.add(waiting("b"), PROFILE, 0.0)
    first = one.pop(1.0)
    one.changed(NODE_ADDED, 2.0)
    second = one.pop(3.0)
    second.refused_by = frozenset({"Fit"})
    one.refused(second, 4.0)
    assert one.counts()["unschedulable"] == 1
    assert one.kept_changes() == 1, "the first one is still under way"
    one.done(first.pod.uid)
    assert one.kept_changes() == 0


def test_a_gated_pod_waits_until_its_last_gate_is_gone():
    one = queue()
    gated = waiting("a", schedulingGates=[{"name": "quota"}])
    one.add(gated, PROFILE, 0.0)
    one.changed(NODE_ADDED, 1.0)
    assert one.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1, "inflight": 0}
    one.update(replace(gated, gates=()), PROFILE, 2.0)
    assert names(one, 2.0) == ["a"]


def test_a_gate_that_shuts_while_a_pod_is_held_back_is_seen():
    class Gate:
        shut = False

        def pre_enqueue(self, _pod):
            return unresolvable("shut") if self.shut else SUCCESS

    gate = Gate()
    one = queue((("Fit", gate),))
    one.add(waiting("a"), PROFILE, 0.0)
    refused(one, 1.0, "Fit")
    gate.shut = True
    one.changed(NODE_ADDED, 50.0)
    assert one.counts()["gated"] == 1
    gate.shut = False
    one.changed(NODE_ADDED, 51.0)
    assert names(one, 51.0) == ["a"]


def test_a_plugin_that_waits_for_somebody_needs_no_backoff():
    one = queue()
    one.add(waiting("a"), PROFILE, 0.0)
    refused(one, 1.0, "Fit", pending=True)
    one.changed(NODE_ADDED, 1.0)
    assert one.counts()["active"] == 1


def test_who_was_missed_is_tried_again_in_the_end():
    one = queue()
    one.add(waiting("a"), PROFILE, 0.0)
    refused(one, 1.0, "Fit")
    one.flush(LEFTOVER_AFTER)
    assert one.counts()["unschedulable"] == 1
    one.flush(LEFTOVER_AFTER + 2.0)
    assert names(one, LEFTOVER_AFTER + 2.0) == ["a"]


def test_a_pod_that_is_gone_stays_gone():
    one = queue()
    one.add(waiting("a"), PROFILE, 0.0)
    one.add(waiting("b"), PROFILE, 0.0)
    one.remove("uid-a")
    popped = one.pop(1.0)
    one.remove("uid-b")
    one.done(popped.pod.uid)
    assert not one.knows("uid-a")
    assert not one.knows("uid-b")


def test_new_facts_of_a_pod_in_flight_are_those_it_comes_back_with():
    one = queue()
    gated = waiting("a")
    one.add(gated, PROFILE, 0.0)
    popped = one.pop(1.0)
    one.update(replace(gated, priority=7), PROFILE, 1.5)
    popped.refused_by = frozenset({"Fit"})
    one.refused(popped, 2.0)
    assert popped.pod.priority == 7


class Game:
    """Moves of the outside world, and what must hold after each."""

    def __init__(self):
        self.one, self.alive, self.flying, self.now = queue(), {}, {}, 0.0

    def add(self, number):
        uid = f"uid-p{number}"
        if uid not in self.alive:
            self.alive[uid] = waiting(f"p{number}", number % 2)
            self.one.add(self.alive[uid], PROFILE, self.now)

    def pop(self, _number):
        popped = self.one.pop(self.now)
        if popped is not None:
            self.flying[popped.pod.uid] = popped

    def refuse(self, number, plugins=frozenset({"Fit"})):
        popped = self.flying.pop(f"uid-p{number}", None)
        if popped is not None:
            popped.refused_by = plugins
            self.one.refused(popped, self.now)

    def error(self, number):
        self.refuse(number, frozenset())

    def bound(self, number):
        uid = f"uid-p{number}"
        if self.flying.pop(uid, None) is not None:
            self.alive.pop(uid)
            self.one.done(uid)
            self.one.remove(uid)

    def delete(self, number):
        uid = f"uid-p{number}"
        if uid not in self.flying:
            self.alive.pop(uid, None)
            self.one.remove(uid)

    def node(self, _number):
        self.one.changed(NODE_ADDED, self.now)

    def gone(self, _number):
        self.one.changed(POD_GONE, self.now)

    def activate(self, number):
        self.one.activate([f"uid-p{number}"])

    def flush(self, _number):
        self.one.flush(self.now)

    def holds(self):
        counts = self.one.counts()
        assert sum(counts.values()) == len(self.alive)
        assert counts["inflight"] == len(self.flying)
        assert all(self.one.knows(uid) for uid in self.alive)

    def end(self):
        for number in range(6):
            self.refuse(number)
        for rounds in (2, 3):
            self.one.flush(self.now + rounds * LEFTOVER_AFTER)
        assert sorted(names(self.one, self.now + 3 * LEFTOVER_AFTER)) == sorted(one.name for one in self.alive.values())


MOVES = ("add", "pop", "refuse", "error", "bound", "node", "gone", "flush", "delete", "activate")


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 5)), max_size=60))
def test_no_pod_is_ever_lost_or_twice(moves):
    """Whatever comes in whatever order: each pod that is alive is in exactly one place, and can still be placed."""
    game = Game()
    for move, number in moves:
        game.now += 0.7
        getattr(game, move)(number)
        game.holds()
    game.end()
