"""Probes with the real dd: an answer, an error, and a device that does not answer."""

from __future__ import annotations

import os
import time
from pathlib import Path

from berth_host.disk_probe import FULL, PROBE_FILE, Probe, Tried
from berth_host.machine import Machine
from berth_host.smart import read_smart
from berth_host.superblock import in_progress


def tried(probe: Probe, seconds: float = 30.0) -> Tried:
    while True:
        answer = probe.look(seconds)
        if answer is not None:
            return answer
        time.sleep(0.01)


def test_a_write_that_arrives(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    probe = Probe(Machine())
    for _again in range(2):
        probe.start("/dev/none", str(tmp_path))
        assert tried(probe) == Tried("ok")
    assert (tmp_path / PROBE_FILE).stat().st_size == 4096
    assert sorted(os.listdir(tmp_path)) == [PROBE_FILE, "data"]
    assert not probe.is_running()


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / PROBE_FILE).symlink_to(tmp_path / "elsewhere")
    probe = Probe(Machine())
    probe.start("/dev/none", str(tmp_path))
    assert tried(probe).result == "failed"
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_not_mounted_is_not_written_to(tmp_path: Path) -> None:
    probe = Probe(Machine())
    for device, point in (("/dev/none", ""), ("/dev/none", str(tmp_path))):
        probe.start(device, point)
        assert tried(probe).result == "none"
    assert os.listdir(tmp_path) == []


def test_an_error_is_told_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / PROBE_FILE).mkdir()
    probe = Probe(Machine())
    probe.start("/dev/none", str(tmp_path))
    answer = tried(probe)
    assert answer.result == "failed"
    assert "Is a directory" in answer.note


def test_a_command_that_has_failed_before_it_is_written_to_leaves_no_pipe_open(tmp_path: Path) -> None:
    class Failed(Machine):
        def start(self, *arguments):
            self.process = super().start(*arguments)
            self.stdin = self.process.stdin
            self.process.wait(timeout=30)
            return self.process

    machine = Failed()
    (tmp_path / "data").mkdir()
    (tmp_path / PROBE_FILE).mkdir()
    probe = Probe(machine)
    probe.start("/dev/none", str(tmp_path))
    assert machine.stdin.closed
    assert "Is a directory" in tried(probe).note


def test_a_full_filesystem_is_no_broken_disk(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / PROBE_FILE).symlink_to("/dev/full")
    probe = Probe(Machine())
    probe.start("/dev/none", str(tmp_path))
    assert tried(probe).result == "failed"  # a link is never followed, so:
    process = Machine().start(["dd", "if=/dev/zero", "of=/dev/full", "bs=1", "count=1", "status=none"])
    _out, words = process.communicate(timeout=30)
    assert FULL in words.decode()
    assert process.returncode != 0


def test_a_device_that_does_not_answer_keeps_nobody_and_is_not_tried_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # to open one waits until somebody writes
    probe = Probe(Machine())
    probe.start(str(pipe), "")
    assert probe.look(60.0) is None
    answer = probe.look(0.0)
    assert answer is not None
    assert answer.result == "slow"
    assert "has not come back" in answer.note
    first = probe._process
    probe.start(str(pipe), "")
    assert probe._process is first
    handle = os.open(pipe, os.O_WRONLY)
    os.close(handle)
    assert tried(probe).result in ("ok", "failed")
    assert not probe.is_running()


def test_a_disk_without_smart_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "disk"
    file.write_bytes(bytes(1 << 20))
    report, why = read_smart(Machine(), str(file))
    assert report == {}
    assert why
    assert read_smart(Machine(str(tmp_path)), "/dev/sda").why.startswith("smartctl is not installed")


def test_the_mark_of_an_unfinished_mkfs() -> None:
    block = bytearray(512)
    assert not in_progress(bytes(block))
    block[:4] = b"XFSB"
    assert not in_progress(bytes(block))
    block[126] = 1
    assert in_progress(bytes(block))
    assert not in_progress(bytes(block[:100]))
