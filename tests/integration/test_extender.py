"""The extender on real hosts, installed by the role: its pods answer a real kube-scheduler, which runs as a static pod.

One host is a control-plane host as kubeadm makes them: its kubelet starts what lies in /etc/kubernetes/manifests. The
cluster's own kube-scheduler goes on with all other pods, so that the static one has a profile of its own name.
One story, because each part needs the pods: starting them is most of its time.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.config.stock import MANAGED
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_dev.pytest_plugin import say
from tests.core.config.test_static_pod import KUBEADM
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.controller.world import Process, World, install, kubeconfig
from tests.dev.hosts_help import eventually, out, ssh
from tests.integration.test_scheduler import asks, ready
from tests.support.agent import install_rights
from tests.support.certificates import authority, pem
from tests.support.hosts import run_plays
from tests.support.kube import client_for
from tests.support.playbook import Run

NAMESPACE, NAME = "berth-system", "berth-scheduler-extender"
LABEL = f"app.kubernetes.io/instance={NAME}"
STOCK = "static-scheduler"  # the name of the profile
MASTER, ON = "h1", "h3"  # the control-plane host; where the disk is
ADDRESS = "10.250.0.211"
MANIFEST, FOLDER = "/etc/kubernetes/manifests/kube-scheduler.yaml", "/etc/kubernetes/berth"
CONFIG, WHO = "/etc/kubernetes/scheduler-config.yaml", "/etc/kubernetes/scheduler.conf"
SECONDS = 240.0
pytestmark = [pytest.mark.hosts, pytest.mark.slow]


class Stage:
    """A namespace of the test's own, a host with a disk and its agent, a static kube-scheduler, and the controller."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.api = client_for(cluster.kubeconfig, warn=lambda _text: None)
        self.world = World(self.api, f"s{uuid4().hex[:8]}")
        self.ground = Ground(cluster, ON)
        who = kubeconfig(cluster, self.api, folder / "controller")
        self.controller = Process(who, folder / "controller.log")
        server, client = authority(ADDRESS), authority()
        self.tls = {
            "scheduler_extender_tls": {
                "certificate": server[1].decode(),
                "key": pem(server[0]).decode(),
                "client_ca": client[1].decode(),
            },
            "scheduler_kube_scheduler_tls": {
                "ca": server[1].decode(),
                "certificate": client[1].decode(),
                "key": pem(client[0]).decode(),
            },
        }

    def play(self, *args: str, **more: Any) -> Run:
        values = {
            "scheduler_mode": "extender",
            "scheduler_image": "berth.local/berth-scheduler:dev",
            "scheduler_extender_cluster_ip": ADDRESS,
            "scheduler_kube_scheduler": True,
            "scheduler_kubeconfig": str(self.cluster.kubeconfig),
            "scheduler_wait_timeout": int(SECONDS),
            **self.tls,
            **more,
        }
        role = {"name": "role", "ansible.builtin.include_role": {"name": "berth.stateful.scheduler"}}
        play = {"hosts": MASTER, "gather_facts": False, "serial": 1, "vars": values, "tasks": [role]}
        return run_plays(self.cluster, [play], self.folder, *args, timeout=3 * SECONDS)

    # -- the control-plane host ------------------------------------------------------------------------------------

    def put(self, path: str, text: str) -> None:
        encoded = base64.b64encode(text.encode()).decode()
        ssh(self.cluster, MASTER, f"echo {encoded} | base64 -d > {path}")

    def read(self, path: str) -> str:
        return out(self.cluster, MASTER, f"cat {path}")

    def static_scheduler(self) -> str:
        """Put the manifest there and wait until it is Ready; its text."""
        tag = "images tag --force berth.local/busybox:1 berth.local/kube-scheduler:v1.36.4"
        ssh(self.cluster, MASTER, f"/opt/k/ctr -n k8s.io {tag}")
        who = yaml.safe_load(self.cluster.user_kubeconfig("system:kube-scheduler").read_text())
        who["clusters"][0]["cluster"]["server"] = self.cluster.hosts.server_url
        self.put(WHO, yaml.safe_dump(who))
        own = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": WHO},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": STOCK}],
        }
        self.put(CONFIG, yaml.safe_dump(own))
        text = "# By the test's own hand: this line is there again at the end.\n" + yaml.safe_dump(self.manifest())
        self.put("/etc/kubernetes/kube-scheduler.yaml", text)
        ssh(self.cluster, MASTER, f"mkdir -p $(dirname {MANIFEST}); mv /etc/kubernetes/kube-scheduler.yaml {MANIFEST}")
        eventually(lambda: ready(self.mirror()), SECONDS, "the static kube-scheduler is Ready")
        return text

    def manifest(self) -> dict[str, Any]:
        """kubeadm's, with this cluster's program, a file of its own, and no image of a registry."""
        pod: dict[str, Any] = yaml.safe_load(KUBEADM)
        (container,) = pod["spec"]["containers"]
        container["command"][0] = "/opt/k/kube-scheduler"
        container["command"] += [f"--config={CONFIG}", "--leader-elect=false"]
        container["image"], container["imagePullPolicy"] = "berth.local/kube-scheduler:v1.36.4", "Never"
        probe = {"httpGet": {"host": "127.0.0.1", "path": "/readyz", "port": 10259, "scheme": "HTTPS"}}
        container["readinessProbe"] = {**probe, "periodSeconds": 1}
        for name, path in (("programs", "/opt/k"), ("config", CONFIG)):
            container["volumeMounts"].append({"name": name, "mountPath": path, "readOnly": True})
            pod["spec"]["volumes"].append({"name": name, "hostPath": {"path": path}})
        return pod

    def mirror(self) -> dict[str, Any]:
        return self.api.get(kinds.POD, f"kube-scheduler-{MASTER}", "kube-system")

    # -- what it places --------------------------------------------------------------------------------------------

    def create(self, resource: Any, name: str, spec: dict[str, Any]) -> None:
        self.api.create(resource, {"metadata": {"name": name, "namespace": self.world.name}, "spec": spec})

    def runs(self, name: str) -> str:
        """Wait until the pod runs; its node."""

        def look() -> str:
            pod = self.api.find(kinds.POD, name, self.world.name) or {}
            return str(pod["spec"]["nodeName"]) if (pod.get("status") or {}).get("phase") == "Running" else ""

        try:
            return str(eventually(look, SECONDS, f"pod {name} runs"))
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{self.world.events(name)}\n{self.logs()}\n{self.controller.text()}") from None

    def logs(self) -> str:
        return str(self.cluster.kubectl("-n", NAMESPACE, "logs", "-l", LABEL, "--prefix", "--tail", "-1"))


def changed(run: Run) -> list[str]:
    return [task.name.rpartition(" : ")[2] for task in run.tasks if task.result.get("changed")]


@pytest.fixture
def stage(dev_cluster: Any, tmp_path: Path) -> Iterator[Stage]:
    install_rights(dev_cluster)
    install(dev_cluster)
    dev_cluster.hosts.load_image("scheduler", say)
    it = Stage(dev_cluster, tmp_path)
    try:
        yield it
    finally:
        for one in it.api.list(kinds.POD, it.world.name):
            it.world.delete(kinds.POD, one["metadata"]["name"])
        eventually(lambda: not it.api.list(kinds.POD, it.world.name), SECONDS, "the pods go")
        it.world.clear()
        it.controller.stop()
        it.play(scheduler_state="absent", scheduler_force=True, scheduler_kube_scheduler=False)
        ssh(dev_cluster, MASTER, f"rm -rf {MANIFEST} {FOLDER} {CONFIG} {WHO}")
        it.ground.clean()


def test_a_static_kube_scheduler_asks_the_extender_s_pods(stage: Stage) -> None:
    disk = stage.ground.plug()
    stage.world.storage_class(waits=True)
    stage.ground.declare(**{disk: {"storage_class": stage.world.name}})
    stage.ground.agent.start()
    text = stage.static_scheduler()

    planned = stage.play("--check", "--diff").ok()
    assert changed(planned)
    for key in (stage.tls["scheduler_extender_tls"]["key"], stage.tls["scheduler_kube_scheduler_tls"]["key"]):
        assert key.splitlines()[1] not in planned.output
    assert stage.read(MANIFEST) == text.strip()
    assert stage.api.find(kinds.DEPLOYMENT, NAME, NAMESPACE) is None

    uid = stage.mirror()["metadata"]["uid"]
    stage.play("--diff").ok()
    assert len(stage.api.list(kinds.POD, NAMESPACE, labels=LABEL)) == 2
    assert all(ready(pod) for pod in stage.api.list(kinds.POD, NAMESPACE, labels=LABEL))
    assert stage.mirror()["metadata"]["uid"] != uid, "the kubelet has started it anew"
    made = yaml.safe_load(stage.read(f"{FOLDER}/kube-scheduler.yaml"))
    assert [one["urlPrefix"] for one in made["extenders"]] == [f"https://{ADDRESS}:9811"]
    assert made["profiles"] == [{"schedulerName": STOCK}], "what it read by itself"
    assert out(stage.cluster, MASTER, f"stat -c %a {FOLDER} {FOLDER}/client.key").split() == ["700", "600"]
    assert changed(stage.play().ok()) == []

    # It is asked about a pod with a disk, and about no other.
    stage.ground.wait_phase(disk, "Available")
    size = {"requests": {"storage": "32Mi"}}
    claim = {"storageClassName": stage.world.name, "accessModes": ["ReadWriteOnce"], "resources": size}
    stage.create(kinds.PVC, "data", claim)
    stage.create(kinds.POD, "plain", asks("true", STOCK))
    resources = {"requests": {MANAGED: "1"}, "limits": {MANAGED: "1"}}
    wants = asks(
        "echo kept > /data/file; sync", STOCK, resources=resources, volumeMounts=[{"name": "v", "mountPath": "/data"}]
    )
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    stage.create(kinds.POD, "db", {**wants, "volumes": volumes})
    stage.runs("plain")
    assert stage.runs("db") == ON
    assert stage.ground.object(disk)["spec"]["claimRef"]["claim"] == "data"
    bound = [line for line in stage.logs().splitlines() if " msg=bound " in line]
    assert [f"{stage.world.name}/db" in line for line in bound] == [True], bound

    # A file that kube-scheduler reads by itself, and changes, is taken up by the next run.
    ssh(stage.cluster, MASTER, f"echo 'parallelism: 8' >> {CONFIG}")
    assert changed(stage.play().ok()) == ["Its configuration, with the extender", "The static pod reads it"]
    assert yaml.safe_load(stage.read(f"{FOLDER}/kube-scheduler.yaml"))["parallelism"] == 8

    assert changed(stage.play("--check", scheduler_state="absent").ok())
    assert "--config=/etc/kubernetes/berth/" in stage.read(MANIFEST)
    stage.play(scheduler_state="absent").ok()
    assert out(stage.cluster, MASTER, f"sha256sum < {MANIFEST}").split()[0] == sha256(text.encode()).hexdigest()
    assert out(stage.cluster, MASTER, f"ls -A {FOLDER} $(dirname {MANIFEST})").split() == [
        f"{FOLDER}:",
        f"{Path(MANIFEST).parent}:",
        "kube-scheduler.yaml",
    ]
    assert stage.api.find(kinds.DEPLOYMENT, NAME, NAMESPACE) is None
    assert ready(stage.mirror())
    assert changed(stage.play(scheduler_state="absent").ok()) == []
