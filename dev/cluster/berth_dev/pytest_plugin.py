# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The development cluster as pytest fixtures. Called by pytest (tests/conftest.py names it in `pytest_plugins`).

    control_plane   a real control plane without hosts, one for the session
    dev_cluster     one with three real hosts, one for the session; needs root
    vm              a virtual machine with real NVMe and SCSI disks, one for the session; no control plane

Each is started when the first test asks for it and removed at the end of the session, whatever the tests did. With
BERTH_KUBECONFIG in the environment `control_plane` is that existing cluster; tests that want hosts are skipped by name.
With BERTH_VM `vm` is the machine of the cluster of that name (`berth-dev --name NAME vm up`), and stays up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from . import processes
from .cluster import Cluster, Existing
from .qemu import Vm
from .state import write_atomically

EXISTING = "BERTH_KUBECONFIG"
EXISTING_VM = "BERTH_VM"


def say(line: str) -> None:
    """Progress, past pytest's capture: a first build takes minutes and must not look like a hang."""
    stream = sys.__stderr__
    if stream is not None:
        print(f"berth-dev: {line}", file=stream, flush=True)


def remove_abandoned(root: Path) -> list[Path]:
    """Take down the temporary clusters of test runs that were killed before they could. Returns their folders."""
    gone = []
    for owner in root.glob("berth-*/owner.json"):
        with contextlib.ExitStack() as held:
            if _abandoned(owner, held):
                gone += _taken_down(owner.parent)
    return gone


def _abandoned(owner: Path, held: contextlib.ExitStack) -> bool:
    """True when its run is no more, and this user may take it down: `held` keeps other workers from it."""
    try:
        lock = os.open(owner, os.O_RDONLY)
        held.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        run = processes.Identity(**json.loads(owner.read_text(encoding="utf-8")))
    except (FileNotFoundError, BlockingIOError):  # its run has just ended and tidies up; another worker is at it
        return False
    return not processes.alive(run) and owner.stat().st_uid == os.geteuid()


def _taken_down(parent: Path) -> list[Path]:
    folders = list(parent.glob("t*"))
    for folder in folders:
        Cluster(folder).down()
    shutil.rmtree(parent, ignore_errors=True)
    return folders


@contextmanager
def temporary_cluster(hosts: int, fake_nodes: int = 0, node_grace: int | None = None) -> Iterator[Cluster]:
    """A cluster that is up, in a folder of its own; removed on the way out. ``node_grace``: as for `Cluster.up`."""
    with temporary_folder() as cluster:
        cluster.up(hosts=hosts, fake_nodes=fake_nodes, node_grace=node_grace, progress=say)
        yield cluster


@contextmanager
def temporary_folder() -> Iterator[Cluster]:
    """A cluster that is nothing yet, in a folder under the system's temporary folder; removed on the way out."""
    for folder in remove_abandoned(Path(tempfile.gettempdir())):
        say(f"removed {folder}, which a killed test run had left")
    parent = Path(tempfile.mkdtemp(prefix="berth-"))
    write_atomically(parent / "owner.json", json.dumps(asdict(processes.myself())))
    # The folder's name is the cluster's name, which disks and links of its hosts carry: short and its own.
    cluster = Cluster(parent / f"t{parent.name.removeprefix('berth-')}")
    try:
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(parent)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster | Existing]:
    """A real control plane: `.kubeconfig`, `.kubectl(...)`, `.api_url`; a `Cluster` also has `.restart_apiserver()` and
    more."""
    existing = os.environ.get(EXISTING)
    if existing:
        yield Existing(Path(existing))
        return
    # Tests make Nodes here that no kubelet looks after: they stay as they were made, however slow the machine is.
    with temporary_cluster(hosts=0, node_grace=3600) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def dev_cluster() -> Iterator[Cluster]:
    """A cluster with three real hosts."""
    with cluster_of_hosts() as cluster:
        yield cluster


@contextmanager
def cluster_of_hosts(node_grace: int | None = None) -> Iterator[Cluster]:
    """Three real hosts, for a fixture; it skips where there can be none. ``node_grace``: as for `Cluster.up`."""
    if os.environ.get(EXISTING):
        pytest.skip(f"{EXISTING} names an existing cluster, whose hosts the tests must not break")
    if os.geteuid() != 0:
        pytest.skip("real hosts need root")
    with temporary_cluster(hosts=3, node_grace=node_grace) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def vm() -> Iterator[Vm]:
    """A virtual machine that is up. Its disks are as `berth_dev.qemu.model.default_disks` has them: leave them so."""
    existing = os.environ.get(EXISTING_VM)
    if existing:
        machine = Cluster(existing).vm
        machine.up(say)
        yield machine
        return
    with temporary_folder() as cluster:
        cluster.vm.up(say)
        yield cluster.vm
