"""Groups of pods on the real API server: all of them or none, and two groups that hold each other up come to an end."""

from __future__ import annotations

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.scheduler.world import until

pytestmark = pytest.mark.slow

GROUP = "pod-group.scheduling.sigs.k8s.io/"


def member(world, group: str, number: int, minimum: int, cpu: str = "500m") -> str:
    name = f"{group}-{number}"
    world.pod(name, cpu=cpu, labels={f"{GROUP}name": group, f"{GROUP}min-available": str(minimum)})
    return name


def groups(world, tmp_path, **args):
    config = [{"name": "Coscheduling", "args": args}] if args else []
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}, "pluginConfig": config}
    return world.configuration(tmp_path / "groups.yaml", profile)


def test_a_group_waits_for_its_members_and_is_then_bound_whole(world, start, tmp_path):
    world.node(cpu="2")
    start(config=groups(world, tmp_path))
    names = [member(world, "ring", number, 3) for number in range(2)]
    world.pod("alone")
    world.placed("alone")
    assert [world.where(name) for name in names] == ["", ""]
    names.append(member(world, "ring", 2, 3))
    world.placed(*names)


def test_of_two_groups_that_each_hold_half_one_goes_on(world, start, tmp_path):
    """Room for four, two groups of three: both cannot run. One does, the other waits with nothing held."""
    world.node(cpu="2")
    names = {group: [member(world, group, number, 3) for number in range(3)] for group in ("red", "blue")}
    start(config=groups(world, tmp_path, permitWaitingTimeSeconds=900))
    first = until(
        lambda: [group for group, members in names.items() if all(world.where(one) for one in members)],
        lambda: str([world.story_of(one) for listed in names.values() for one in listed]),
    )
    assert len(first) == 1
    (other,) = set(names) - set(first)
    assert not any(world.where(one) for one in names[other])
    # Nothing is held for those who wait: the room that is left is another pod's.
    world.pod("filler", cpu="500m")
    world.placed("filler")
    for name in (*names[first[0]], "filler"):
        world.delete(kinds.POD, name)
    world.placed(*names[other])


def test_who_waits_too_long_gives_its_place_back(world, start, tmp_path):
    """A member that cannot come (its gate is shut): the others are told, and their room is free meanwhile."""
    world.node(cpu="1")
    start(config=groups(world, tmp_path, permitWaitingTimeSeconds=2))
    name = member(world, "ring", 0, 2, cpu="800m")
    labels = {f"{GROUP}name": "ring", f"{GROUP}min-available": "2"}
    world.pod("ring-1", labels=labels, schedulingGates=[{"name": "it/shut"}])
    world.refused(name, "rejected due to timeout after waiting 2s at plugin Coscheduling")
