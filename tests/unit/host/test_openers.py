"""Who writes to a raw device without holding it, on real loop devices: it is neither wiped nor formatted meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from berth_core.app.fs_plan import FilesystemPlan
from berth_core.errors import DataError
from berth_host import mkfs, openers
from berth_host.machine import Machine
from berth_host.openers import lasting_openers
from tests.unit.host.test_wiper import Loop, wipe

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root")
#: Not exclusively, as a container opens its volume of mode Block.
PROGRAM = "import os, sys; os.open(sys.argv[1], getattr(os, sys.argv[2])); print('open', flush=True); sys.stdin.read()"


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    made = Loop(tmp_path / "disk")
    yield made
    made.detach()


@contextmanager
def program(device: str, flags: str, *before: str) -> Iterator[int]:
    """A process that has the device open; its number. ``before``: what starts it."""
    argv = [*before, sys.executable, "-c", PROGRAM, device, flags]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process.pid
        process.kill()


@pytest.mark.promise
def test_what_a_container_writes_to_is_not_wiped_until_it_has_ended(loop: Loop, tmp_path: Path) -> None:
    before = loop.content()
    major, minor = loop.number.split(":")
    node = tmp_path / "elsewhere" / "raw"
    node.parent.mkdir()
    # A name that the device has in that process's mount namespace alone.
    script = f'mount -t tmpfs none {node.parent} && mknod {node} b {major} {minor} && exec "$@"'
    with program(str(node), "O_RDWR", "unshare", "--mount", "sh", "-c", script, "sh"):
        assert not node.exists()
        (said,) = wipe(loop.order())
    assert "is open for writing by python" in said["failed"]
    assert "wiped when they have ended" in said["failed"]
    assert loop.content() == before
    assert "done" in wipe(loop.order())[-1]
    assert not any(loop.content())


def test_who_reads_keeps_nobody_waiting(loop: Loop) -> None:
    with program(loop.device, "O_RDONLY"):
        assert lasting_openers(Machine(), loop.number) == []


def test_a_loop_device_on_top_counts(loop: Loop) -> None:
    """The kubelet puts one on each volume of mode Block, for as long as it serves the pod."""
    argv = ["losetup", "--find", "--show", loop.device]
    above = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    try:
        assert lasting_openers(Machine(), loop.number) == [f"{Path(above).name} (loop device)"]
    finally:
        subprocess.run(["losetup", "--detach", above], check=True)
    assert lasting_openers(Machine(), loop.number) == []


def test_who_opens_it_for_a_moment_uses_nothing(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    with program(loop.device, "O_WRONLY") as pid:
        # It ends between the first look and the second.
        monkeypatch.setattr(openers.time, "sleep", lambda _seconds: os.kill(pid, 9) or os.waitpid(pid, 0))
        assert lasting_openers(Machine(), loop.number) == []


@pytest.mark.promise
def test_no_filesystem_is_made_on_what_somebody_writes_to(loop: Loop) -> None:
    """A raw device without a signature is blank for blkid, and yet in use."""
    with open(loop.device, "r+b") as file:
        file.write(bytes(1 << 20))
    plan = FilesystemPlan(
        "d0", loop.device, loop.number, "6f2f4d0e-0000-4000-8000-000000000000", "ext4", "/nowhere", (), True, True, ""
    )
    with program(loop.device, "O_RDWR") as pid, pytest.raises(DataError, match=rf"open for writing by \S+ \({pid}\)"):
        mkfs.check_blank(Machine(), plan)
    mkfs.check_blank(Machine(), plan)
