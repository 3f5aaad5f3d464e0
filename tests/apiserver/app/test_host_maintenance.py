"""A node is emptied of its pods with a berth, and they come home: real API server, Eviction API and controllers of
StatefulSets and budgets; kubelets are played by kwok."""

from __future__ import annotations

import itertools
import json
import time
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context
from ansible_collections.berth.stateful.plugins.module_utils._glue.host_maintenance import OPERATION
from ansible_collections.berth.stateful.plugins.module_utils._glue.maintenance import Leaving
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.maintenance_mark import (
    ANNOTATION,
    HELD,
    HOME,
)
from berth_cli.__main__ import main
from tests.apiserver.app.runner import calm, run, start
from tests.apiserver.app.world import local_disk, params
from tests.dev.hosts_help import eventually

pytestmark = [pytest.mark.slow, pytest.mark.promise]
NODES = ("fake-0", "fake-1", "fake-2")


@pytest.fixture
def world(app_world, kubeconfig):
    """Three replicas on three nodes, all Ready."""
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    app_world.options = params("db", kubeconfig, replicas=3, wait=True)
    calm(run(app_world.options))
    yield app_world
    for node in NODES:
        forget = {"metadata": {"annotations": {ANNOTATION: None}}, "spec": {"unschedulable": None}}
        app_world.client.patch(app_world.kinds.NODE, node, None, forget)
    for budget in app_world.client.list(app_world.kinds.POD_DISRUPTION_BUDGET, "default"):
        app_world.client.delete(app_world.kinds.POD_DISRUPTION_BUDGET, budget["metadata"]["name"], "default")
    app_world.clear()


def maintenance(kubeconfig, node, state="begun", **more):
    return {"node": node, "state": state, "kubeconfig": str(kubeconfig), "wait_timeout": 30, **more}


def act(kubeconfig, node, state="begun", check=False, **more):
    return run(maintenance(kubeconfig, node, state, **more), OPERATION, check=check)


def node_of(world, name):
    live = world.client.get(world.kinds.NODE, name)
    mark = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    return bool(live["spec"].get("unschedulable")), json.loads(mark) if mark else None


def pods(world):
    """name -> node; of one that waits None."""
    found = world.client.list(world.kinds.POD, "default", labels="berth.dev/app=db")
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in found}


def budget(world, **spec):
    """One for the app, when its controller has counted the pods."""
    selector = {"matchLabels": {"berth.dev/app": "db"}}
    body = {"metadata": {"name": "db", "namespace": "default"}, "spec": {"selector": selector, **spec}}
    world.client.create(world.kinds.POD_DISRUPTION_BUDGET, body)

    def counted():
        live = world.client.get(world.kinds.POD_DISRUPTION_BUDGET, "db", "default")
        return (live.get("status") or {}).get("currentHealthy") == 3

    eventually(counted, 30, "the budget's controller to count")


def unremarked(world):
    """The berths, without what their histories say."""
    return {name: _spoken(record) for name, record in world.berths("db").items()}


def _spoken(record):
    return record["spec"], record["status"]


def remarks(kubeconfig, name, capsys):
    """What `kubectl berth history` says of the replica's maintenances: (change, why)."""
    assert main(["history", name, "--output", "json", "--kubeconfig", str(kubeconfig)]) == 0
    rows = json.loads(capsys.readouterr().out)["history"]
    return [(row["to"], row["why"], row["by"]["component"]) for row in rows if "maintenance" in row["why"]]


def replica_on(world, node):
    return next(name for name, record in world.berths("db").items() if record["spec"]["nodeName"] == node)


def test_a_pod_leaves_holds_its_berth_and_comes_home(world, kubeconfig):
    name, holders, berths = replica_on(world, "fake-0"), world.holders(), world.berths("db")
    seen = calm(act(kubeconfig, "fake-0", check=True))
    assert (seen["changed"], seen["writes"], seen["refused"]) == (True, 0, [])
    (row,) = seen["pods"]
    assert (row["pod"], row["app"], row["workload"], row["budgets"]) == (name, "db", "StatefulSet db", [])
    assert (seen["diff"][0]["before"]["pods"], seen["diff"][0]["after"]["unschedulable"]) == ([f"default/{name}"], True)

    begun = calm(act(kubeconfig, "fake-0"))
    assert begun["pods"] == seen["pods"]
    closed, mark = node_of(world, "fake-0")
    assert (closed, mark["cordoned"], mark["state"]) == (True, True, "begun")
    eventually(lambda: name in pods(world), 30, "the StatefulSet's controller to make it anew")
    assert pods(world)[name] is None, "it waits for its node"
    assert (world.holders(), unremarked(world)) == (holders, {name: _spoken(one) for name, one in berths.items()})
    again = calm(act(kubeconfig, "fake-0"))
    assert (again["changed"], again["writes"]) == (False, 0)

    ended = calm(act(kubeconfig, "fake-0", "ended"))
    assert [row["pod"] for row in ended["pods"]] == [name]
    assert pods(world)[name] == "fake-0"
    assert node_of(world, "fake-0") == (False, None)
    again = calm(act(kubeconfig, "fake-0", "ended"))
    assert (again["changed"], again["writes"]) == (False, 0)
    world.check()


@pytest.mark.parametrize("budgeted", [True, False], ids=["a budget", "max_unavailable"])
def test_a_second_replica_of_an_app_does_not_go(world, kubeconfig, budgeted):
    if budgeted:
        budget(world, maxUnavailable=1)
    calm(act(kubeconfig, "fake-0"))
    word = "PodDisruptionBudget default/db allows 0 now" if budgeted else "no more than 1 may be away (max_unavailable)"
    seen = calm(act(kubeconfig, "fake-1", check=True))
    assert word in seen["refused"][0]
    assert word in seen["warnings"][0]
    refused = act(kubeconfig, "fake-1", wait_timeout=1)
    assert refused["failed"]
    assert (word in refused["msg"], refused["changed"], refused["writes"]) == (True, False, 0)
    assert node_of(world, "fake-1") == (False, None)
    calm(act(kubeconfig, "fake-0", "ended"))
    calm(act(kubeconfig, "fake-1"))
    calm(act(kubeconfig, "fake-1", "ended"))


def test_a_budget_that_never_allows_it_is_told_at_once(world, kubeconfig):
    budget(world, maxUnavailable=0)
    refused = act(kubeconfig, "fake-0", wait_timeout=600)
    assert "cannot be emptied: PodDisruptionBudget default/db allows 0 now, and never more than 0" in refused["msg"]
    assert (refused["writes"], node_of(world, "fake-0")) == (0, (False, None))


def test_the_api_server_has_the_last_word(world, kubeconfig):
    """Of a budget that was made after the run's look: what the eviction is answered is what the run waits for."""
    options = {**maintenance(kubeconfig, "fake-0"), "max_unavailable": 1, "evict_others": False}
    work = Leaving(Context(options, False, pytest.fail, environ={}), "me", "now")
    seen = work.look()
    assert work.refused_by_the_api_server(seen) == []
    budget(world, maxUnavailable=0)
    (told,) = work.refused_by_the_api_server(seen)
    assert told.startswith(f"pod default/{replica_on(world, 'fake-0')}: The disruption budget db needs 3 healthy pods")
    assert set(pods(world).values()) == set(NODES)


def test_killed_at_every_write_and_continued(world, kubeconfig):
    """Three writes each: cordon, history and eviction; opening, history and end. After one the cluster is as before the
    next."""
    holders = world.holders()
    for write, state in itertools.product((1, 2, 3), ("begun", "ended")):
        killed = run(maintenance(kubeconfig, "fake-0", state), OPERATION, kill_at=write)
        assert killed is None, (state, write)
        calm(act(kubeconfig, "fake-0", state))
        assert act(kubeconfig, "fake-0", state)["writes"] == 0, (state, write)
        assert node_of(world, "fake-0")[0] == (state == "begun")
        if state == "ended":
            assert node_of(world, "fake-0") == (False, None)
            assert set(pods(world).values()) == set(NODES)
    assert world.holders() == holders
    world.check()


def test_the_history_tells_that_a_pod_was_held_and_came_home(world, kubeconfig, capsys):
    name = replica_on(world, "fake-0")
    for number in range(2):
        time.sleep(number)  # a maintenance is named by the second in which it begins
        calm(act(kubeconfig, "fake-0"))
        since = node_of(world, "fake-0")[1]["since"]
        calm(act(kubeconfig, "fake-0"))
        calm(act(kubeconfig, "fake-0", "ended"))
        why = f"maintenance of Node fake-0 since {since}"
        told = remarks(kubeconfig, name, capsys)
        assert told[-2:] == [(HELD, why, "host_maintenance"), (HOME, why, "host_maintenance")]
    assert len(told) == 4
    assert remarks(kubeconfig, replica_on(world, "fake-1"), capsys) == []


def test_a_cordon_of_somebody_else_stays(world, kubeconfig):
    world.client.patch(world.kinds.NODE, "fake-0", None, {"spec": {"unschedulable": True}})
    calm(act(kubeconfig, "fake-0"))
    assert node_of(world, "fake-0")[1]["cordoned"] is False
    ended = calm(act(kubeconfig, "fake-0", "ended"))
    assert "was cordoned by somebody else" in ended["warnings"][0]
    assert node_of(world, "fake-0") == (True, None)


def test_two_hosts_at_once_take_no_two_replicas_away(world, kubeconfig, tmp_path):
    for round_ in range(3):
        go = tmp_path / f"go-{round_}"
        both = [start(maintenance(kubeconfig, node, wait_timeout=4), OPERATION, hold=go) for node in NODES[:2]]
        go.touch()
        results = {node: one.finish() for node, one in zip(NODES[:2], both, strict=True)}
        done = [node for node, result in results.items() if not result.get("failed")]
        assert len(done) == 1, results
        assert [node is None for node in pods(world).values()].count(True) <= 1
        (other,) = set(NODES[:2]) - set(done)
        assert node_of(world, other) == (False, None), "it was opened again"
        calm(act(kubeconfig, done[0], "ended"))


def test_bare_pods_and_pods_without_a_berth(world, kubeconfig):
    """One of the latter comes back to its node at once, cordoned or not: its template says so."""
    calm(run({**world.options, "state": "absent"}))
    calm(run({**world.options, "workload": "Pod"}))
    lone = uuid4().hex[:8]
    spec = {"containers": [{"name": "a", "image": "b"}], "terminationGracePeriodSeconds": 1}
    template = {"metadata": {"labels": {"lone": lone}}, "spec": {**spec, "nodeName": "fake-0"}}
    body = {"replicas": 1, "selector": {"matchLabels": {"lone": lone}}, "template": template}
    world.client.create(
        world.kinds.REPLICA_SET, {"metadata": {"name": f"a-{lone}", "namespace": "default"}, "spec": body}
    )
    world.client.create(world.kinds.POD, {**template, "metadata": {"name": f"b-{lone}", "namespace": "default"}})
    try:
        eventually(lambda: len(_others(act(kubeconfig, "fake-0", check=True), lone)) == 2, 30, "the ReplicaSet's pod")
        begun = calm(act(kubeconfig, "fake-0", evict_others=True))
        assert [one["evicted"] for one in _others(begun, lone)] == [True, False]
        assert any("bare pods are away until stateful_app" in text for text in begun["warnings"])
        assert any(f"default/b-{lone}" in text for text in begun["warnings"])
        ended = calm(act(kubeconfig, "fake-0", "ended"))
        assert ended["left"] == [f"default/{replica_on(world, 'fake-0')}"]
        calm(run({**world.options, "workload": "Pod"}))
        assert set(pods(world).values()) == set(NODES)
    finally:
        world.client.delete(world.kinds.REPLICA_SET, f"a-{lone}", "default")
        world.client.delete(world.kinds.POD, f"b-{lone}", "default")


def _others(result, lone):
    return [one for one in calm(result)["others"] if lone in one["pod"]]
