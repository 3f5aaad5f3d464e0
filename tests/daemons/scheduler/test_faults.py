"""A leader that is paused or sleeps, an API server that dies, watches that break, lost history, thousands of events.

Pods with local disks and pods without arrive meanwhile. After each: every pod is on a node, none was bound twice, no
disk is given twice, and behind each lock is a living Berth.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_scheduler import outside
from berth_scheduler.bundles import IN_FLIGHT, MOST
from berth_scheduler.scheduler import STREAK
from tests.daemons.scheduler.naughty import LABEL
from tests.daemons.scheduler.world import ACCOUNT, until
from tests.support.etcd import Etcd
from tests.support.outside import installed
from tests.support.tcp import Proxy, free_port

pytestmark = [pytest.mark.slow, pytest.mark.promise]

#: Long enough that who is slow, but not paused, keeps it.
LEASE = {"leaderElect": True, "leaseDuration": "9s", "renewDeadline": "7s", "retryPeriod": "1s"}
#: Seconds: twice the lease.
ASLEEP = 18
EVENTS = 6_000
HERD = 16
BACKLOG = 300
_WEBHOOKS = kinds.Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)


class Crowd:
    """Pods that arrive in turns, every other one with a claim for a disk of its own."""

    def __init__(self, world: Any, disks: int) -> None:
        self.world, self.names, self.claims = world, [], []
        self._came = 0
        world.storage_class(waits=True)
        for number in range(2):
            node = world.node(str(number), cpu="8")
            for index in range(disks // 2):
                world.disk(node, index)

    def arrive(self, count: int) -> None:
        for _number in range(count):
            name = f"p{self._came:02}"
            mine = [name] if self._came % 2 else []
            self._came += 1
            for claim in mine:
                self.world.claim(claim)
            self.world.pod(name, *mine)
            self.names.append(name)
            self.claims += mine

    def leave(self, name: str) -> None:
        """The pod goes; its claim, and so its disk, stays."""
        self.world.delete(kinds.POD, name)
        self.names.remove(name)

    def at_rest(self, *schedulers: Any) -> None:
        """Wait until all have arrived at their places, and look whether anything was done twice."""
        world = self.world
        nodes = dict(zip(self.names, world.placed(*self.names), strict=True))
        world.wait_bound(*self.claims)
        until(lambda: len(world.locks()) == len(self.claims), lambda: str(world.locks()))
        world.check()
        disks, locks = world.disks(), world.locks()
        assert sorted(lock["claim"] for lock in locks.values()) == sorted(self.claims)
        for disk, lock in locks.items():
            if lock["claim"] in nodes:
                assert disks[disk]["spec"]["nodeName"] == nodes[lock["claim"]], f"{lock['claim']} is not with its disk"
        text = "".join(one.text() for one in schedulers)
        for name in self.names:
            said = re.findall(rf"msg=bound pod={world.name}/{name} ", text)
            assert len(said) <= 1, f"{name} was bound {len(said)} times"
            told = [note for reason, note in world.events(name) if reason == "Scheduled"]
            assert len(set(told)) <= 1, told


def test_a_leader_that_is_paused_past_its_lease_steps_down(world, start, tmp_path):
    """Stopped in the middle of its work, awake again while the other one leads: it ends, and has bound nothing more."""
    crowd = Crowd(world, 12)
    file = world.configuration(tmp_path / "elected.yaml", leaderElection=LEASE)
    first = start(config=file, elect=True)
    second = start(config=file, elect=True, wait=False).says(" waits")
    crowd.arrive(12)
    until(world.locks, "no lock is taken")
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


def test_an_api_server_that_is_killed_in_mid_stream(world, start, plane):
    if not hasattr(plane, "restart_apiserver"):
        pytest.skip("the tests never restart an existing cluster's API server")
    crowd = Crowd(world, 12)
    crowd.arrive(12)
    scheduler = start()
    until(world.locks, "no lock is taken")
    plane.restart_apiserver(kill=True)
    crowd.arrive(10)
    crowd.at_rest(scheduler)
    assert scheduler.process.poll() is None


def test_watches_that_break_and_history_that_is_gone(world, start, plane):
    """Cut off three times while pods arrive; then away while the API server forgets what came and what went."""
    if not hasattr(plane, "restart_apiserver"):
        pytest.skip("the tests never restart an existing cluster's API server")
    crowd = Crowd(world, 16)
    content = yaml.safe_load(plane.kubeconfig.read_text())
    server = urlsplit(content["clusters"][0]["cluster"]["server"])
    with Proxy(server.hostname or "", server.port or 443) as network:
        scheduler = start(server=f"https://127.0.0.1:{network.port}")
        for _turn in range(3):
            crowd.arrive(6)
            network.cut()
        crowd.at_rest(scheduler)
        network.refuse = True
        network.cut()
        crowd.leave("p02")
        crowd.leave("p03")
        crowd.arrive(6)
        plane.restart_apiserver(kill=True)
        network.refuse = False
        scheduler.says("listing again")
        crowd.at_rest(scheduler)


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


def test_a_bind_that_a_restored_etcd_does_not_know(world, start, plane, request):
    """The pod is as before, under a scheduler that has placed it: it is placed again, in the room that it had."""
    if not hasattr(plane, "restart_apiserver"):
        pytest.skip("the tests never write into an existing cluster's etcd")
    # kube-scheduler ends itself when a pod loses its node ("SchedulerCache is corrupted"); later tests have it again.
    request.addfinalizer(lambda: (plane.stop_component("kube-scheduler"), plane.start_component("kube-scheduler")))
    world.node(cpu="1")
    world.pod("a", cpu="800m")
    key, bound = f"/registry/pods/{world.name}/a", f"msg=bound pod={world.name}/a "
    with Etcd(plane) as etcd:
        before = etcd.get(key)
        scheduler = start()
        until(lambda: scheduler.text().count(bound) == 1, scheduler.text)
        etcd.put(key, before)
    until(lambda: scheduler.text().count(bound) == 2, scheduler.text)
    world.placed("a")


def test_a_backlog_behind_an_api_server_that_is_slow(world, start):
    """An admission webhook that never answers holds each bind: what is decided is a little more than can be sent."""
    for number in range(3):
        world.node(str(number))
    for number in range(BACKLOG):
        world.pod(f"p{number:03}", cpu="10m")
    port, deaf = free_port(), socket.create_server(("127.0.0.1", 0))
    hook = _holding_binds(world.name, deaf.getsockname()[1])
    world.api.create(_WEBHOOKS, hook)
    try:
        scheduler = start("--port", str(port))
        until(lambda: _assumed(port) > MOST, "nothing is decided")
        most = 0
        for _look in range(20):
            time.sleep(0.1)
            most = max(most, _assumed(port))
        assert most <= IN_FLIGHT + MOST + STREAK
    finally:
        world.api.delete(_WEBHOOKS, world.name, None)
        deaf.close()
    names = [f"p{number:03}" for number in range(BACKLOG)]
    world.placed(*names)
    # Each bind was asked for once, and nothing else was written of the pods by this client.
    assert _counted(port, 'berth_api_requests_total{code="201",verb="create"}') == BACKLOG
    assert _counted(port, 'berth_api_requests_total{code="200",verb="patch"}') == 0
    text = scheduler.text()
    assert sorted(re.findall(rf"msg=bound pod={world.name}/(\S+) ", text)) == names
    assert 'msg="not placed"' not in text


def _assumed(port: int) -> int:
    return _counted(port, 'scheduler_cache_size{type="assumed_pods"}')


def _counted(port: int, series: str) -> int:
    """The series as the scheduler shows it; 0 for one that it has not begun."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        found = re.search(rf"^{re.escape(series)} (\d+)", answer.read().decode(), re.MULTILINE)
    return int(found.group(1)) if found else 0


def _holding_binds(name: str, port: int) -> dict[str, Any]:
    """A webhook of one namespace whose server accepts and says nothing; the API server goes on after four seconds."""
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "deaf.berth.dev",
                "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"], "operations": ["CREATE"]}
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "failurePolicy": "Ignore",
                "timeoutSeconds": 4,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


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


def test_a_server_that_refuses_to_say_whether_a_pod_was_bound(world, start, tmp_path):
    """As one does that has just started, and has not read its roles: the pods' room is kept until somebody knows."""
    crowd = Crowd(world, 12)
    crowd.arrive(12)
    lost = tmp_path / "lost"
    lost.touch()
    with without_get_of_pods(world):
        scheduler = start(module="tests.daemons.scheduler.unanswered", environment={"LOST": str(lost)})
        scheduler.says("not known whether it was bound").says("RBAC does not allow it (verb get on pods")
        lost.unlink()
        crowd.arrive(4)
        world.placed(*crowd.names[12:])  # all that was decided before had been sent by then, or lost
        assert not _given_back(scheduler, crowd.names[:12])
    crowd.at_rest(scheduler)
    assert _given_back(scheduler, crowd.names[:12])  # those that never left


def _given_back(scheduler: Any, names: Sequence[str]) -> list[str]:
    """Of these pods, those that were not placed. A later one may have been seen before its claim."""
    said = [line for line in scheduler.text().splitlines() if 'msg="not placed"' in line]
    return [name for name in names if any(f"/{name} " in line for line in said)]


@contextlib.contextmanager
def without_get_of_pods(world: Any) -> Iterator[None]:
    """The scheduler's role without what it needs to read one pod."""
    _of_pods(world, lambda verbs: [verb for verb in verbs if verb != "get"])
    try:
        yield
    finally:
        _of_pods(world, lambda verbs: ["get", *verbs])


def _of_pods(world: Any, verbs: Callable[[list[str]], list[str]]) -> None:
    role = world.api.get(kinds.CLUSTER_ROLE, ACCOUNT)
    for rule in role["rules"]:
        if rule["resources"] == ["pods"]:
            rule["verbs"] = verbs(rule["verbs"])
    world.api.replace(kinds.CLUSTER_ROLE, role)
