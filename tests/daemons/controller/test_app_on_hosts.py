"""A StatefulApp on real hosts with live agents: a replica moves away for a maintenance, and its host is lost for good.

The hosts are those of other tests; agents, disks and pods on three of them are there once for both stories.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.in_service import GATE, is_shut
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.maintenance_mark import ANNOTATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.node_loss import OUT_OF_SERVICE
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.controller.app_world import AppWorld
from tests.daemons.controller.prepared import started
from tests.daemons.controller.world import ACCOUNT, NAMESPACE, Process, World, install, kubeconfig, until
from tests.dev.hosts_help import eventually, node_ready
from tests.support.agent import install_rights
from tests.support.hosts import run_plays
from tests.support.kube import client_for, disks_of

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]

HOSTS = ("h1", "h2", "h3")
#: What a replica is to its host: no other process is called so.
REPLICA = "sleep 1000007"
#: A Lease is over soon, so that the agent of a host that was off begins before long.
SETTINGS: dict[str, Any] = {
    "intervals": {"scan": 60, "poll": 0.5, "debounce": 0.1, "health": 1, "lease": 12},
    "policies": {"devices": False},
    "usage": {"store": "none"},
}
PATIENCE = 180.0
#: One image by two names.
IMAGES = ("berth.local/busybox:1", "berth.local/busybox:2")
CONTAINER = {
    "name": "main",
    "image": "berth.local/busybox:1",
    "imagePullPolicy": "Never",
    "command": ["sh", "-ec", f"echo $HOSTNAME >> /data/starts; sync; exec {REPLICA}"],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
TEMPLATE = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [CONTAINER]}}


class Site:
    """Three hosts with an agent and a disk each; an app of two replicas, which berth-controller carries out."""

    def __init__(self, cluster: Any, folder: Path, left: ExitStack) -> None:
        """``left``: what is to be done in the end."""
        self.cluster, self.folder, self.left = cluster, folder, left
        self.api = client_for(cluster.kubeconfig, warn=lambda _text: None)
        self.rooms = {host: Ground(cluster, host) for host in HOSTS}
        install_rights(cluster)
        install(cluster)
        for room in self.rooms.values():
            left.callback(room.clean)
        world = World(self.api, f"a{uuid4().hex[:8]}")
        left.callback(world.clear)
        self.apps = AppWorld(cluster, world, list(HOSTS))
        for room in self.rooms.values():
            room.plug()
            self.install_agent(room)
        config = kubeconfig(cluster, self.api, folder / "kubeconfig")
        self.controller = Process(config, folder / "log", "--no-leader-elect", start=started).works()
        left.callback(lambda: print(self.controller.text()))
        left.callback(self.controller.stop)
        left.callback(self.apps.clear)
        left.callback(self.heal)

    def install_agent(self, room: Ground) -> None:
        """As at a boot of its host; every disk is declared by its serial number."""
        room.agent.pids.clear()
        room.agent.install(disks=self._declared(room), **SETTINGS)
        room.agent.start()
        for name in room.plugged:
            room.wait(name, "seen", lambda disk: bool((disk.get("status") or {}).get("phase")))

    def _declared(self, room: Ground) -> list[dict[str, Any]]:
        return [{"serial": each["serial"], "storage_class": self.apps.name} for each in room.plugged.values()]

    def one_more_disk(self, host: str) -> str:
        """Its short name, when it may be given out."""
        room = self.rooms[host]
        name = room.plug()
        room.agent.configure(disks=self._declared(room), **SETTINGS)
        room.wait_phase(name, "Available")
        return name

    def forget(self) -> None:
        """Give up the data that nobody uses. As long as it is kept, no other disk will do for its replica."""
        for disk in [each for host in HOSTS for each in disks_of(self.api, host) if each["spec"].get("retainedFor")]:
            self.api.patch(kinds.LOCAL_DISK, disk["metadata"]["name"], None, {"spec": {"retainedFor": None}})

    def heal(self) -> None:
        """Every host is as other tests expect it, whatever the story has come to."""
        as_before = {"metadata": {"annotations": {ANNOTATION: None}}, "spec": {"taints": None, "unschedulable": None}}
        for host in HOSTS:
            self.power_on(host)
            self.api.patch(kinds.NODE, host, None, as_before)

    def power_off(self, host: str) -> None:
        """And say that it is off, as whoever has looked may do."""
        self.cluster.hosts.power_off(host)
        self.rooms[host].agent.pids.clear()
        self.cluster.kubectl("taint", "node", host, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")

    def power_on(self, host: str) -> None:
        """Until its kubelet is heard of. It is on already: nothing happens."""
        self.cluster.hosts.power_on(host)
        eventually(lambda: self.rooms[host].agent.here("pgrep -x kubelet"), PATIENCE, f"{host} answers")
        eventually(lambda: node_ready(self.cluster, host) == "True", PATIENCE, f"node {host} is Ready")

    # -- looking

    def place(self, name: str) -> tuple[str, str]:
        """The host of a replica, and the short name of its disk there."""
        spec = self.apps.world.berths()[name]["spec"]
        (disk,), room = [each["name"] for each in spec["disks"]], self.rooms[spec["nodeName"]]
        return room.host, next(short for short in room.plugged if room.object_name(short) == disk)

    def lives(self, expected: dict[str, int]) -> None:
        """So many replicas run on each of these hosts, as they have it. A Ready one may still write its first line."""
        here = {host: self.rooms[host].agent.here for host in expected}

        def living() -> dict[str, int]:
            return {host: int(look(f"pgrep -fc '^{REPLICA}$'", check=False)) for host, look in here.items()}

        until(lambda: living() == expected, lambda: f"{living()}: expected {expected}")

    def starts(self, host: str, disk: str) -> list[str]:
        """Who has started on a disk that is in use."""
        room = self.rooms[host]
        return room.agent.here(f"cat {room.point(disk)}/data/starts").split()

    def starts_kept(self, host: str, disk: str) -> list[str]:
        """The same of one that nobody uses."""
        room, at = self.rooms[host], "/run/looked-at"
        look = f"mkdir -p {at}; mount -o ro {room.device(disk)} {at}; cat {at}/data/starts; umount {at}"
        return room.agent.here(look).split()

    def kept(self, host: str, disk: str) -> None:
        """The disk keeps the data of db-1, and is given to nobody: by its object, whether its host is there or not."""
        live = self.rooms[host].object(disk)
        spec = live["spec"]
        assert (spec["unschedulable"], spec.get("claimRef")) == (True, None)
        assert (spec["retainedFor"]["app"], spec["retainedFor"]["ordinal"]) == ("db", 1)
        assert live["status"]["phase"] != "Available"

    def well(self) -> dict[str, Any]:
        """Both replicas are Ready, each lock has a living Berth and no Berth two disks. The pods by their names."""
        self.apps.ready(2, seconds=PATIENCE)
        berths = {one["metadata"]["uid"]: one for one in self.apps.world.berths().values()}
        locks = [disk["spec"].get("claimRef") for host in HOSTS for disk in disks_of(self.api, host)]
        assert sorted(lock["uid"] for lock in locks if lock) == sorted(berths)
        pods = self.apps.pods()
        assert {name: pod["spec"]["nodeName"] for name, pod in pods.items()} == {
            one["metadata"]["name"]: one["spec"]["nodeName"] for one in berths.values()
        }
        return pods

    # -- acting

    def maintenance(self, host: str) -> dict[str, Any]:
        """The role, as a user runs it; the work is to see that no replica runs there. What its first half says."""
        work, file = f"! pgrep -f '^{REPLICA}$'", self.folder / "work.yml"
        file.write_text(yaml.safe_dump([{"name": "Nobody is here", "ansible.builtin.shell": work}]))
        values = {
            "host_maintenance_tasks": str(file),
            "host_maintenance_apps": [{"app": f"{self.apps.name}/*", "data": ["db-1"]}],
            "host_maintenance_kubeconfig": str(self.cluster.kubeconfig),
            "host_maintenance_wait_timeout": int(PATIENCE),
        }
        play = {"hosts": host, "gather_facts": False, "vars": values, "roles": ["berth.stateful.host_maintenance"]}
        ran = run_plays(self.cluster, [play], self.folder, timeout=2 * PATIENCE).ok()
        assert [task for task in ran.tasks if task.name.endswith("Nobody is here")], "the work was done"
        return dict(next(task.result for task in ran.tasks if task.name.endswith("begun")))

    def driver(self, who: str) -> None:
        self.apps.kubectl("patch", "sapp", "db", "--type", "merge", "--patch", f'{{"spec": {{"driver": "{who}"}}}}')

    def playbook(self, **values: Any) -> dict[str, Any]:
        """A run of stateful_app with the same app."""
        disks = [{"name": "data", "size": "32Mi", "storage_class": self.apps.name}]
        return self.apps.module(template=TEMPLATE, disks=disks, replicas=2, wait=True, wait_timeout=120, **values)


@pytest.fixture(scope="module")
def site(dev_cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with ExitStack() as left:
        made = Site(dev_cluster, tmp_path_factory.mktemp("site"), left)
        made.apps.allow()
        disks = [{"name": "data", "size": "32Mi", "storageClassName": made.apps.name}]
        made.apps.apply(template=TEMPLATE, disks=disks)
        yield made
        assert made.controller.rescued() == []


def uids(pods: dict[str, Any]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def test_a_pod_leaves_its_services_before_its_container_is_ended(site: Site) -> None:
    """By the readiness gate of its template, which the controller opens as soon as it has the right to."""
    apps = site.apps
    for host in HOSTS:
        site.cluster.hosts.enter(host, "/opt/k/ctr", "-n", "k8s.io", "images", "tag", "--force", *IMAGES)

    def ask(image: str) -> None:
        container = {**CONTAINER, "image": image, "command": ["sleep", "1000008"], "volumeMounts": []}
        spec = {"readinessGates": [{"conditionType": GATE}], "terminationGracePeriodSeconds": 1}
        template = {"spec": {**spec, "containers": [container]}}
        apps.apply("web", replicas=1, workload="Pod", disks=None, podManagementPolicy=None, template=template)

    ask(IMAGES[0])
    apps.stalled("Forbidden", "--clusterrole=berth-update-hold", "web")
    bearer = f"--serviceaccount={NAMESPACE}:{ACCOUNT}"
    apps.kubectl("create", "rolebinding", "berth-controller-hold", "--clusterrole=berth-update-hold", bearer)
    apps.ready(1, "web", seconds=PATIENCE)
    before = apps.pods()["web-0"]
    ask(IMAGES[1])

    def updated() -> bool:
        status = apps.status("web")
        return status.get("updatedReplicas") == status.get("readyReplicas") == 1 and restarts(apps.pods()["web-0"]) == 1

    until(updated, lambda: yaml.safe_dump(apps.pods()["web-0"]), PATIENCE)
    assert apps.pods()["web-0"]["metadata"]["uid"] == before["metadata"]["uid"]
    version, labels = before["metadata"]["resourceVersion"], "berth.dev/app=web"
    told = [event["object"] for event in site.api.watch(kinds.POD, version, 2, apps.name, labels)]
    outside = [pod for pod in told if is_shut(pod) and not ready(pod)]
    assert [pod for pod in outside if restarts(pod) == 0], "it left while the container of before ran"
    hit = [
        pod for pod in told if ready(pod) and (pod["spec"]["containers"][0]["image"], restarts(pod)) == (IMAGES[1], 0)
    ]
    assert not hit, yaml.safe_dump(hit)
    apps.kubectl("delete", "sapp", "web")


def restarts(pod: dict[str, Any]) -> int:
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def test_a_replica_moves_for_the_maintenance_of_its_host_by_the_role(site: Site) -> None:
    """It makes its data anew elsewhere; the work finds nobody on the host, and nobody comes back to it."""
    before = uids(site.well())
    (home, _disk), (node, left) = site.place("db-0"), site.place("db-1")
    (spare,) = set(HOSTS) - {home, node}
    site.lives({home: 1, node: 1, spare: 0})
    (row,) = site.maintenance(node)["moved"]
    assert (row["pod"], row["from"], row["to"], row["data"]) == ("db-1", node, spare, "given up")
    after = uids(site.well())
    assert (after["db-0"], after["db-1"] == before["db-1"]) == (before["db-0"], False)
    now, disk = site.place("db-1")
    assert (now, site.starts(now, disk)) == (spare, ["db-1"]), "it began empty there"
    site.lives({home: 1, node: 0, spare: 1})
    room = site.rooms[node]
    room.wait_phase(left, "Released")
    site.kept(node, left)
    assert room.agent.here(f"findmnt -no TARGET {room.point(left)}", check=False) == ""
    assert site.starts_kept(node, left) == ["db-1"]
    live = site.api.get(kinds.NODE, node)
    assert (live["spec"].get("unschedulable"), ANNOTATION in live["metadata"]["annotations"]) == (None, False)
    assert not site.apps.live()["spec"].get("leaveNodes")


def test_a_lost_host_is_given_up_by_decision_and_comes_back_without_the_replica(site: Site) -> None:
    apps, before = site.apps, uids(site.well())
    (home, _disk), (lost, gone) = site.place("db-0"), site.place("db-1")
    (other,) = set(HOSTS) - {home, lost}
    site.forget()
    site.one_more_disk(other)
    site.power_off(lost)
    until(lambda: apps.condition("Ready").get("status") == "False", lambda: str(apps.live().get("status")))
    decision = {"on_node_loss": "release", "release_ordinals": [1]}
    assert "hand the application over first" in site.playbook(**decision)["msg"]
    assert site.place("db-1") == (lost, gone), "the controller gives nothing up"

    site.driver("playbook")
    until(lambda: apps.condition("Ready").get("reason") == "DrivenByPlaybook", lambda: str(apps.live()))
    done = site.playbook(**decision)
    assert not done.get("failed"), str(done.get("msg"))
    (row,) = done["lost"]
    assert (row["pod"], row["node"], row["decision"]) == ("db-1", lost, "release")
    assert row["fenced"] == f"the taint {OUT_OF_SERVICE}"
    site.driver("controller")
    after = uids(site.well())
    assert (after["db-0"], after["db-1"] == before["db-1"]) == (before["db-0"], False)
    now, disk = site.place("db-1")
    assert (now, site.starts(now, disk)) == (other, ["db-1"]), "it began empty on the other host"
    site.lives({home: 1, other: 1})
    site.kept(lost, gone)

    eventually(lambda: node_ready(site.cluster, lost) != "True", PATIENCE, "the host's silence is noticed")
    site.power_on(lost)
    site.cluster.kubectl("taint", "node", lost, f"{OUT_OF_SERVICE}-")
    site.install_agent(site.rooms[lost])
    site.rooms[lost].wait_phase(gone, "Released")
    site.lives({home: 1, other: 1, lost: 0})
    site.kept(lost, gone)
    pods = site.well()
    assert uids(pods) == after
    assert not any(pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods.values())
    assert site.starts_kept(lost, gone) == ["db-1"]
