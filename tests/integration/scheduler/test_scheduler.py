"""The scheduler as a Deployment of real hosts: it places pods, one with a local disk too; its leader is replaced.

One story, because each part needs the scheduler's pods: starting them is most of its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.dev.hosts_help import out, ssh
from tests.integration.scheduler import stage as ground
from tests.integration.scheduler.stage import IMAGE, NAMESPACE, ON, asks, ready
from tests.support.hosts import run_plays
from tests.support.playbook import Run

NAME, OTHER = "berth-scheduler", "other-scheduler"
SECONDS = 180.0
pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(900)]


class Stage(ground.Stage):
    """The scheduler's pods, and whom they place."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        super().__init__(cluster, folder, f"app.kubernetes.io/instance={NAME}", SECONDS)

    def schedulers(self, *asked: dict[str, Any]) -> list[dict[str, Any]]:
        """The role, in one play for each that is asked for; what its last task said each time."""
        played = self.play(*asked).ok()
        return [task.result for task in played.tasks if task.name.endswith("Scheduler")]

    def play(self, *asked: dict[str, Any]) -> Run:
        shared = {"kubeconfig": str(self.cluster.kubeconfig), "wait_timeout": int(SECONDS), "image": IMAGE}
        role = {"name": "role", "ansible.builtin.include_role": {"name": "berth.stateful.scheduler"}}
        plays = []
        for each in asked:
            values = {f"scheduler_{name}": value for name, value in {**shared, **each}.items()}
            one = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": values}
            plays.append({**one, "tasks": [role]})
        return run_plays(self.cluster, plays, self.folder, timeout=len(asked) * 2 * SECONDS)

    # -- the scheduler's pods --------------------------------------------------------------------------------------

    def pods(self) -> dict[str, str]:
        """name -> node of those that are Ready."""
        found = self.api.list(kinds.POD, NAMESPACE, labels=self.label)
        return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in found if ready(one)}

    def leader(self) -> str:
        """Who holds the Lease, its pod being Ready; empty: nobody. A process that starts anew has another name."""
        lease = self.api.find(kinds.LEASE, NAME, NAMESPACE)
        holder = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
        return holder if pod_of(holder) in self.pods() else ""

    def kill_leader(self) -> str:
        """SIGKILL for the process that leads; its name."""
        first = str(self.wait(self.leader, "one leads"))
        host = self.api.get(kinds.POD, pod_of(first), NAMESPACE)["spec"]["nodeName"]
        its = f"tr '\\0' '\\n' < /proc/$p/environ | grep -qx HOSTNAME={pod_of(first)}"
        each = "for p in $(pgrep -f '[b]erth_scheduler run')"
        ssh(self.cluster, host, f"{each}; do if {its}; then kill -9 $p && exit 0; fi; done; exit 1")
        return first

    def said_scheduled(self) -> set[str]:
        """Who has told of the test's pods that they are placed."""
        events = self.api.list(kinds.EVENT, self.world.name)
        return {str(one["reportingController"]) for one in events if one["reason"] == "Scheduled"}


def pod_of(holder: str) -> str:
    return holder.rpartition("_")[0]


@pytest.fixture
def stage(dev_cluster: Any, tmp_path: Path) -> Iterator[Stage]:
    it = Stage(dev_cluster, tmp_path)
    try:
        yield it
    finally:
        it.clear()
        it.schedulers(*({"name": name, "state": "absent", "force": True} for name in (NAME, OTHER)))
        it.ground.clean()


def test_it_runs_in_the_cluster_places_pods_and_is_replaced(stage: Stage) -> None:
    disk = stage.ready_disk()
    # Another one beside it has its own pods, Lease and rights; who is there is left as it is.
    installed, beside, again = stage.schedulers({}, {"name": OTHER, "replicas": 1}, {})
    stage.wait(lambda: len(stage.pods()) == 2 and installed["leader"] in stage.pods(), "both are Ready")
    assert [each["changed"] for each in (installed, beside, again)] == [True, True, False]

    # Pods run, and one of a StatefulSet writes to the disk that was locked for it.
    stage.ground.wait_phase(disk, "Available")
    for number in range(3):
        stage.create(kinds.POD, f"plain-{number}", asks("true", NAME))
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": asks("echo kept > /data/file; sync", NAME, volumeMounts=[{"name": "data", "mountPath": "/data"}]),
    }
    stage.create(
        kinds.STATEFUL_SET,
        "db",
        {
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": stage.claim()}],
        },
    )
    stage.create(kinds.POD, "others", asks("true", OTHER))
    for name in ("plain-0", "plain-1", "plain-2", "others"):
        stage.runs(name)
    assert stage.runs("db-0") == ON
    assert stage.ground.object(disk)["spec"]["claimRef"]["claim"] == "data-db-0"
    point = stage.ground.point(disk)
    stage.wait(
        lambda: out(stage.cluster, ON, f"cat {point}/data/file 2>/dev/null || cat {point}/file") == "kept", "data"
    )
    stage.wait(lambda: stage.said_scheduled() == {NAME, OTHER}, "each tells of its own pods")

    # An upgrade that cannot succeed is told, and those that work go on.
    before = stage.wait(lambda: len(stage.pods()) == 2 and stage.pods(), "two are Ready")
    failed = stage.play({"image": "berth.local/not-there:1", "wait_timeout": 10}).failed()
    assert f"scheduler {NAME} does not lead after 10 s" in failed["msg"]
    stage.wait(lambda: stage.pods() == before, f"{before} are still there")
    assert pod_of(stage.wait(stage.leader, "one leads")) in before
    assert stage.schedulers({})[0]["leader"] in before

    # The leader is killed without a word: another takes the Lease when it has run out, and goes on.
    first = stage.kill_leader()
    stage.wait(lambda: stage.leader() not in ("", first), f"another than {first} leads")
    stage.create(kinds.POD, "late", asks("true", NAME))
    stage.runs("late")
    stage.wait(lambda: len(stage.pods()) == 2, "it is two again")
