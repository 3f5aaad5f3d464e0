"""The folder of a cluster: its processes, its journal, its lock. No control plane runs here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from berth_dev import processes
from berth_dev.errors import StateError
from berth_dev.state import ClusterDir, default_folder


@pytest.fixture
def folder(tmp_path: Path):
    made = ClusterDir(tmp_path / "c")
    made.create()
    yield made
    made.end_strays()


def test_a_process_is_started_known_and_ended(folder: ClusterDir) -> None:
    pid = folder.spawn("one", ["sleep", "60"])
    assert folder.alive("one")
    assert [(p.name, p.identity.pid, p.alive) for p in folder.processes()] == [("one", pid, True)]
    assert os.getsid(pid) == pid, "it must survive the terminal of the test"
    assert folder.stop("one")
    assert not folder.alive("one")
    assert not folder.stop("one")
    assert folder.processes() == []


def test_two_of_one_name_are_refused(folder: ClusterDir) -> None:
    folder.spawn("one", ["sleep", "60"])
    with pytest.raises(StateError, match=r"process one of .*runs already"):
        folder.spawn("one", ["sleep", "60"])


def test_what_ends_at_once_or_later_shows_in_its_log(folder: ClusterDir) -> None:
    folder.spawn("talks", ["sh", "-c", "echo said; exec sleep 60"])
    until = time.monotonic() + 5
    while "said" not in folder.log_tail("talks") and time.monotonic() < until:
        time.sleep(0.01)
    assert folder.log_tail("talks") == "said"
    assert folder.log_path("talks").stat().st_mode & 0o777 == 0o600


def test_a_recycled_pid_is_left_alone(folder: ClusterDir) -> None:
    """The file names a pid that now belongs to somebody else: as after a long time, or another boot."""
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        who = processes.identity(bystander.pid)
        assert who is not None
        for wrong in (replace(who, start=who.start - 1), replace(who, boot="another")):
            (folder.path / "run" / "old.json").write_text(json.dumps(asdict(wrong)))
            assert not folder.alive("old")
            assert not folder.stop("old", 0)
            assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_process_that_ignores_term_is_killed(folder: ClusterDir) -> None:
    pid = folder.spawn("deaf", ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"])
    while "up" not in folder.log_tail("deaf"):
        time.sleep(0.01)
    began = time.monotonic()
    assert folder.stop("deaf", 0.3)
    assert 0.3 <= time.monotonic() - began < 5
    assert processes.identity(pid) is None


def test_strays_are_found_without_their_files(folder: ClusterDir) -> None:
    """The starter was killed between fork and writing: the tag in the environment still tells whose they are."""
    folder.spawn("tree", ["sh", "-c", "sleep 61 & sleep 62 & wait"])
    (folder.path / "run" / "tree.json").unlink()
    other = subprocess.Popen(["sleep", "60"])
    try:
        until = time.monotonic() + 5
        while len(list(processes.tagged(folder.tag))) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        assert folder.end_strays() == 3
        assert list(processes.tagged(folder.tag)) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_command_name_with_brackets_and_spaces_is_read_right() -> None:
    line = "77 (a) b (c)) S 1 " + " ".join(str(n) for n in range(5, 60))
    assert processes.parse_stat(line) == ("S", 22)


def test_the_journal_keeps_order_merges_facts_and_forgets(folder: ClusterDir) -> None:
    folder.record("sysctl", "a", old="1")
    folder.record("link", "b")
    folder.record("sysctl", "a", new="2")
    assert folder.recorded() == [{"kind": "sysctl", "id": "a", "old": "1", "new": "2"}, {"kind": "link", "id": "b"}]
    folder.forget("sysctl", "a")
    folder.forget("sysctl", "never there")
    assert folder.recorded("sysctl") == []
    assert [entry["id"] for entry in folder.recorded("link")] == ["b"]


def test_the_journal_loses_nothing_to_threads(folder: ClusterDir) -> None:
    def write(part: int) -> None:
        for number in range(25):
            folder.record("link", f"{part}-{number}")

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folder.recorded("link")) == 100


HOLD = """
import sys, time
from berth_dev.state import ClusterDir
with ClusterDir(sys.argv[1]).lock():
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_keeps_others_out_and_dies_with_its_holder(folder: ClusterDir) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder.path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout:
        try:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(StateError, match="another berth-dev is at work"), folder.lock(timeout=0.2):
                pass
        finally:
            holder.kill()
            holder.wait()
    with folder.lock(timeout=2), folder.lock():
        assert (folder.path / "lock").exists()


def test_a_folder_that_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("mine")
    with pytest.raises(StateError, match=r"it is not berth-dev's; not removed"):
        ClusterDir(precious).remove()
    with pytest.raises(StateError, match=r"it is not berth-dev's; name another"):
        ClusterDir(precious).create()
    assert (precious / "data").read_text() == "mine"


def test_a_folder_goes_with_all_that_is_in_it_and_nothing_else(tmp_path: Path) -> None:
    """Many folders at a time; a link is removed, not followed, and neither modes nor pipes are in the way."""
    folder, others = ClusterDir(tmp_path / "x"), tmp_path / "others"
    folder.create()
    others.mkdir()
    (others / "kept").touch()
    data = folder.path / "data"
    for number in range(20):
        deep = data / f"{number}/a/b/c"
        deep.mkdir(parents=True)
        for name in ("x", "y"):
            (deep / name).write_text(name)
            (deep.parent / name).write_text(name)
        (deep / "there").symlink_to(others)
        (deep / "nowhere").symlink_to("nowhere")
        os.mkfifo(deep / "pipe")
        (deep / "x").chmod(0)
        (data / f"{number}/empty").mkdir()
    folder.remove()
    assert not folder.path.exists()
    assert [path.name for path in others.iterdir()] == ["kept"]


def test_what_was_never_made_is_removed_without_a_trace(tmp_path: Path) -> None:
    """Whoever takes a cluster down holds its lock, which makes the folder."""
    folder = ClusterDir(tmp_path / "never")
    for _time in range(2):
        with folder.lock():
            folder.remove()
        assert not folder.path.exists()


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a b", "x" * 64])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(StateError, match="expected letters"):
        default_folder(name)
