"""An API server that dies, is slow or refuses, watches that break, lost history. Pods arrive meanwhile (crowd)."""

from __future__ import annotations

import contextlib
import re
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_scheduler.bundles import IN_FLIGHT, MOST
from berth_scheduler.scheduler import STREAK
from tests.daemons.controller.world import MIDST
from tests.daemons.scheduler.crowd import Crowd
from tests.daemons.scheduler.world import ACCOUNT, until
from tests.support.etcd import Etcd
from tests.support.tcp import Proxy, free_port

pytestmark = [pytest.mark.slow, pytest.mark.promise]

BACKLOG = 300
_WEBHOOKS = kinds.Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)


def test_an_api_server_that_is_killed_in_mid_stream(world, start, plane):
    if not hasattr(plane, "restart_apiserver"):
        pytest.skip("the tests never restart an existing cluster's API server")
    crowd = Crowd(world, 12)
    crowd.arrive(12)
    scheduler = start()
    until(world.locks, "no lock is taken", longest=MIDST)
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
        until(lambda: _assumed(port) > MOST, "nothing is decided", longest=MIDST)
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
