"""stateful_app under a team's account, which has nothing but the roles that berth ships."""

from __future__ import annotations

import pytest

from tests.apiserver.app.runner import run
from tests.apiserver.app.world import local_disk, params
from tests.support.team import options, team

TEAM = "team-app"


@pytest.fixture
def world(app_world, kubeconfig):
    for index in range(2):
        app_world.add_disk(local_disk(f"fake-{index}", 0))
    with team(kubeconfig, TEAM):
        yield app_world
        app_world.clear()


def test_an_app_is_made_scaled_and_removed(world, kubeconfig):
    asked = params("db", kubeconfig, namespace=TEAM, service={"ports": [{"port": 80}]}, **options(TEAM))
    made = run({**asked, "wait": True})
    assert not made.get("failed"), made
    assert [row["phase"] for row in made["berths"]] == ["Running"] * 2
    told = world.client.get(world.kinds.STATEFUL_APP, "db", TEAM)["status"]
    assert (told["readyReplicas"], len(told["revisions"]), made["warnings"]) == (2, 1, [])
    assert run(asked)["changed"] is False
    down = run({**asked, "replicas": 1})
    assert not down.get("failed"), down
    assert sorted("claimRef" in disk["spec"] for disk in world.disks().values()) == [False, True]
    pods = run({**asked, "name": "bare", "workload": "Pod", "replicas": 0})
    assert not pods.get("failed"), pods
    for name in ("db", "bare"):
        gone = run({**asked, "name": name, "state": "absent"})
        assert not gone.get("failed"), gone
    assert world.berths() == {}
    assert all(disk["spec"]["retainedFor"]["namespace"] == TEAM for disk in world.disks().values())
