"""The fixtures' own promise: a test run that is killed leaves nothing that the next one does not remove."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from berth_dev import processes
from berth_dev.pytest_plugin import remove_abandoned
from berth_dev.state import ClusterDir, write_atomically

ABANDON = """
import sys, time
from berth_dev.pytest_plugin import temporary_cluster
with temporary_cluster(hosts=0) as cluster:
    print(cluster.folder.path, flush=True)
    time.sleep(60)
"""


def test_a_killed_run_is_cleaned_up_by_the_next(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", ABANDON],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert run.stdout is not None
    with run.stdout:
        folder = ClusterDir(run.stdout.readline().strip())
    assert folder.alive("kube-apiserver")
    tag = folder.tag
    assert remove_abandoned(tmp_path) == [], "its run still lives"
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert folder.alive("kube-apiserver"), "which is what there is to clean up"
    assert remove_abandoned(tmp_path) == [folder.path]
    assert list(processes.tagged(tag)) == []
    assert list(tmp_path.glob("berth-*")) == []


def test_the_cluster_of_a_living_run_is_left_alone(tmp_path: Path) -> None:
    owner = tmp_path / "berth-x" / "owner.json"
    owner.parent.mkdir()
    write_atomically(owner, json.dumps(asdict(processes.myself())))
    folder = ClusterDir(owner.parent / "tx")
    folder.create()
    assert remove_abandoned(tmp_path) == []
    assert folder.exists()
