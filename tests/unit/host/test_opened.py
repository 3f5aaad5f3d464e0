"""The disk behind a device number changes between the plan and the work: on real loop devices."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth_core.app.fs_plan import FilesystemPlan
from berth_core.app.fsid import filesystem_uuid
from berth_core.errors import DataError
from berth_host import filesystems, mkfs
from berth_host.block_devices import survey
from berth_host.machine import Machine
from berth_host.opened import Expected, check_opened
from berth_host.surface import Surface
from tests.core.app.disk_samples import held, local_disk

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"), pytest.mark.promise]
SIZE = 32 << 20


class Loop:
    """A loop device whose disk can be taken for another one of the same size."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / "one", folder / "two"]
        for file in self.files:
            file.touch()
            os.truncate(file, SIZE)
        self.device = self._run("losetup", "--find", "--show", str(self.files[0]))

    def _run(self, *argv: str) -> str:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def swap(self) -> None:
        self._run("losetup", "--detach", self.device)
        self._run("losetup", self.device, str(self.files[1]))

    def record(self) -> dict[str, Any]:
        return next(each for each in survey(Machine()) if each["path"] == self.device)

    def detach(self) -> None:
        self._run("losetup", "--detach", self.device)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    made = Loop(tmp_path)
    yield made
    made.detach()


def filesystem_plan(seen: dict[str, Any]) -> FilesystemPlan:
    uuid = "6f2f4d0e-0000-4000-8000-000000000000"
    return FilesystemPlan(
        "d0", seen["path"], seen["number"], uuid, "ext4", "/nowhere", (), True, True, "", kernel=seen["kernel"]
    )


def test_what_is_made_or_wiped_is_the_disk_that_was_looked_at(loop: Loop) -> None:
    seen = loop.record()
    expected = Expected("d0", seen["path"], seen["number"], seen["kernel"])
    mkfs.check_blank(Machine(), filesystem_plan(seen))
    with Surface(Machine(), expected, SIZE):
        pass
    loop.swap()
    with pytest.raises(
        DataError, match=r"is another disk than the one that was looked at \(diskseq \d+, expected \d+\)"
    ):
        mkfs.check_blank(Machine(), filesystem_plan(seen))
    with (
        pytest.raises(DataError, match="is another disk than the one that was looked at"),
        Surface(Machine(), expected, SIZE),
    ):
        pass
    mkfs.check_blank(Machine(), filesystem_plan(loop.record()))


@pytest.mark.parametrize("word", ["wwid", "serial"])
def test_the_name_that_the_kernel_gives_the_open_device_counts(word: str, tmp_path: Path) -> None:
    """Of hardware that is not here: the device's number is the same, and so may its count be."""
    words = {"wwid": "eui.0025388a01", "serial": "S6OLD"}
    path, serial = tmp_path / "device", tmp_path / "sys/dev/block/0:0/device/serial"
    path.touch()
    serial.parent.mkdir(parents=True)

    def check(**said: str) -> None:
        now = {**words, **said}
        (tmp_path / "sys/dev/block/0:0/wwid").write_text(now["wwid"] + "\n")
        serial.write_text(now["serial"] + "\n")
        with path.open("rb") as file:
            check_opened(Machine(str(tmp_path)), file.fileno(), Expected("d0", str(path), "0:0", words))

    check()
    with pytest.raises(DataError, match=rf"is another disk than the one that was looked at \({word} .*expected"):
        check(**{word: "eui.0025388a02" if word == "wwid" else "S6NEW"})


class Stale:
    """A survey in which udev's database tells of a filesystem that is not there."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record

    def __call__(self, _machine: Machine) -> Stale:
        return self

    def records(self) -> list[dict[str, Any]]:
        return [self.record]


@pytest.mark.parametrize("content", ["", "ext4"])
def test_nothing_is_mounted_by_the_word_of_udev_alone(
    loop: Loop, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content:
        subprocess.run(["mkfs.ext4", "-q", loop.device], check=True)
    found = {**loop.record(), "serial": "SERIAL-l"}
    disk = local_disk(found=found, claimRef=held("u2", "u1"))
    uuid = filesystem_uuid("u1", disk["metadata"]["name"])
    stale = Stale({**found, "fstype": "ext4", "fsuuid": uuid, "usable": False})
    monkeypatch.setattr(filesystems, "Survey", stale)
    with pytest.raises(DataError, match="carries ext4" if content else "should carry the data"):
        filesystems.prepare(Machine(), disk, str(tmp_path), False, at_boot=False)
    assert not os.path.ismount(tmp_path / disk["metadata"]["name"])


def test_what_changed_while_the_journal_was_written_is_not_mounted(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {**loop.record(), "serial": "SERIAL-l"}
    disk = local_disk(found=found, claimRef=held())
    monkeypatch.setattr(filesystems, "Survey", Stale(found))

    def journal(step: str, plan: FilesystemPlan) -> None:
        if step == "Mounting":
            subprocess.run(["wipefs", "--all", "--quiet", "--force", plan.device], check=True)

    with pytest.raises(DataError, match="carries data, expected ext4"):
        filesystems.prepare(Machine(), disk, str(tmp_path), False, journal, at_boot=False)
    assert not os.path.ismount(tmp_path / disk["metadata"]["name"])
