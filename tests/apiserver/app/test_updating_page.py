"""The playbook of docs/guides/updating.md with tasks before and after each replica, run as the page shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.apiserver.app.test_stateful_app import NODES
from tests.apiserver.app.world import local_disk
from tests.support import pages
from tests.support.playbook import environment

PAGE = pages.ROOT / "docs" / "guides" / "updating.md"
FILES = ("update.yml", "one.yml")


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    app_world.clear()


def manifest(image):
    """The reader's postgres.yml."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    pod = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "db", "image": image, "volumeMounts": mounts}]}
    requests = {"resources": {"requests": {"storage": "100Mi"}}}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "berth-test", **requests}
    labels = {"app": "postgres"}
    spec = {"replicas": 3, "serviceName": "postgres", "podManagementPolicy": "Parallel"}
    spec |= {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "postgres"}, "spec": spec}


def play(folder: Path, kubeconfig):
    record = folder / "record.jsonl"
    record.unlink(missing_ok=True)
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local", FILES[0]]
    env = environment(record, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tasks_stand_before_and_after_each_replica(world, kubeconfig, tmp_path):
    shown = pages.files(PAGE)
    for name in FILES:
        (tmp_path / name).write_text(shown[name], encoding="utf-8")
    told = []
    for image in ("berth.local/busybox:1", "berth.local/busybox:2"):
        (tmp_path / "postgres.yml").write_text(yaml.safe_dump(manifest(image)), encoding="utf-8")
        told = re.findall(r"postgres-(\d) is (about|Ready)", play(tmp_path, kubeconfig))
    assert told == [(ordinal, when) for ordinal in "210" for when in ("about", "Ready")]
    pods = world.client.list(world.kinds.POD, "default", labels="berth.dev/app=postgres")
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["berth.local/busybox:2"] * 3
    world.check()
