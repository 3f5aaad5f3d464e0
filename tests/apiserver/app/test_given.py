"""A manifest of several documents, as kubectl had it, on the real API server: applied once, removed by its labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.apiserver.app.runner import SPEC, STATUS, run
from tests.apiserver.app.world import local_disk, params
from tests.support.team import options, team

LABELS = {"app": "pg"}
CONTAINER = {
    "name": "main",
    "image": "berth.local/busybox:1",
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "berth-test",
        "resources": {"requests": {"storage": "100Mi"}},
    },
}
SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "pg", "labels": {"team": "a"}},
    "spec": {
        "serviceName": "pg-heads",
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "minReadySeconds": 1,
        "revisionHistoryLimit": 3,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [CONTAINER]},
        },
        "volumeClaimTemplates": [CLAIM],
    },
}
HEADS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "pg-heads"},
    "spec": {"clusterIP": "None", "selector": LABELS, "ports": [{"port": 5432}]},
}
CLIENTS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "pg"},
    "spec": {"selector": LABELS, "ports": [{"name": "sql", "port": 5432, "targetPort": 5432}]},
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pg"}, "data": {"a": "1", "b": "2"}}


@pytest.fixture
def ours() -> str:
    """The team's namespace; of one that goes, the name is not free at once."""
    return f"team-{uuid4().hex[:6]}"


@pytest.fixture
def world(app_world, kubeconfig, ours):
    for index in range(2):
        app_world.add_disk(local_disk(f"fake-{index}", 0))
    with team(kubeconfig, ours):
        yield app_world
        app_world.clear()


@pytest.fixture
def asked(kubeconfig, tmp_path, ours):
    """The options of the app, as a team's account; the file is the manifest."""
    path = tmp_path / "pg.yml"
    write(path, HEADS, SET, CLIENTS, CONFIG)
    left_out = ("template", "disks", "replicas", "pod_management_policy")
    base = {key: value for key, value in params("pg", kubeconfig).items() if key not in left_out}
    return {**base, "namespace": ours, "src": str(path), **options(ours)}


def write(path: str | Path, *documents: dict[str, Any]) -> None:
    Path(path).write_text(yaml.safe_dump_all(documents))


def writes(result: dict[str, Any]) -> int:
    return sum(result["requests"].get(verb, 0) for verb in ("create", "replace", "apply", "patch", "delete"))


def test_a_whole_manifest_is_applied_changed_and_removed(world, asked, ours):
    seen = run(asked, check=True)
    assert (seen["changed"], writes(seen)) == (True, 0), seen
    shown = seen["diff"]["after"]["objects"]
    names = [
        f"{kind} {ours}/{name}" for kind, name in (("Service", "pg"), ("Service", "pg-heads"), ("ConfigMap", "pg"))
    ]
    assert set(names) <= set(shown)
    made = run({**asked, "wait": True})
    assert [row["phase"] for row in made["berths"]] == ["Running"] * 2, made
    there = world.client.get(world.kinds.STATEFUL_SET, "pg", ours)
    for field in ("serviceName", "replicas", "podManagementPolicy", "minReadySeconds", "revisionHistoryLimit"):
        assert there["spec"][field] == SET["spec"][field]
    assert there["spec"]["updateStrategy"] == {"type": "OnDelete"}, "the module brings templates to the pods"
    assert there["metadata"]["labels"]["team"] == "a"
    assert world.client.get(world.kinds.SERVICE, "pg", ours)["spec"]["ports"][0]["name"] == "sql"
    again = run(asked)
    assert (again["changed"], writes(again)) == (False, 0), again

    write(asked["src"], HEADS, SET, CLIENTS, {**CONFIG, "data": {"a": "1"}})
    seen = run(asked, check=True)
    assert (seen["changed"], writes(seen)) == (True, 0)
    key = f"ConfigMap {ours}/pg"
    assert list(seen["diff"]["after"]["objects"]) == [key, f"StatefulApp {ours}/pg"]
    changed = run(asked)
    assert changed["trace"] == [SPEC, "apply ConfigMap", STATUS], changed
    assert world.client.get(world.kinds.CONFIG_MAP, "pg", ours)["data"] == {"a": "1"}

    del asked["src"]
    seen = run({**asked, "state": "absent"}, check=True)
    assert {*names, f"StatefulSet {ours}/pg", f"StatefulApp {ours}/pg"} == set(seen["diff"]["before"]["objects"])
    gone = run({**asked, "state": "absent"})
    assert gone["changed"] is True, gone
    for kind in (world.kinds.SERVICE, world.kinds.CONFIG_MAP, world.kinds.STATEFUL_SET):
        assert [one["metadata"]["name"] for one in world.client.list(kind, ours)] in ([], ["kube-root-ca.crt"])
    assert run({**asked, "state": "absent"})["changed"] is False


def test_nothing_of_it_takes_over_what_is_there_already(world, asked, ours):
    world.client.create(world.kinds.CONFIG_MAP, {**CONFIG, "metadata": {"name": "pg", "namespace": ours}})
    refused = run(asked)
    assert f"ConfigMap {ours}/pg is there and does not belong to the app pg" in refused["msg"]
    assert (writes(refused), world.berths()) == (0, {})


def test_what_the_api_server_refuses_of_it_is_refused_before_anything_is_written(world, asked):
    write(asked["src"], HEADS, SET, {**CLIENTS, "spec": {**CLIENTS["spec"], "ports": [{"port": 0}]}})
    refused = run(asked)
    assert "spec.ports[0].port" in refused["msg"]
    assert "nothing was written" in refused["msg"]
    assert (writes(refused), world.berths()) == (0, {})
