"""What is blank: no signature, and zeros at both ends. Raw data is never formatted, on real loop devices."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth_core.app.disk_status import disk_status
from berth_core.app.fs_plan import FilesystemPlan
from berth_core.app.fsid import filesystem_uuid
from berth_core.errors import DataError
from berth_host import begun, filesystems
from berth_host.block_devices import survey
from berth_host.machine import Machine
from berth_host.probes import END, read_signature
from tests.core.app.disk_samples import held, local_disk

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"), pytest.mark.promise]
SIZE = 64 << 20
RAW = [0, 100, END - 1, SIZE - END, SIZE - 1]


class Loop:
    """A loop device of zeros."""

    def __init__(self, file: Path) -> None:
        file.touch()
        os.truncate(file, SIZE)
        self.device = self._run("losetup", "--find", "--show", str(file))

    def _run(self, *argv: str) -> str:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, at: int, data: bytes) -> None:
        with open(self.device, "r+b") as file:
            file.seek(at)
            file.write(data)

    def content(self) -> bytes:
        return Path(self.device).read_bytes()

    def record(self) -> dict[str, Any]:
        found = next(each for each in survey(Machine()) if each["path"] == self.device)
        return {**found, "serial": "SERIAL-l"}


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    made = Loop(tmp_path / "disk")
    yield made
    subprocess.run(["umount", "--quiet", str(tmp_path / "disks" / "h1-d0")], check=False)
    subprocess.run(["losetup", "--detach", made.device], check=True)


def prepare(
    loop: Loop, root: Path, monkeypatch: pytest.MonkeyPatch, lock: dict[str, Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    found = loop.record()
    disk = local_disk(found=found, claimRef=lock or held())

    class Known(filesystems.Survey):
        def records(self) -> list[dict[str, Any]]:
            return [{**each, "serial": found["serial"]} for each in super().records() if each["path"] == loop.device]

    monkeypatch.setattr(filesystems, "Survey", Known)
    return disk, filesystems.prepare(Machine(), disk, str(root), False, at_boot=False).done


def test_zeros_are_blank_and_are_formatted(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop.write(SIZE // 2, b"what nobody looks at")
    assert read_signature(Machine(), loop.device).facts == {}
    _disk, done = prepare(loop, tmp_path / "disks", monkeypatch)
    assert done == ["formatted", "namespace link", "mounted", "data directory"]
    left = sorted(each.name for each in (tmp_path / "disks").iterdir())
    assert left == [".namespaces", "h1-d0"], "and nothing is left of how it was made"


@pytest.mark.parametrize("at", RAW)
def test_raw_data_at_an_end_is_nobody_s_to_format(
    loop: Loop, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A volume of mode Block in earlier use: blkid finds nothing on it."""
    loop.write(at, b"!")
    before, found = loop.content(), loop.record()
    assert found["fstype"] == "data"
    assert "it carries a signature (data)" in found["refusals"]
    free = local_disk(found=found)
    assert disk_status(free, found, "now")["phase"] == "Pending", "it is not given out, either"
    with pytest.raises(DataError, match="carries data without a signature"):
        prepare(loop, tmp_path / "disks", monkeypatch)
    assert loop.content() == before


def test_what_mkfs_had_begun_it_makes_once_more(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "disks"
    uuid = filesystem_uuid("u1", "h1-d0")
    loop.write(8192, b"a table of groups, before there is a superblock")
    for other in ("6f2f4d0e-0000-4000-8000-000000000000", uuid):
        plan = FilesystemPlan("h1-d0", loop.device, "", other, "ext4", str(root / "h1-d0"), (), True, True, "")
        begun.note_begun(plan)
        if other == uuid:
            _disk, done = prepare(loop, root, monkeypatch)
            assert "formatted" in done
        else:
            with pytest.raises(DataError, match="carries data without a signature"):
                prepare(loop, root, monkeypatch)
    assert begun.read_begun("h1-d0", str(root)) == ""
