"""The scheduler as a Deployment of real hosts: it places pods, one with a local disk too; its leader is replaced.

One story, because each part needs the scheduler's pods: starting them is most of its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_dev.pytest_plugin import say
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.controller.world import World, install
from tests.dev.hosts_help import eventually, out, ssh
from tests.support.agent import install_rights
from tests.support.hosts import run_plays
from tests.support.kube import client_for
from tests.support.playbook import Run

NAMESPACE, NAME = "berth-system", "berth-scheduler"
OTHER = "other-scheduler"
IMAGE = "berth.local/berth-scheduler:dev"
LABEL = f"app.kubernetes.io/instance={NAME}"
ON = "h3"  # where the disk is
SECONDS = 180.0
pytestmark = [pytest.mark.hosts, pytest.mark.slow]


class Stage:
    """A namespace of the test's own, a host with a disk and its agent, and the scheduler's pods."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.api = client_for(cluster.kubeconfig, warn=lambda _text: None)
        self.world = World(self.api, f"s{uuid4().hex[:8]}")
        self.ground = Ground(cluster, ON)

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
        found = self.api.list(kinds.POD, NAMESPACE, labels=LABEL)
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

    def wait(self, test: Any, what: str) -> Any:
        """Until it is so; else what the scheduler's pods say."""
        try:
            return eventually(test, SECONDS, what)
        except AssertionError as exc:
            told = self.cluster.kubectl("-n", NAMESPACE, "describe", "pods", "-l", LABEL)[-5000:]
            logs = self.cluster.kubectl("-n", NAMESPACE, "logs", "-l", LABEL, "--prefix", "--tail", "60")[-6000:]
            raise AssertionError(f"{exc}\n{told}\n{logs}") from None

    def said_scheduled(self) -> set[str]:
        """Who has told of the test's pods that they are placed."""
        events = self.api.list(kinds.EVENT, self.world.name)
        return {str(one["reportingController"]) for one in events if one["reason"] == "Scheduled"}

    # -- what it places --------------------------------------------------------------------------------------------

    def create(self, resource: Any, name: str, spec: dict[str, Any]) -> None:
        self.api.create(resource, {"metadata": {"name": name, "namespace": self.world.name}, "spec": spec})

    def runs(self, name: str) -> str:
        """Wait until the pod runs; its node."""

        def look() -> str:
            pod = self.api.find(kinds.POD, name, self.world.name) or {}
            return str(pod["spec"]["nodeName"]) if (pod.get("status") or {}).get("phase") == "Running" else ""

        return str(self.wait(look, f"pod {name} runs: {self.world.events(name)}"))


def pod_of(holder: str) -> str:
    return holder.rpartition("_")[0]


def ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    alive = not pod["metadata"].get("deletionTimestamp")
    return alive and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def asks(script: str, scheduler: str = NAME, **container: Any) -> dict[str, Any]:
    """The spec of a pod that names our scheduler."""
    main = {"name": "main", "image": "berth.local/busybox:1", "imagePullPolicy": "Never", **container}
    command = {"command": ["sh", "-ec", f"{script}; exec sleep 1000000"]}
    return {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [{**main, **command}]}


@pytest.fixture
def stage(dev_cluster: Any, tmp_path: Path) -> Iterator[Stage]:
    install_rights(dev_cluster)
    install(dev_cluster)
    dev_cluster.hosts.load_image("scheduler", say)
    it = Stage(dev_cluster, tmp_path)
    try:
        yield it
    finally:
        for kind in (kinds.STATEFUL_SET, kinds.POD):
            for one in it.api.list(kind, it.world.name):
                it.world.delete(kind, one["metadata"]["name"])
        eventually(lambda: not it.api.list(kinds.POD, it.world.name), SECONDS, "the pods go")
        it.world.clear()
        it.schedulers(*({"name": name, "state": "absent", "force": True} for name in (NAME, OTHER)))
        it.ground.clean()


def test_it_runs_in_the_cluster_places_pods_and_is_replaced(stage: Stage) -> None:
    disk = stage.ground.plug()
    stage.world.storage_class(waits=True)
    stage.ground.declare(**{disk: {"storage_class": stage.world.name}})
    stage.ground.agent.start()
    # Another one beside it has its own pods, Lease and rights; who is there is left as it is.
    installed, beside, again = stage.schedulers({}, {"name": OTHER, "replicas": 1}, {})
    stage.wait(lambda: len(stage.pods()) == 2 and installed["leader"] in stage.pods(), "both are Ready")
    assert [each["changed"] for each in (installed, beside, again)] == [True, True, False]

    # Pods run, and one of a StatefulSet writes to the disk that was locked for it.
    stage.ground.wait_phase(disk, "Available")
    for number in range(3):
        stage.create(kinds.POD, f"plain-{number}", asks("true"))
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": asks("echo kept > /data/file; sync", volumeMounts=[{"name": "data", "mountPath": "/data"}]),
    }
    size = {"requests": {"storage": "32Mi"}}
    claim = {"storageClassName": stage.world.name, "accessModes": ["ReadWriteOnce"], "resources": size}
    stage.create(
        kinds.STATEFUL_SET,
        "db",
        {
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
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
    stage.create(kinds.POD, "late", asks("true"))
    stage.runs("late")
    stage.wait(lambda: len(stage.pods()) == 2, "it is two again")
