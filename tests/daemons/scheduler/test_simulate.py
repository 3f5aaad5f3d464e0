"""berth-scheduler simulate: what-if over files, without an API server."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "local.berth.dev",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def pod(name: str, cpu: str = "1", on: str = "", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    if on:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": containers, **spec},
    }


def disk(name: str, on: str) -> dict[str, Any]:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "LocalDisk",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"nodeName": on, "identity": {"serial": name, "size": 1 << 30}, "storageClassName": "fast"},
        "status": {"phase": "Available", "observed": {}},
    }


def claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "500Mi"}},
        },
        "status": {"phase": "Pending"},
    }


class Done(NamedTuple):
    """What the command did."""

    returncode: int
    stdout: str
    stderr: str


def run(tmp_path: Path, documents: list[Any] | str, *flags: str) -> Done:
    """The command, in this process: a Python of its own for each case would take longer than all of them."""
    from berth_scheduler.__main__ import main

    file = tmp_path / "cluster.yaml"
    file.write_text(documents if isinstance(documents, str) else yaml.safe_dump_all(documents))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["simulate", str(file), *flags])
    return Done(code, out.getvalue(), err.getvalue())


def answer(tmp_path: Path, documents: list[Any], *flags: str) -> dict[str, Any]:
    done = run(tmp_path, documents, "--output", "json", *flags)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_pods_are_placed_by_priority_and_each_counts(tmp_path: Path) -> None:
    whole = {"apiVersion": "v1", "kind": "NodeList", "items": [node("a", "2"), node("b", "1")]}
    del whole["items"][0]["kind"]
    found = answer(
        tmp_path, [whole, pod("late", "2"), pod("first", "2", priority=9), pod("small"), pod("there", on="x")]
    )
    assert [(one["pod"], one["node"]) for one in found["pods"]] == [
        ("default/first", "a"),
        ("default/late", None),
        ("default/small", "b"),
    ]
    assert (found["placed"], found["unplaced"]) == (2, 1)
    assert found["room"]["cpu"] == {"allocatable": 3000, "requested": 3000}
    assert found["pods"][1]["why"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_as_a_program(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [node("a"), pod("web")]}))
    argv = [sys.executable, "-m", "berth_scheduler", "simulate", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "default/web -> a"), done.stderr


def test_how_many_more_would_fit(tmp_path: Path) -> None:
    found = answer(tmp_path, [node("a"), pod("web")], "--times", "6")
    assert (found["placed"], found["unplaced"]) == (4, 2)


def test_whose_room_could_be_had(tmp_path: Path) -> None:
    done = run(tmp_path, [node("a"), pod("old", "3", on="a", priority=0), pod("new", "3", priority=5)])
    assert done.returncode == 1
    assert "  by preemption: a, without default/old\n" in done.stdout
    assert "0 of 1 pods have a place\n" in done.stdout
    assert "cpu: 3000 of 4000 requested (75.0 %)\n" in done.stdout


def test_what_a_driver_reports_that_it_can_make(tmp_path: Path) -> None:
    driver = {"kind": "CSIDriver", "metadata": {"name": "csi.it"}, "spec": {"storageCapacity": True}}
    room = {"kind": "CSIStorageCapacity", "metadata": {"name": "c", "namespace": "it"}, "storageClassName": "fast"}
    room |= {"nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "b"}}, "capacity": "1Gi"}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    documents = [
        {**CLASS, "provisioner": "csi.it"},
        driver,
        node("a"),
        node("b"),
        claim("data"),
        pod("p", volumes=volumes),
    ]
    (found,) = answer(tmp_path, documents)["pods"]
    assert found["why"].startswith("0/2 nodes are available: 2 node(s) did not have enough free storage.")
    (found,) = answer(tmp_path, [*documents, room])["pods"]
    assert found["node"] == "b"


def test_local_disks_are_given_once(tmp_path: Path) -> None:
    def uses(name: str) -> list[Any]:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
        return [claim(f"data-{name}"), pod(name, volumes=volumes)]

    documents = [CLASS, node("a"), node("b"), disk("d", "b"), *uses("one"), *uses("two")]
    found = answer(tmp_path, documents)
    assert found["pods"][0] == {"pod": "default/one", "node": "b", "disks": {"data": "d"}, "devices": {}}
    assert found["pods"][1]["node"] is None
    assert "local disk" in found["pods"][1]["why"]


def test_gates_and_profiles(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    disabled = {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}}
    profiles = [{"schedulerName": "strict"}, {"schedulerName": "lax", "plugins": disabled}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(json.dumps({**head, "profiles": profiles}))
    documents = [node("a", "1"), pod("big", "2"), pod("gated", schedulingGates=[{"name": "later"}])]
    flags = ("--config", str(config), "--profile")
    strict, lax = answer(tmp_path, documents, *flags, "strict"), answer(tmp_path, documents, *flags, "lax")
    assert [one["node"] for one in strict["pods"]] == [None, None]
    assert [one["node"] for one in lax["pods"]] == ["a", None]
    assert lax["pods"][1]["why"] == "waits for its scheduling gates: later"
    done = run(tmp_path, documents, *flags, "loose")
    assert (done.returncode, done.stderr) == (
        2,
        "berth-scheduler: --profile: expected one of strict, lax, got 'loose'\n",
    )


@pytest.mark.parametrize(
    ("documents", "flags", "said"),
    [
        ("a: [", (), "is neither YAML nor JSON"),
        ("- 1", (), "document 1: expected an object of the API with its kind, got '[1]'"),
        ("kind: NodeList\nitems: 3", (), "expected items to be a list"),
        ("kind: PodList\nitems: [3]", (), "items[0]: expected an object"),
        ("kind: Pod\nmetadata: {name: p}\nspec: {priority: high}", (), "pod default/p: spec.priority must be an int"),
        ("kind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: many}}", (), "many"),
        ("{}", ("--times", "0"), "--times is '0': expected 1 to 100000"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, documents: str, flags: tuple[str, ...], said: str) -> None:
    done = run(tmp_path, documents, *flags)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
