"""The process that wipes, on real loop devices: what is destroyed, what is refused, stopped and gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth_host.surface import PIECE, pattern

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root")
SIZE = 3 * PIECE + (1 << 20)
PROGRAM = "import sys; from berth_host.wiper import main; sys.exit(main())"


class Loop:
    """A loop device over a file full of somebody's data, with an ext4 in front."""

    def __init__(self, file: Path, size: int = SIZE) -> None:
        self.file, self.size = file, size
        file.write_bytes(os.urandom(1 << 20) * (size >> 20))
        self.device = self._run("losetup", "--find", "--show", "--direct-io=off", str(file))
        self._run("mkfs.ext4", "-q", "-F", self.device)
        status = os.stat(self.device)
        self.number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"

    def _run(self, *argv: str) -> str:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def content(self) -> bytes:
        with open(self.device, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return file.read()

    def order(self, **values: Any) -> dict[str, Any]:
        return {
            "name": "d0", "device": self.device, "number": self.number, "size": self.size, "method": "zero",
            "offset": 0, "kernel": {}, "fallback": False, "finished": False, "request": "r1", **values,
        }  # fmt: skip

    def detach(self) -> None:
        self._run("losetup", "--detach", self.device)


@pytest.fixture
def loop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Loop]:
    """Of a size of its own where the test names one."""
    made = Loop(tmp_path / "disk", getattr(request, "param", SIZE))
    yield made
    made.detach()


def begin(order: dict[str, Any], go: str = "\n") -> subprocess.Popen[str]:
    """``go``: says that it is recorded that the wipe begins."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, text=True, env=environment)
    assert process.stdin is not None
    process.stdin.write(json.dumps(order) + "\n" + go)
    process.stdin.flush()
    return process


def wipe(order: dict[str, Any]) -> list[dict[str, Any]]:
    """To the end; everything that it said."""
    process = begin(order)
    assert process.stdout is not None
    assert process.stdin is not None
    said = [json.loads(line) for line in process.stdout]
    process.stdin.close()
    process.stdout.close()
    process.wait(60)
    return said


def steps(said: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(line.get("step", next(iter(line))) for line in said))


@pytest.mark.parametrize("method", ["zero", "discard"])
def test_every_byte_is_gone(loop: Loop, method: str) -> None:
    said = wipe(loop.order(method=method))
    assert steps(said) == ["Signatures", "Overwriting", "Verifying", "done"]
    assert [line["offset"] for line in said if line.get("step") == "Overwriting"] == [
        *range(0, SIZE, PIECE),
        SIZE,
    ]
    assert not any(loop.content())


def test_random_leaves_nothing_of_the_old_and_no_signature(loop: Loop) -> None:
    before = loop.content()
    assert steps(wipe(loop.order(method="random")))[-1] == "done"
    after, end = loop.content(), 4 << 20
    assert not any(after[:end] + after[-end:]), "blank is what has zeros at both ends"
    assert after[end:PIECE] == pattern("r1", 0, PIECE)[end:]
    assert not any(after[at : at + 512] == before[at : at + 512] for at in range(end, SIZE - end, 512))
    assert subprocess.run(["blkid", "-p", loop.device], capture_output=True, check=False).returncode == 2


def test_signatures_alone_leave_the_rest(loop: Loop) -> None:
    before = loop.content()
    assert steps(wipe(loop.order(method="signatures"))) == ["Signatures", "Verifying", "done"]
    after, end = loop.content(), 4 << 20
    assert not any(after[:end] + after[-end:])
    assert after[end:-end] == before[end:-end]
    assert subprocess.run(["blkid", "-p", loop.device], capture_output=True, check=False).returncode == 2


def test_nothing_is_written_before_it_is_recorded_that_it_begins(loop: Loop) -> None:
    before = loop.content()
    process = begin(loop.order(), go="")
    assert process.stdout is not None
    assert process.stdin is not None
    assert json.loads(process.stdout.readline())["step"] == "Signatures"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.stdin.close()
    assert process.wait(60) == 1
    process.stdout.close()
    assert loop.content() == before


@pytest.mark.parametrize("loop", [5 * PIECE + (1 << 20)], indirect=True)  # so long that it is not over by then
def test_it_stops_when_nobody_listens_any_more_and_is_gone_on_with(loop: Loop) -> None:
    process = begin(loop.order())
    assert process.stdout is not None
    assert process.stdin is not None
    while json.loads(process.stdout.readline())["offset"] < PIECE:
        pass
    process.stdin.close()
    said = [json.loads(line) for line in process.stdout]
    assert process.wait(60) == 1
    process.stdout.close()
    assert all("done" not in line for line in said)
    offset = max((line["offset"] for line in said), default=PIECE)
    assert PIECE <= offset < loop.size
    rest = loop.content()[offset + PIECE :]
    assert any(rest)
    said = wipe(loop.order(offset=offset))
    assert steps(said) == ["Overwriting", "Verifying", "done"]
    assert said[0]["offset"] == offset
    assert not any(loop.content())


def test_data_that_came_after_the_wipe_had_begun_is_never_wiped(loop: Loop) -> None:
    before = loop.content()
    (said,) = wipe(loop.order(offset=2 * PIECE))
    assert "was written to after its wipe had begun" in said["failed"]
    assert loop.content() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": SIZE + 512}, "expected"),
        ({"kernel": {"diskseq": 1}}, "is another disk than the one that was looked at"),
        ({"number": "8:0"}, "expected 8:0"),
        ({"device": "/dev/null"}, "is device"),
    ],
)
def test_another_device_is_refused(loop: Loop, change: dict[str, Any], words: str) -> None:
    before = loop.content()
    (said,) = wipe(loop.order(**change))
    assert words in said["failed"]
    assert loop.content() == before


def test_a_device_that_anybody_has_is_refused(loop: Loop, tmp_path: Path) -> None:
    before = loop.content()
    handle = os.open(loop.device, os.O_RDONLY | os.O_EXCL)
    try:
        (said,) = wipe(loop.order())
        assert "is used by somebody else" in said["failed"]
    finally:
        os.close(handle)
    assert loop.content() == before
    point = tmp_path / "mounted"
    point.mkdir()
    subprocess.run(["mount", "-o", "ro,noload", loop.device, str(point)], check=True)
    try:
        (said,) = wipe(loop.order())
        assert "is used by somebody else" in said["failed"]
    finally:
        subprocess.run(["umount", str(point)], check=True)
    assert loop.content() == before


@pytest.mark.parametrize("method", ["zero", "random", "signatures"])
def test_what_was_finished_before_is_done_where_nothing_came_since(loop: Loop, method: str) -> None:
    wipe(loop.order(method=method))
    before = loop.content()
    assert steps(wipe(loop.order(method=method, finished=True))) == ["done"]
    assert loop.content() == before


@pytest.mark.parametrize("at", [0, SIZE - 512])
def test_what_came_after_a_finished_wipe_is_never_wiped(loop: Loop, at: int) -> None:
    """A cluster whose state was restored from a backup asks once more: for a filesystem, or raw data without a sign."""
    before = loop.content()
    (said,) = wipe(loop.order(finished=True))
    assert "was carried out on this host before" in said["failed"]
    assert "ext4" in said["failed"]
    assert loop.content() == before
    wipe(loop.order())
    with open(loop.device, "r+b") as file:
        file.seek(at)
        file.write(b"precious")
    (said,) = wipe(loop.order(finished=True))
    assert "carries data now, which came later" in said["failed"]
    assert b"precious" in loop.content()
