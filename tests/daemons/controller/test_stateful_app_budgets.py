"""A real controller updates a StatefulApp as PodDisruptionBudgets allow, whose own controller counts the pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.app_world import AppWorld, app_world
from tests.daemons.controller.world import until

pytestmark = pytest.mark.promise
COVERED = {"budget": "yes"}


@pytest.fixture
def apps(plane: Any, world: Any, nodes: list[str]) -> Iterator[AppWorld]:
    with app_world(plane, world, nodes) as made:
        made.disks(2)
        made.allow()
        yield made


def ask(apps: AppWorld, command: str, **strategy: Any) -> None:
    """Another command makes pods anew."""
    template = {**apps.template(), "metadata": {"labels": COVERED}}
    template["spec"]["containers"][0]["command"] = ["sleep", command]
    template["spec"]["tolerations"] = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    apps.apply(template=template, updateStrategy={"type": "SameNode", **strategy})


def budget(apps: AppWorld, least: int) -> None:
    spec = {"minAvailable": least, "selector": {"matchLabels": COVERED}}
    apps.api.create(kinds.POD_DISRUPTION_BUDGET, {"metadata": {"name": "few", "namespace": apps.name}, "spec": spec})

    def counted() -> bool:
        status = apps.api.get(kinds.POD_DISRUPTION_BUDGET, "few", apps.name).get("status") or {}
        return bool(status.get("currentHealthy") == 2 and status.get("observedGeneration") == 1)

    until(counted, "the budget's controller has not counted")


def other(apps: AppWorld) -> None:
    """A pod that the budget covers and no update touches; it is not Ready."""
    spec = {"containers": [{"name": "main", "image": "none:1"}], "nodeSelector": {"no": "where"}}
    apps.api.create(kinds.POD, {"metadata": {"name": "other", "namespace": apps.name, "labels": COVERED}, "spec": spec})


def commands(apps: AppWorld) -> list[str]:
    pods = [pod for name, pod in apps.pods().items() if name != "other"]
    return [pod["spec"]["containers"][0]["command"][1] for pod in pods]


def seconds_not_ready(apps: AppWorld) -> list[float]:
    """Of the replicas, the highest first, as the Event of the last update's end says it."""
    told = [note for reason, note in apps.world.events("db") if reason == "Updated"]
    return [float(one) for one in re.findall(r"\d: ([\d.]+) s", told[-1])] if told else [0]


def updated(apps: AppWorld, command: str) -> None:
    apps.ready(2)
    until(lambda: commands(apps) == [command] * 2, lambda: str(apps.status()))


def test_it_waits_for_a_budget_and_goes_past_one_that_never_allows_it(apps: AppWorld, start: Any) -> None:
    start("--no-leader-elect")
    ask(apps, "1")
    apps.ready(2)
    other(apps)
    budget(apps, 2)
    before = apps.uids()
    ask(apps, "2")
    told = f"PodDisruptionBudget {apps.name}/few to allow the disruption of pod db-1 (it allows 0 now, 2 of 3 pods"

    def waits() -> bool:
        one = apps.condition("Ready")
        words = "updateStrategy.disruptionBudgets: Ignore goes past it"
        return one.get("reason") == "Updating" and told in one["message"] and words in one["message"]

    until(waits, lambda: str(apps.status()))
    assert apps.uids() == before
    body = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    apps.api.patch(kinds.POD, "other", apps.name, body, "status")
    updated(apps, "2")
    assert not set(apps.uids().values()) & {uid for name, uid in before.items() if name != "other"}
    until(lambda: all(seconds_not_ready(apps)), lambda: str(apps.world.events("db")))

    apps.api.delete(kinds.POD, "other", apps.name)
    apps.api.delete(kinds.POD_DISRUPTION_BUDGET, "few", apps.name)
    budget(apps, 2)
    before = apps.uids()
    ask(apps, "3")
    apps.stalled("Blocked", f"PodDisruptionBudget {apps.name}/few never allows its disruption (2 of 2 pods have to be")
    assert apps.uids() == before
    assert apps.world.told("db", "Blocked", "go past it with updateStrategy.disruptionBudgets: Ignore")
    node = apps.pods()["db-1"]["spec"]["nodeName"]
    apps.api.patch(kinds.NODE, node, None, {"spec": {"unschedulable": True}})
    ask(apps, "3", disruptionBudgets="Ignore")
    told = f"node {node} to take pod db-1 back (it is cordoned: kubectl uncordon {node})"
    until(lambda: told in apps.condition("Ready").get("message", ""), lambda: str(apps.status()))
    assert apps.uids() == before
    apps.api.patch(kinds.NODE, node, None, {"spec": {"unschedulable": None}})
    updated(apps, "3")
    apps.check()
