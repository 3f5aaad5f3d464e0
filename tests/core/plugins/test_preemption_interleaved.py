"""Preemption in every order of what happens beside it: a pod that needs the room of one ends one, and no other.

The engine is real; what the daemon does around it is followed here step by step: a pod is tried again once the news of
its victims has come (its gate), and what was decided comes back by the watch some time later, or never.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.cycle import place
from berth_core.framework.dry_run import post_filter
from berth_core.framework.nominated import Nominations
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import make_profile
from tests.core.cluster.objects import container, node, pod

#: Which node is disturbed depends on where the search starts, as it does where nodes are many.
PROFILE = make_profile(args={"DefaultPreemption": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}})
CPU = 2


class World:
    """`nodes` full of pods, each of which has the size of those that are `urgent`."""

    def __init__(self, nodes, urgent):
        full = [(f"low-{number}-{slot}", f"n{number}") for number in range(nodes) for slot in range(CPU)]
        self.snapshot = Snapshot.from_objects(
            nodes=[node(f"n{number}", cpu=str(CPU)) for number in range(nodes)],
            pods=[pod(name, [container("1")], node_name=where) for name, where in full],
        )
        self.nominations = Nominations()
        self.waiting = {name: read(name) for name in (f"urgent-{number}" for number in range(urgent))}
        self.victims: dict[str, set[str]] = {name: set() for name in self.waiting}
        self.words: dict[str, list[str]] = {name: [] for name in self.waiting}
        self.ended: set[str] = set()
        self.news: set[str] = set()

    def moves(self):
        """Return what may happen next."""
        tries = [(self.attempt, name) for name in self.waiting if not self.victims[name] & self.news]
        words = [(self.heard, name) for name in self.waiting if self.words[name]]
        return [*tries, *((self.told, name) for name in sorted(self.news)), *words]

    def attempt(self, name, offset=0):
        info = self.nominations.of(self.waiting[name])
        request, nominated = PlacementRequest(info), self.nominations.by_node
        outcome = place(PROFILE, self.snapshot, request, hints=False, nominated=nominated)
        if outcome.placement is not None:
            self.snapshot.put_pod(read(name, node_name=outcome.placement.node))
            self.nominations.remove(info.uid)
            del self.waiting[name]
            return
        found = post_filter(PROFILE, self.snapshot, request, outcome.diagnosis, offset, nominated)
        self.victims[name] = {one.name for one in found.victims}
        self.news |= self.victims[name] - self.ended
        self.ended |= self.victims[name]
        if found.node is not None and self.nominations.decide(self.waiting[name], found.node):
            self.words[name].append(found.node)

    def told(self, name, _offset=0):
        """The watch tells that a victim is gone."""
        self.news.discard(name)
        self.snapshot.remove_pod("default", name)

    def heard(self, name, _offset=0):
        """The watch tells the next of what was written."""
        old = self.waiting[name]
        self.waiting[name] = new = read(name, nominated=self.words[name].pop(0))
        self.nominations.update(old, new)


def read(name, node_name="", nominated=""):
    found = pod(name, [container("1")], node_name=node_name, priority=10)
    return PodInfo.from_manifest({**found, "status": {"nominatedNodeName": nominated}})


@settings(max_examples=100, deadline=None)
@example(2, 2, [(0, 0), (1, 0), (1, 0), (0, 1)])
@given(st.integers(1, 3), st.integers(1, 4), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), max_size=30))
def test_nobody_is_ended_without_need(nodes, urgent, order):
    urgent = min(urgent, nodes * CPU)
    world = World(nodes, urgent)
    for number, offset in order:
        moves = world.moves()
        if moves:
            do, name = moves[number % len(moves)]
            do(name, offset)
    for _round in range(3 * urgent):  # and then everything that is left, until all is quiet
        for do in (world.told, world.attempt):
            for move, name in world.moves():
                if move == do:
                    do(name)
    assert not world.waiting
    assert len(world.ended) == urgent
