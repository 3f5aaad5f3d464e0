"""Binds that go out in one piece: fewer requests' worth of work, and no pod bound twice or lost for it."""

from __future__ import annotations

import re

import pytest

from berth_scheduler.bundles import MANY, MOST
from tests.daemons.scheduler.world import until

pytestmark = [pytest.mark.slow, pytest.mark.promise]

PIECES = "tests.daemons.scheduler.pieces"
CROWD = 120


def crowd(world, count=CROWD):
    """Pods that wait before the scheduler comes, on nodes with just enough room for them."""
    for number in range(3):
        world.node(str(number), cpu=str(count // 30))
    names = [f"p{number:03}" for number in range(count)]
    for name in names:
        world.pod(name, cpu="100m")
    return names


def on_their_nodes(world, names):
    """All of them, and as many on each node as fit."""
    where = world.placed(*names)
    assert {node: where.count(node) for node in world.nodes} == dict.fromkeys(world.nodes, len(names) // 3)


def told_once(world, name):
    return [note for reason, note in world.events(name) if reason == "Scheduled"]


def test_a_crowd_is_bound_in_few_pieces_and_a_pod_that_comes_alone_alone(world, start):
    names = crowd(world, 90)
    scheduler = start(module=PIECES)
    on_their_nodes(world, names)
    pieces = [int(count) for count in re.findall(r"piece of (\d+) binds", scheduler.text())]
    assert sum(pieces) > len(names) // 2
    assert len(pieces) <= -(-sum(pieces) // MANY)  # all may be decided before the first answer; the last takes the rest
    assert max(pieces) <= MOST
    until(lambda: all(len(told_once(world, name)) == 1 for name in names), "an event is missing")
    world.node("more")
    world.pod("alone", cpu="100m")
    world.placed("alone")
    again = re.findall(r"piece of (\d+) binds", scheduler.text())
    assert len(again) == len(pieces)


@pytest.mark.parametrize("number", [1, 3])
def test_a_death_in_the_midst_of_a_piece(world, start, number):
    """Some of it was carried out, some not, and nobody has read the answers: the next one finds each pod as it is."""
    names = crowd(world)
    died = start(module=PIECES, environment={"DIE_IN": str(number)}, wait=False)
    until(lambda: died.process.poll() == -9, died.text)
    next_one = start()
    on_their_nodes(world, names)
    bound = re.findall(rf"msg=bound pod={world.name}/(\S+) ", next_one.text())
    assert len(bound) == len(set(bound))
