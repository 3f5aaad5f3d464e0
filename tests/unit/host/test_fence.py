"""Two who would prepare one disk at once, and a playbook beside an agent: a real loop device, a real lock file."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import StateError as ShippedError
from ansible_collections.berth.stateful.plugins.modules import disk_filesystem
from berth_core.app.fsid import filesystem_uuid
from berth_core.errors import BerthError, DataError, StateError
from berth_host import agent_lock, filesystems, mkfs
from berth_host.machine import Machine
from tests.core.app.disk_samples import held, local_disk
from tests.unit.host.test_blank import Loop, prepare

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"), pytest.mark.promise]


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    made = Loop(tmp_path / "disk")
    yield made
    subprocess.run(["umount", "--quiet", str(tmp_path / "disks" / "h1-d0")], check=False)
    subprocess.run(["losetup", "--detach", made.device], check=True)


def test_of_two_runs_with_different_locks_one_formats_and_the_other_is_refused(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, made = threading.Barrier(2), []
    make, look = mkfs.make, filesystems.locked

    def counted(machine: Machine, plan: Any, lock: int) -> None:
        made.append(plan.uuid)
        make(machine, plan, lock)

    def both(name: str, device: str) -> Any:
        together.wait(30)  # both have looked at a blank disk
        return look(name, device)

    monkeypatch.setattr(mkfs, "make", counted)
    monkeypatch.setattr(filesystems, "locked", both)

    def one(uid: str) -> Any:
        try:
            return prepare(loop, tmp_path / "disks", monkeypatch, held(uid, uid))[1]
        except BerthError as exc:
            return exc

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(one, ("u1", "u2")))
    (refused,) = (each for each in answers if isinstance(each, BerthError))
    assert isinstance(refused, DataError)
    assert "carries ext4" in refused.message
    assert ["formatted", "namespace link", "mounted", "data directory"] in answers
    winner = "u1" if isinstance(answers[1], BerthError) else "u2"
    assert made == [filesystem_uuid(winner, "h1-d0")]


def test_a_run_that_waited_for_the_device_makes_nothing_for_what_it_knew_before(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystems, "_FRESH_SECONDS", 0.2)
    before = loop.content()
    holder = os.open(loop.device, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    timer, look = threading.Timer(0.8, os.close, [holder]), filesystems.locked

    def late(name: str, device: str) -> Any:
        timer.start()
        return look(name, device)

    monkeypatch.setattr(filesystems, "locked", late)
    with pytest.raises(StateError, match="may be another one since: nothing was made, try again"):
        prepare(loop, tmp_path / "disks", monkeypatch)
    assert loop.content() == before
    monkeypatch.setattr(filesystems, "locked", look)
    assert "formatted" in prepare(loop, tmp_path / "disks", monkeypatch)[1]


AGENT = """
import sys, time
from berth_agent.single import HostLock
lock = HostLock(sys.argv[1])
print(lock.take(), flush=True)
time.sleep(600)
"""


@contextmanager
def agent(state: str) -> Iterator[tuple[int, bool]]:
    """The process that an agent's start is, as far as its lock: its pid, and whether it has the lock."""
    command = [sys.executable, "-c", AGENT, state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline() == "True\n"
        finally:
            process.kill()


def test_nothing_is_prepared_beside_an_agent_and_no_agent_begins_meanwhile(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    params = {"disk": local_disk(), "state": "prepared", "mount_root": str(tmp_path)}
    with agent(state) as (pid, alone):
        assert alone
        with pytest.raises(ShippedError, match=rf"an agent \(pid {pid}\) works on this host"):
            disk_filesystem.run({**params, "agent_state_directory": state}, False)
    # Two playbooks, each for a disk of its own; the agent stands back.
    with agent_lock.no_agent(state), agent_lock.no_agent(state), agent(state) as (_pid, alone):
        assert not alone
    with agent(state) as (_pid, alone):
        assert alone
