"""A real controller holds a replica's room while it makes its pod anew: against the stock kube-scheduler."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.app_world import AppWorld, app_world
from tests.daemons.controller.world import ACCOUNT, NAMESPACE, until
from tests.support.wire import dying_after_each

pytestmark = pytest.mark.promise
#: More than half of what a fake node has.
ROOM = {"requests": {"cpu": "20"}}
COUNTED = r"\w+ (Berth|StatefulSet|Pod|Pod/eviction|Pod/status) .*"
SQUATTERS = ("squatter-0", "squatter-1", "squatter-2")
DEATHS = 30


@pytest.fixture
def apps(plane: Any, world: Any, nodes: list[str]) -> Iterator[AppWorld]:
    with app_world(plane, world, nodes) as made:
        made.disks(1)
        made.allow()
        yield made


def bind(apps: AppWorld) -> None:
    """What docs/guides/updating.md says to give to the controller for that."""
    bearer = f"--serviceaccount={NAMESPACE}:{ACCOUNT}"
    apps.kubectl("create", "rolebinding", "berth-controller-hold", "--clusterrole=berth-update-hold", bearer)


def ask(apps: AppWorld, command: str) -> None:
    template = apps.template()
    template["spec"]["containers"][0].update(command=["sleep", command], resources=ROOM)
    apps.apply(replicas=1, template=template, updateStrategy={"type": "InPlaceIfPossible", "hold": True})


def squat(apps: AppWorld) -> None:
    """Pods of the same priority that wait for the replica's room."""
    node = apps.pods()["db-0"]["spec"]["nodeName"]
    selector = {"kubernetes.io/hostname": node}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "none:1", "resources": ROOM}],
        "nodeSelector": selector,
    }
    spec["tolerations"] = [{"operator": "Exists"}]
    for name in SQUATTERS:
        apps.api.create(kinds.POD, {"metadata": {"name": name, "namespace": apps.name}, "spec": spec})
    until(lambda: all((apps.pods()[name]["status"].get("conditions")) for name in SQUATTERS), "they were not tried")
    time.sleep(2)  # the pause after a first failed try


def nobody_came(apps: AppWorld) -> None:
    assert [apps.pods()[name]["spec"].get("nodeName") for name in SQUATTERS] == [None] * len(SQUATTERS)


def runs(apps: AppWorld, command: str) -> bool:
    """Whether the replica has that command, is Ready, and its room is nobody's to hold."""
    pods = apps.pods()
    mine = pods.get("db-0") or {"spec": {"containers": [{}]}}
    done = apps.status().get("readyReplicas") == 1 and apps.status().get("updatedReplicas") == 1
    return (
        done
        and mine["spec"]["containers"][0].get("command") == ["sleep", command]
        and set(pods)
        <= {
            "db-0",
            *SQUATTERS,
        }
    )


def test_nobody_gets_the_room_of_a_replica_that_is_made_anew(apps: AppWorld, start: Any) -> None:
    start("--no-leader-elect")
    ask(apps, "1")
    apps.ready(1)
    ask(apps, "2")
    until(lambda: runs(apps, "2"), lambda: str(apps.status()))
    assert apps.world.told("db", "Updating", "ClusterRole berth-update-hold"), "it has no right to nominate yet"
    bind(apps)
    squat(apps)
    before = apps.uids()["db-0"]
    ask(apps, "3")
    until(lambda: runs(apps, "3"), lambda: str(apps.status()))
    assert apps.uids()["db-0"] != before
    nobody_came(apps)


def test_a_controller_that_dies_after_any_write_leaves_the_room_to_the_replica(
    apps: AppWorld, start: Any, tmp_path: Path
) -> None:
    bind(apps)
    first = start("--no-leader-elect")
    ask(apps, "1")
    apps.ready(1)
    first.stop()
    squat(apps)
    wire = dying_after_each("berth_controller", tmp_path / "last", COUNTED)
    ask(apps, "2")
    for number in range(DEATHS):
        process = start("--no-leader-elect", wait=False, **wire)
        until(lambda process=process: process.process.poll() is not None or runs(apps, "2"), process.text)
        nobody_came(apps)
        if process.process.poll() is None:
            assert number >= 5, "hold, nomination, deletion, nomination, hold"
            process.stop()
            break
        assert process.ended() == -signal.SIGKILL, process.text()
    assert runs(apps, "2"), (tmp_path / "last").read_text()
