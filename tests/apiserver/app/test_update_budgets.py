"""An update waits for PodDisruptionBudgets: real API server and budgets' controller, and kwok for kubelets."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from tests.apiserver.app.runner import calm, run
from tests.apiserver.app.test_stateful_app import NODES, writes
from tests.apiserver.app.test_update import images, options, pods, uids, with_template
from tests.apiserver.app.world import local_disk
from tests.dev.hosts_help import eventually

pytestmark = pytest.mark.promise
ANEW = {"command": ["sleep", "1"], "image": "berth.local/busybox:1"}
NAME = "PodDisruptionBudget default/db"
#: A pod that the budgets cover and no update touches.
OTHER = {"metadata": {"name": "other", "namespace": "default", "labels": {"budget": "yes"}}}


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    app_world.client.delete(app_world.kinds.POD, "other", "default")
    for budget in app_world.client.list(app_world.kinds.POD_DISRUPTION_BUDGET, "default"):
        app_world.client.delete(app_world.kinds.POD_DISRUPTION_BUDGET, budget["metadata"]["name"], "default")
    app_world.clear()


def budget(world, allowed, **spec):
    """One for the app, when its controller has counted the pods."""
    kind = world.kinds.POD_DISRUPTION_BUDGET
    world.client.delete(kind, "db", "default")
    spec = {"selector": {"matchLabels": {"budget": "yes"}}, **spec}
    made = world.client.create(kind, {"metadata": {"name": "db", "namespace": "default"}, "spec": spec})

    def counted():
        live = world.client.get(kind, "db", "default")
        status = live.get("status") or {}
        assert live["metadata"]["uid"] == made["metadata"]["uid"]
        return status.get("observedGeneration") == 1 and status.get("disruptionsAllowed") == allowed

    eventually(counted, 30, "the budget's controller to count")


def covered(kubeconfig, **values):
    return with_template(options(kubeconfig, **values), labels={"budget": "yes"}, image="berth.local/busybox:1")


@contextmanager
def allowed_after(seconds, world):
    """The other pod is Ready after that time, so that one of the app may go."""
    timer = threading.Timer(seconds, other_is_ready, [world])
    timer.start()
    try:
        yield
    finally:
        timer.join(30)


def other(world):
    """It runs on no node, and is not Ready until somebody says so."""
    spec = {"containers": [{"name": "main", "image": "none:1"}], "nodeSelector": {"no": "where"}}
    world.client.create(world.kinds.POD, {**OTHER, "spec": spec})


def other_is_ready(world):
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    world.client.patch(world.kinds.POD, "other", "default", {"status": status}, "status")


@pytest.mark.parametrize("change", [ANEW, {}], ids=["anew", "in place"])
def test_nothing_is_touched_before_the_budget_allows_it(world, kubeconfig, change):
    first = covered(kubeconfig, replicas=2)
    calm(run(first))
    other(world)
    budget(world, 0, minAvailable=2)
    before, second = uids(world), with_template(first, labels={"budget": "yes"}, **change)
    seen = run(second, check=True)
    assert [row["forbidden_by"] for row in seen["updated"]] == [["default/db"], ["default/db"]]
    assert f"; forbidden now by {NAME}" in seen["diff"]["after"]["objects"]["Pod default/db-1"]
    stuck = run({**second, "wait_timeout": 2})
    assert stuck["failed"]
    told = f"{NAME} to allow the disruption of pod db-1 (it allows 0 now, 2 of 3 pods are healthy, 2 have to be; "
    assert told + "disruption_budgets: ignore goes past it)" in stuck["msg"]
    assert (uids(world), images(world)) == (before, ["berth.local/busybox:1"] * 2)

    with allowed_after(2, world):
        done = calm(run(second))
    assert [row["pod"] for row in done["updated"]] == ["db-1", "db-0"]
    same = {name for name, uid in uids(world).items() if before[name] == uid}
    assert (len(same), images(world)) == ((0, ["berth.local/busybox:1"] * 2) if change else (2, [images(world)[0]] * 2))
    again = calm(run(second))
    assert (again["changed"], writes(again)) == (False, {})
    world.check()


def test_a_budget_of_one_replica_is_refused_and_may_be_ignored(world, kubeconfig):
    first = covered(kubeconfig, replicas=1)
    calm(run(first))
    budget(world, 0, minAvailable=1)
    second = with_template(first, labels={"budget": "yes"}, **ANEW)
    for check in (True, False):
        refused = run(second, check=check)
        assert refused["failed"]
        assert f"{NAME} never allows its disruption (1 of 1 pods have to be healthy)" in refused["msg"]
        assert "go past it with disruption_budgets: ignore. Nothing was changed" in refused["msg"]
        assert writes(refused) == {}
    before = uids(world)
    done = calm(run({**second, "disruption_budgets": "ignore"}))
    assert (done["updated"][0]["forbidden_by"], uids(world) == before) == ([], False)
    assert pods(world)["db-0"]["spec"]["containers"][0]["command"] == ["sleep", "1"]


def test_bare_pods_are_evicted_too(world, kubeconfig):
    first = covered(kubeconfig, replicas=2, workload="Pod")
    calm(run(first))
    budget(world, 1, minAvailable=1)
    before = uids(world)
    done = calm(run({**with_template(first, labels={"budget": "yes"}, **ANEW), "max_unavailable": "2"}))
    assert not set(uids(world).values()) & set(before.values())
    assert "delete" not in writes(done)


def test_no_pod_goes_while_its_node_takes_none_back(world, kubeconfig):
    """The node is cordoned in the middle of an update, when that has been found to fit."""
    first = covered(kubeconfig, replicas=2)
    calm(run(first))
    before, second = uids(world), with_template(first, labels={"budget": "yes"}, **ANEW)
    node = pods(world)["db-0"]["spec"]["nodeName"]

    def close():
        eventually(lambda: uids(world).get("db-1", before["db-1"]) != before["db-1"], 30, "db-1 to be made anew")
        world.client.patch(world.kinds.NODE, node, None, {"spec": {"unschedulable": True}})

    closing = threading.Thread(target=close)
    closing.start()
    try:
        stuck = run({**second, "wait_timeout": 4, "min_ready_seconds": 3})
        assert stuck["failed"]
        assert f"node {node} to take pod db-0 back (it is cordoned: kubectl uncordon {node})" in stuck["msg"]
        assert uids(world)["db-0"] == before["db-0"]
    finally:
        closing.join(40)
        world.client.patch(world.kinds.NODE, node, None, {"spec": {"unschedulable": None}})
    done = calm(run(second))
    assert [row["pod"] for row in done["updated"]] == ["db-0"]
    assert not set(uids(world).values()) & set(before.values())
