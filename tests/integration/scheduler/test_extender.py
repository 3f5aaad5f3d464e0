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

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.config.stock import MANAGED
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.core.config.test_static_pod import KUBEADM
from tests.daemons.controller.world import Process, kubeconfig
from tests.dev.hosts_help import eventually, out, ssh
from tests.integration.scheduler import stage as ground
from tests.integration.scheduler.stage import IMAGE, NAMESPACE, ON, asks, changed, ready
from tests.support.certificates import authority, pem
from tests.support.hosts import run_plays
from tests.support.playbook import Run

NAME = "berth-scheduler-extender"
STOCK = "static-scheduler"  # the name of the profile
MASTER = "h1"  # the control-plane host
ADDRESS = "10.250.0.211"
MANIFEST, FOLDER = "/etc/kubernetes/manifests/kube-scheduler.yaml", "/etc/kubernetes/berth"
CONFIG, WHO = "/etc/kubernetes/scheduler-config.yaml", "/etc/kubernetes/scheduler.conf"
SECONDS = 240.0
pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(900)]


class Stage(ground.Stage):
    """The extender's pods, a static kube-scheduler that asks them, and the controller."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        super().__init__(cluster, folder, f"app.kubernetes.io/instance={NAME}", SECONDS)
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
            "scheduler_image": IMAGE,
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

    def told(self) -> str:
        return f"{super().told()}\n{self.controller.text()}"


@pytest.fixture
def stage(dev_cluster: Any, tmp_path: Path) -> Iterator[Stage]:
    it = Stage(dev_cluster, tmp_path)
    try:
        yield it
    finally:
        it.clear()
        it.controller.stop()
        if it.api.find(kinds.DEPLOYMENT, NAME, NAMESPACE):  # the story has ended before its end
            it.play(scheduler_state="absent", scheduler_force=True, scheduler_kube_scheduler=False)
        ssh(dev_cluster, MASTER, f"rm -rf {MANIFEST} {FOLDER} {CONFIG} {WHO}")
        it.ground.clean()


def test_a_static_kube_scheduler_asks_the_extender_s_pods(stage: Stage) -> None:
    disk = stage.ready_disk()
    text = stage.static_scheduler()

    planned = stage.play("--check", "--diff").ok()
    assert changed(planned)
    for key in (stage.tls["scheduler_extender_tls"]["key"], stage.tls["scheduler_kube_scheduler_tls"]["key"]):
        assert key.splitlines()[1] not in planned.output
    assert stage.read(MANIFEST) == text.strip()
    assert stage.api.find(kinds.DEPLOYMENT, NAME, NAMESPACE) is None

    uid = stage.mirror()["metadata"]["uid"]
    stage.play("--diff").ok()
    assert len(stage.api.list(kinds.POD, NAMESPACE, labels=stage.label)) == 2
    assert all(ready(pod) for pod in stage.api.list(kinds.POD, NAMESPACE, labels=stage.label))
    assert stage.mirror()["metadata"]["uid"] != uid, "the kubelet has started it anew"
    made = yaml.safe_load(stage.read(f"{FOLDER}/kube-scheduler.yaml"))
    assert [one["urlPrefix"] for one in made["extenders"]] == [f"https://{ADDRESS}:9811"]
    assert made["profiles"] == [{"schedulerName": STOCK}], "what it read by itself"
    assert out(stage.cluster, MASTER, f"stat -c %a {FOLDER} {FOLDER}/client.key").split() == ["700", "600"]
    assert changed(stage.play().ok()) == []

    # It is asked about a pod with a disk, and about no other.
    stage.ground.wait_phase(disk, "Available")
    stage.create(kinds.PVC, "data", stage.claim())
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

    # A file that kube-scheduler reads by itself, and changes, is taken up by the next run. That the kubelet starts it
    # anew for another manifest is seen before and after: here nobody waits for it.
    ssh(stage.cluster, MASTER, f"echo 'parallelism: 8' >> {CONFIG}")
    assert changed(stage.play(scheduler_wait=False).ok()) == [
        "Its configuration, with the extender",
        "The static pod reads it",
    ]
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
