"""kubectl-berth on a real API server, called by the real kubectl as its plugin `berth`."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    BERTH,
    LOCAL_DISK,
    POD,
    STATEFUL_APP,
    TASK,
    TASK_BATCH,
)
from berth_cli.__main__ import main
from tests.support.kube import forget
from tests.support.small_cluster import Gi, put, small_cluster

pytestmark = pytest.mark.usefixtures("crds")
#: Clears a terminal.
ESCAPE = "\x1b[2Jx"


@pytest.fixture
def cluster(api: ApiClient, name: str, namespace: str) -> Iterator[str]:
    with small_cluster(api, name, namespace):
        observed = {"observed": {"devicePath": "/dev/sdz", "health": "Faulted", "holders": [ESCAPE]}}
        api.patch(LOCAL_DISK, f"{name}-5-broken", None, {"status": observed}, subresource="status")
        yield name


class Berth:
    """The command in this process: as the shell would call it, without the second that a Python takes to begin."""

    def __init__(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.kubeconfig, self.capsys = kubeconfig, capsys

    def __call__(self, *args: str, status: int = 0) -> str:
        """What it says: on its standard error where the status is one of an error."""
        try:
            ended = main([*args, "--kubeconfig", str(self.kubeconfig)])
        except SystemExit as exc:
            ended = int(exc.code or 0)
        out, err = self.capsys.readouterr()
        assert ended == status, (ended, out, err)
        return err if status > 1 else out

    def json(self, *args: str, status: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*args, "-o", "json", status=status))
        return found


@pytest.fixture
def berth(control_plane: Any, capsys: pytest.CaptureFixture[str]) -> Berth:
    return Berth(control_plane.kubeconfig, capsys)


def test_kubectl_calls_it(control_plane: Any, cluster: str, tmp_path: Path) -> None:
    """The plugin alone in a folder on the PATH, as an installation would put it there."""
    plugin = tmp_path / "kubectl-berth"
    plugin.write_text(f"#!{sys.executable}\nimport sys\nfrom berth_cli.__main__ import main\nsys.exit(main())\n")
    plugin.chmod(0o755)
    if hasattr(control_plane, "bin_dir"):  # a cluster of somebody else has its kubectl on the PATH
        (tmp_path / "kubectl").symlink_to(control_plane.bin_dir / "kubectl")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(control_plane.kubeconfig)}

    def kubectl(*args: str) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "berth", *args]
        return subprocess.run(command, env=env, text=True, capture_output=True, timeout=300, check=False)

    shown = kubectl("show", "-A", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    assert f"{cluster}-1-free" in [disk["name"] for disk in json.loads(shown.stdout)["disks"]]
    wrong = kubectl("sink")
    assert (wrong.returncode, "invalid choice: 'sink'" in wrong.stderr) == (2, True)


def test_show(berth: Berth, cluster: str, namespace: str) -> None:
    text = berth("show", "-n", namespace)
    lines = [line.split() for line in text.splitlines()]
    assert [namespace, "db", "0", "Reserved", f"{cluster}-a", "-", "-", "-"] in lines
    assert [f"{cluster}-a", f"{cluster}-2-held", "fast", "2Gi", "Locked", f"{namespace}/db-0", "data"] in lines
    assert f"data of {namespace}/db-0" in text
    assert f"{namespace}/db-0(300)" in text
    assert f"{cluster}-1-free" not in text, "free disks are nobody's, and of no namespace"
    assert f"{cluster}-1-free" in berth("show", "-A")
    found = berth.json("show", "-n", namespace, "--app", "db")
    assert ([row["name"] for row in found["berths"]], len(found["disks"])) == (["db-0"], 2)
    assert berth.json("show", "-n", namespace, "--app", "dc") == {"berths": [], "disks": [], "devices": []}


def test_show_calls_a_claim_by_its_pod(berth: Berth, api: ApiClient, name: str, namespace: str) -> None:
    """Its Berth has the claim's uid for a name, which tells a person nothing."""
    record, disk = f"pvc-{uuid4()}", f"{name}-claimed"
    of_claim = {"app": "pvc.data-pg-1", "ordinal": 0}
    told = {"phase": "Running", "podName": "pg-1", "workload": "StatefulSet pg"}
    lock = {"namespace": namespace, "name": record, "uid": "u", "claim": "data-pg-1", "dataUID": "u", **of_claim}
    identity = {"serial": disk, "size": Gi}
    spec = {"nodeName": name, "identity": identity, "storageClassName": "fast", "claimRef": lock}
    put(api, BERTH, record, namespace, told, spec={**of_claim, "nodeName": name})
    put(api, LOCAL_DISK, disk, status={"phase": "InUse"}, spec=spec)
    try:
        text = berth("show", "-n", namespace)
    finally:
        forget(api, LOCAL_DISK, disk)
        api.delete(BERTH, record, namespace)
    (held,) = [line for line in text.splitlines() if disk in line]
    assert f"{namespace}/pg-1 (StatefulSet pg)   data-pg-1" in held
    assert text.count("pg-1 (StatefulSet pg)") == 2, "and the row of its Berth"
    assert record not in text


def test_apps(berth: Berth, api: ApiClient, namespace: str) -> None:
    assert berth.json("apps", "-n", namespace) == {"apps": []}
    named = {"apiVersion": STATEFUL_APP.api_version, "kind": STATEFUL_APP.kind}
    spec = {"replicas": 2, "driver": "controller", "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    api.create(STATEFUL_APP, {**named, "metadata": {"name": "db", "namespace": namespace}, "spec": spec})
    text = berth("apps", "-n", namespace)
    assert [namespace, "db", "controller", "0/2", "-", "WaitsForDriver", "-"] in [
        one.split()[:7] for one in text.splitlines()
    ]
    told = {"type": "Stalled", "status": "True", "reason": "Blocked", "message": ESCAPE}
    told["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    conditions = [told, {**told, "type": "Ready", "status": "False"}]
    api.patch(STATEFUL_APP, "db", namespace, {"status": {"replicas": 2, "conditions": conditions}}, "status")
    assert "Blocked" in berth("apps", "-n", namespace, "--app", "db", status=1)
    assert ESCAPE not in berth("apps", "-A", status=1)
    unknown = berth("apps", "-n", namespace, "--app", "dc", status=2)
    assert f"namespace {namespace} has no StatefulApp dc" in unknown


def test_tasks(berth: Berth, api: ApiClient, namespace: str) -> None:
    assert berth.json("tasks", "-n", namespace) == {"tasks": [], "batches": []}
    named = {"apiVersion": TASK.api_version, "kind": TASK.kind}
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    for name, queue in (("hash", "default"), ("sum", "nightly")):
        meta = {"name": name, "namespace": namespace}
        api.create(TASK, {**named, "metadata": meta, "spec": {"queue": queue, "template": template}})
    ended = {"state": "Failed", "tries": 2, "node": "n1", "exitCode": 75, "reason": "Error", "message": ESCAPE}
    api.patch(TASK, "hash", namespace, {"status": ended}, "status")
    lines = [one.split() for one in berth("tasks", "-A").splitlines()]
    assert lines[0] == ["NAMESPACE", "TASK", "QUEUE", "STATE", "TRIES", "NODE", "EXIT", "AGE", "REASON"]
    (line,) = (one for one in lines if one[:2] == [namespace, "hash"])
    assert (line[2:7], line[8:]) == (["default", "Failed", "2", "n1", "75"], ["Error"])
    assert re.fullmatch(r"\d+s", line[7])
    (row,) = berth.json("tasks", "-n", namespace, "-q", "nightly")["tasks"]
    assert (row["name"], row["state"], row["exit_code"]) == ("sum", "Submitted", None)
    api.patch(TASK, "sum", namespace, {"status": {"reason": "UnknownQueue"}}, "status")
    assert "UnknownQueue" in berth("tasks", "-n", namespace, status=1)
    assert "--queue is 'No'" in berth("tasks", "-q", "No", status=2)
    batch = {"apiVersion": TASK_BATCH.api_version, "kind": TASK_BATCH.kind, "metadata": {**meta, "name": "many"}}
    api.create(TASK_BATCH, {**batch, "spec": {"count": 9, "queue": "nightly", "template": template}})
    counts = {"succeeded": 5, "failed": 1, "killed": 0, "left": 3, "running": 2}
    began = (datetime.now(UTC) - timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    reasons = [{"reason": "Error", "exitCode": 75, "count": 1, "example": "7"}]
    status = {"state": "Running", "counts": counts, "startedAt": began, "reasons": reasons}
    api.patch(TASK_BATCH, "many", namespace, {"status": status}, "status")
    for asked in (("-q", "nightly"), ("many",)):
        told = berth("tasks", "-n", namespace, *asked, status=int("-q" in asked)).splitlines()
        lines = [one.split() for one in told[-5:]]
        assert lines[0][4:10] == ["DONE", "RUNNING", "FAILED", "KILLED", "RATE", "ETA"]
        assert lines[1][:8] == [namespace, "many", "nightly", "Running", "6/9", "2", "1", "0"]
        assert re.fullmatch(r"0\.0\d+/s", lines[1][8])
        assert re.fullmatch(r"3\ds", lines[1][9])
        assert lines[2:] == [
            [],
            ["NAMESPACE", "BATCH", "FAILED", "REASON", "EXIT", "AS"],
            [namespace, "many", "1", "Error", "75", "7"],
        ]
    (row,) = berth.json("tasks", "-n", namespace, "many")["batches"]
    assert (row["progress"]["ended"], row["progress"]["total"], row["counts"]) == (6, 9, counts)
    assert "TASK|BATCH is 'No'" in berth("tasks", "No", status=2)
    missing = berth("tasks", "-n", namespace, "less", status=2)
    assert f"namespace {namespace} has neither a Task nor a TaskBatch less (-n names another namespace)" in missing


def test_kept_data_goes_by_the_commands_that_are_shown(
    berth: Berth, api: ApiClient, cluster: str, namespace: str, control_plane: Any
) -> None:
    disk = f"{cluster}-3-kept"
    (kept,) = [one for one in berth.json("show", "-n", namespace)["disks"] if one["name"] == disk]
    written = datetime.fromisoformat(kept["retained_for"]["since"])
    assert abs((datetime.now(UTC) - written).total_seconds()) < 600
    text = berth("show", "-n", namespace)
    assert f"app db, ordinal 0, claim data, in namespace {namespace}, since {kept['retained_for']['since']}" in text
    commands = [line.partition(": ")[2] for line in text.splitlines() if f"{disk}" in line and "ansible " in line]
    give_up, destroy = map(shlex.split, commands)

    def run(*command: str) -> str:
        env = {**os.environ, "K8S_AUTH_KUBECONFIG": str(control_plane.kubeconfig), "ANSIBLE_NOCOLOR": "1"}
        words = [str(Path(sys.executable).parent / command[0]), *command[1:]]
        done = subprocess.run(words, env=env, text=True, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert f'"serial": "{disk}"' in " ".join(destroy), "the identity is repeated"
    would = run(*destroy, "--check")
    assert '"destroyed": {' in would, would
    assert '"app": "db"' in would, "whose data it is"
    assert api.get(LOCAL_DISK, disk)["spec"].get("retainedFor")
    run(*give_up)
    assert "retainedFor" not in api.get(LOCAL_DISK, disk)["spec"]
    assert "KEPT DATA" not in berth("show", "-n", namespace)


def test_top(berth: Berth, cluster: str) -> None:
    found = berth.json("top")
    nodes = {node["name"]: node for node in found["nodes"]}
    first, second = nodes[f"{cluster}-a"], nodes[f"{cluster}-b"]
    assert (first["disks"]["free_bytes"], first["used_percent"]) == (Gi, 95)
    assert (second["disks"]["free_bytes"], second["used_percent"]) == (7 * Gi, 0)
    text = berth("top")
    (line,) = [line for line in text.splitlines() if line.startswith(f"{cluster}-a ")]
    assert "1 of 6" in line
    assert "1Gi of 21Gi" in line
    assert "700 of 1000" in line


def test_explain(berth: Berth, api: ApiClient, cluster: str, namespace: str) -> None:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "64"}}}
    api.create(
        POD,
        {
            "metadata": {"name": "wide", "namespace": namespace},
            "spec": {"containers": [container], "automountServiceAccountToken": False, "schedulerName": "nobody"},
        },
    )
    text = berth("explain", "wide", "-n", namespace, status=1)
    assert "Insufficient cpu" in text
    (replica,) = berth.json("explain", "wide", "-n", namespace, status=1)["replicas"]
    assert (replica["fits"], replica["nodes"][f"{cluster}-a"]["fits"]) == (False, False)
    assert f"is on node {cluster}-a" in berth("explain", "here", "-n", namespace)
    assert "and no pod" in berth("explain", "db", "-n", namespace)
    assert f"namespace {namespace} has neither a pod nor an app dc" in berth("explain", "dc", "-n", namespace, status=2)


def test_drift(berth: Berth, cluster: str, tmp_path: Path) -> None:
    found = berth.json("drift", status=1)["findings"]
    mine = {one["object"].removeprefix(f"LocalDisk {cluster}-"): one for one in found if cluster in one["object"]}
    assert mine["5-broken"]["kind"] in ("changed", "held_elsewhere")
    assert (mine["2-held"]["kind"], "which is gone" in mine["2-held"]["what"][0]) == ("LockWithoutBerth", True)
    text = berth("drift", status=1)
    assert ESCAPE not in text
    assert "\\x1b[2Jx" in text
    disk = {"name": f"{cluster}-7-other", "node_name": f"{cluster}-b", "storage_class": "slow"}
    (tmp_path / "declared.yml").write_text(yaml.safe_dump([disk]))
    found = berth.json("drift", "--declared", str(tmp_path / "declared.yml"), status=1)["findings"]
    assert [one["what"] for one in found if one["node"] == f"{cluster}-b"] == [["storage_class is fast, declared slow"]]
    (tmp_path / "declared.yml").write_text("{}")
    assert "expected a list of disks" in berth("drift", "--declared", str(tmp_path / "declared.yml"), status=2)


def test_errors(berth: Berth, tmp_path: Path) -> None:
    config = yaml.safe_load(berth.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    berth.kubeconfig = tmp_path / "config"
    assert f"{tmp_path}/config cannot be read" in berth("show", status=2)
    berth.kubeconfig.write_text(yaml.safe_dump(config))
    assert "127.0.0.1:1" in berth("top", "--timeout", "1", status=3)
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    berth.kubeconfig.write_text(yaml.safe_dump(config))
    assert "refused unless it is explicitly allowed" in berth("drift", status=2)
