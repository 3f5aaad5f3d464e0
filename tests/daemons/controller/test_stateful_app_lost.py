"""A StatefulApp rebuilds a replica whose node is lost: by the controller, once that is proven, and pauses an update
that has failed. kwok lets go of a node without its label: nobody confirms there that a pod has ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.app_world import AppWorld, app_world
from tests.daemons.controller.world import until

pytestmark = pytest.mark.promise
TAINT = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


@pytest.fixture
def apps(plane: Any, world: Any, nodes: list[str]) -> Iterator[AppWorld]:
    with app_world(plane, world, nodes) as made:
        yield made


def silent(apps: AppWorld, node: str) -> dict[str, Any]:
    """The node's kubelet is, and its pod is not Ready. Returns the node as it was."""
    before: dict[str, Any] = apps.api.get(kinds.NODE, node)
    apps.api.patch(kinds.NODE, node, None, {"metadata": {"labels": {"type": None}}})
    told = [
        {**one, "status": "Unknown", "reason": "NodeStatusUnknown"} if one["type"] == "Ready" else one
        for one in before["status"]["conditions"]
    ]
    apps.api.patch(kinds.NODE, node, None, {"status": {"conditions": told}}, "status")
    for name, pod in apps.pods().items():
        if pod["spec"]["nodeName"] == node:
            told = [
                {**one, "status": "False"} if one["type"] == "Ready" else one for one in pod["status"]["conditions"]
            ]
            apps.api.patch(kinds.POD, name, apps.name, {"status": {"conditions": told}}, "status")
    return before


def back(apps: AppWorld, node: dict[str, Any]) -> None:
    """The node is as it was, also where it was deleted meanwhile."""
    name = node["metadata"]["name"]
    live = apps.api.find(kinds.NODE, name)
    if live is None or live["metadata"]["uid"] != node["metadata"]["uid"]:
        if live is not None:
            apps.api.delete(kinds.NODE, name)
        meta = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
        apps.api.create(kinds.NODE, {"metadata": meta, "spec": {}, "status": node["status"]})
    apps.api.patch(kinds.NODE, name, None, {"metadata": {"labels": {"type": "kwok"}}, "spec": {"taints": None}})
    apps.api.patch(kinds.NODE, name, None, {"status": {"conditions": node["status"]["conditions"]}}, "status")


def a_deleted_node_proves_nothing(apps: AppWorld, node: str, well: str) -> None:
    """It is db-0's. Its pod's object goes as well, as its collector has it a minute later; so it does of a replica that
    was leaving, for whose end somebody waits."""
    apps.world.disk(well, "more")
    record = apps.world.berths()["db-0"]
    first = record["metadata"]["uid"]
    apps.api.delete(kinds.NODE, node)
    apps.api.delete(kinds.POD, "db-0", apps.name, grace=0)
    apps.stalled("NodeLost", "kubectl create --filename -")
    assert apps.world.berths()["db-0"]["metadata"]["uid"] == first
    for each in record["spec"]["disks"]:
        apps.api.patch(kinds.LOCAL_DISK, each["name"], None, {"spec": {"unschedulable": True}})
    apps.api.patch(kinds.BERTH, "db-0", apps.name, {"status": {"phase": "Releasing"}}, "status")
    apps.apply(replicas=3, onNodeLoss="Rebuild", quorum=1, updateStrategy={"minReadySeconds": 1})  # to be looked at
    apps.stalled("NodeLost", "kubectl create --filename -")
    now = apps.world.berths()["db-0"]
    assert (now["metadata"]["uid"], now["status"]["phase"]) == (first, "Releasing"), "its pod has not ended"
    (command,) = re.findall(r"echo '(.+)' \| kubectl create --filename -$", apps.condition("Stalled")["message"])
    apps.kubectl("create", "--filename", "-", given=command)
    until(
        lambda: apps.phases().get("db-0") == "Running" and apps.world.berths()["db-0"]["spec"]["nodeName"] == well,
        lambda: str(apps.live().get("status")),
    )
    apps.ready(3)
    apps.check()


def test_a_replica_waits_for_its_lost_node_or_is_rebuilt_when_that_is_proven(apps: AppWorld, start: Any) -> None:
    """Two of three nodes are lost, and one of them for good. The Ready replica is kept meanwhile: it is the quorum.
    Then the other Node is deleted, and nothing is proven before a person says it, by the command of the message."""
    apps.disks(4)
    apps.allow()
    start("--no-leader-elect")
    apps.apply(replicas=3, quorum=1)
    apps.ready(3)
    uids, records = apps.uids(), apps.world.berths()
    assert records["db-1"]["spec"]["quorum"] == 1
    other, node = (records[name]["spec"]["nodeName"] for name in ("db-0", "db-1"))
    before = [silent(apps, each) for each in (other, node)]
    try:
        why = ": Ready is Unknown (NodeStatusUnknown)"
        told = f"{why}; replica {apps.name}/db-1 waits for node {node} since "
        apps.stalled("NodeLost", told)
        message = apps.condition("Stalled")["message"]
        assert message.startswith(f"replica {apps.name}/db-0 waits for node {other} since ")
        for words in (f"{why}. ", f"kubectl taint node {node}", "spec.onNodeLoss: Rebuild", "release_ordinals: [0, 1]"):
            assert words in message
        until(lambda: apps.world.told("db", "NodeLost", told), lambda: str(apps.world.events("db")))
        apps.apply(replicas=2, quorum=1)
        apps.stalled("NodeLost", "with replicas: 2 the Ready db-2 would go, and 0 would be left Ready (none)")
        assert apps.uids() == uids
        apps.apply(replicas=3, onNodeLoss="Rebuild", quorum=1)
        apps.stalled("NodeLost", f"To go on, switch the machine off, and say so: kubectl taint node {node}")
        assert apps.uids() == uids
        apps.api.patch(kinds.NODE, node, None, {"spec": {"taints": [TAINT]}})
        until(
            lambda: apps.uids().get("db-1") not in (None, uids["db-1"]) and apps.phases().get("db-1") == "Running",
            lambda: str(apps.live().get("status")),
        )
        assert apps.world.berths()["db-1"]["spec"]["nodeName"] not in (node, other)
        assert {**apps.uids(), "db-1": ""} == {**uids, "db-1": ""}
        (old,) = [one["spec"] for one in apps.world.disks().values() if one["spec"].get("retainedFor")]
        assert (old["nodeName"], old["unschedulable"], old["retainedFor"]["ordinal"]) == (node, True, 1)
        a_deleted_node_proves_nothing(apps, other, next(one for one in apps.nodes if one not in (node, other)))
    finally:
        for each in before:
            back(apps, each)


def test_an_update_that_failed_pauses_until_the_spec_says_otherwise(apps: AppWorld, start: Any) -> None:
    """The test is the kubelet of the pull pod."""
    apps.disks(1)
    apps.allow()
    start("--no-leader-elect")
    update = {"type": "InPlaceIfPossible", "pauseOnFailure": True}
    apps.apply(replicas=1, updateStrategy=update)
    apps.ready(1)
    before = apps.uids()
    (node,) = {one["spec"]["nodeName"] for one in apps.pods().values()}
    told = {"name": "main", "image": "none:2", "imageID": "", "ready": False, "restartCount": 0}

    def pulls(phase: str, state: dict[str, Any]) -> None:
        pull = until(lambda: next(iter(set(apps.pods()) - set(before)), None), lambda: str(apps.status()))
        body = {"status": {"phase": phase, "containerStatuses": [{**told, "state": state}]}}
        apps.api.patch(kinds.POD, pull, apps.name, body, "status")

    apps.api.patch(kinds.NODE, node, None, {"metadata": {"labels": {"type": None}}})
    try:
        apps.apply(replicas=1, template=apps.template("none:2"), updateStrategy=update)
        pulls("Pending", {"waiting": {"reason": "ErrImageNeverPull", "message": "is not present"}})
        apps.stalled("UpdatePaused", "pod db-0 is not updated: node")
        until(lambda: apps.uids() == before, "the pull pod goes")
        assert "berth.dev/update-failed" in apps.world.berths()["db-0"]["metadata"]["annotations"]
        resumed = {**update, "paused": False}
        apps.apply(replicas=1, template=apps.template("none:2"), updateStrategy=resumed)
        pulls("Failed", {"terminated": {"reason": "StartError", "exitCode": 128}})
        until(lambda: apps.status().get("updatedReplicas") == 1 and apps.uids() == before, lambda: str(apps.status()))
        assert apps.pods()["db-0"]["spec"]["containers"][0]["image"] == "none:2"
        assert "berth.dev/update-failed" not in apps.world.berths()["db-0"]["metadata"].get("annotations", {})
    finally:
        apps.api.patch(kinds.NODE, node, None, {"metadata": {"labels": {"type": "kwok"}}})
