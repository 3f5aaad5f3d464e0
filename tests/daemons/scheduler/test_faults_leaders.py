"""A leader that is paused or sleeps, and thousands of events meanwhile. Pods arrive all the time (crowd)."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_scheduler import outside
from tests.daemons.controller.world import MIDST
from tests.daemons.scheduler.crowd import Crowd
from tests.daemons.scheduler.naughty import LABEL
from tests.daemons.scheduler.world import until
from tests.support.etcd import Etcd
from tests.support.outside import installed

pytestmark = [pytest.mark.slow, pytest.mark.promise]

#: Long enough that who is slow, but not paused, keeps it.
LEASE = {"leaderElect": True, "leaseDuration": "9s", "renewDeadline": "7s", "retryPeriod": "1s"}
#: Seconds: twice the lease.
ASLEEP = 18
EVENTS = 3_000
HERD = 16


def test_a_leader_that_is_paused_past_its_lease_steps_down(world, start, tmp_path):
    """Stopped in the middle of its work, awake again while the other one leads: it ends, and has bound nothing more."""
    crowd = Crowd(world, 12)
    file = world.configuration(tmp_path / "elected.yaml", leaderElection=LEASE)
    first = start(config=file, elect=True)
    second = start(config=file, elect=True, wait=False).says(" waits")
    crowd.arrive(12)
    until(world.locks, "no lock is taken", longest=MIDST)
    first.signal(signal.SIGSTOP)
    crowd.arrive(6)
    second.works()
    crowd.at_rest(second)
    first.signal(signal.SIGCONT)
    crowd.arrive(4)
    assert first.ended() == 1, first.text()
    assert " lost by " in first.text()
    # What it had asked for before it slept may have been answered since; of these it had never heard.
    for name in crowd.names[12:]:
        assert f"msg=bound pod={world.name}/{name} " not in first.text()
    crowd.at_rest(first, second)


def test_a_leader_that_a_plugin_puts_to_sleep_past_its_lease_steps_down(world, start, tmp_path):
    """A filter that sleeps stops the whole process: another leads, and the first ends as it wakes."""
    crowd = Crowd(world, 12)
    asleep = tmp_path / "asleep"
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "Naughty"}]}},
        "pluginConfig": [{"name": "Naughty", "args": {"seconds": ASLEEP, "once": str(asleep)}}],
    }
    file = world.configuration(tmp_path / "sleeping.yaml", profile, leaderElection=LEASE)
    environment = installed(tmp_path, outside.GROUP, "Naughty = tests.daemons.scheduler.naughty:Naughty")
    first = start(config=file, elect=True, environment=environment)
    second = start(config=file, elect=True, environment=environment, wait=False).says(" waits")
    crowd.arrive(6)
    world.pod("sleeps", labels={LABEL: "sleeps-once"})
    crowd.names.append("sleeps")
    until(asleep.exists, first.text)
    crowd.arrive(6)
    second.works()
    crowd.at_rest(second)
    assert first.ended() == 1, first.text()
    assert " lost by " in first.text()
    # Of the pods that came while it slept it had never heard; they are the other one's.
    for name in crowd.names[7:]:
        assert f"msg=bound pod={world.name}/{name} " not in first.text()
    crowd.arrive(4)
    crowd.at_rest(first, second)


def test_thousands_of_events_in_a_burst(world, start, plane):
    """Nodes change while pods arrive; the scheduler sleeps through half of it, and gets that at once."""
    if not hasattr(plane, "restart_apiserver"):
        pytest.skip("the tests never write into an existing cluster's etcd")
    crowd = Crowd(world, 16)
    with Etcd(plane) as etcd:
        herd = Herd(world, etcd)
        scheduler = start()
        herd.speak(EVENTS // 4)
        crowd.arrive(10)
        scheduler.signal(signal.SIGSTOP)
        crowd.arrive(10)
        herd.speak(EVENTS // 2)
        scheduler.signal(signal.SIGCONT)
        crowd.arrive(10)
        herd.speak(EVENTS // 4)
        crowd.at_rest(scheduler)
    assert scheduler.process.poll() is None


class Herd:
    """Nodes that nobody looks after; what is said of them goes past the API server, as fast as etcd takes it."""

    def __init__(self, world: Any, etcd: Etcd) -> None:
        self._etcd, self._says = etcd, []
        for number in range(HERD):
            name = f"{world.name}-far-{number}"
            capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
            status = {"capacity": capacity, "allocatable": capacity}
            body = {"metadata": {"name": name}, "spec": {"unschedulable": True}, "status": status}
            world.api.create(kinds.NODE, body)
            world.nodes.append(name)  # it goes with the world
            key = f"/registry/minions/{name}"
            before = etcd.get(key)
            world.api.patch(kinds.NODE, name, None, {"status": {"allocatable": {"cpu": "3"}}}, "status")
            self._says.append((key, before, etcd.get(key)))

    def speak(self, count: int) -> None:
        """So many updates of their status, each a change that the scheduler looks at."""
        for number in range(count):
            key, *values = self._says[number % HERD]
            self._etcd.put(key, values[number // HERD % 2])
