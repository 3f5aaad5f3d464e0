"""berth's line of /etc/fstab, and nobody else's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import StateError
from ansible_collections.berth.stateful.plugins.module_utils.berth_host.fstab import edit, write

THEIRS = "# static\n/dev/sda1 /  ext4 defaults 0 1\n\n"
LINE = "UUID=1 /disks/h1-d0 ext4 nofail,x-berth.localdisk=h1-d0 0 2"
OTHER = "UUID=2 /disks/h1-d00 ext4 nofail,x-berth.localdisk=h1-d00 0 2"


def test_the_line_comes_and_goes_and_the_rest_stays() -> None:
    text = edit(edit(THEIRS, "h1-d00", OTHER), "h1-d0", LINE)
    assert text == f"{THEIRS}{OTHER}\n{LINE}\n"
    assert edit(text, "h1-d0", LINE) == text
    assert edit(text, "h1-d0", None) == f"{THEIRS}{OTHER}\n"
    assert edit(THEIRS, "h1-d0", None) == THEIRS
    assert edit("", "h1-d0", LINE) == f"{LINE}\n"


def test_an_old_line_is_replaced_and_a_doubled_one_made_single() -> None:
    old = LINE.replace("UUID=1", "UUID=0")
    assert edit(f"{old}\n", "h1-d0", LINE) == f"{LINE}\n"
    assert edit(f"{LINE}\n{LINE}\n", "h1-d0", LINE) == f"{LINE}\n"


def test_a_last_line_without_its_end_stays_a_line() -> None:
    assert edit("/dev/sda1 / ext4 defaults 0 1", "h1-d0", LINE).splitlines()[0] == "/dev/sda1 / ext4 defaults 0 1"


def test_somebody_elses_line_for_the_mount_point_is_refused() -> None:
    with pytest.raises(StateError, match="somebody else"):
        edit("/dev/sdq /disks/h1-d0 ext4 defaults 0 0\n", "h1-d0", LINE)
    assert edit("#/dev/sdq /disks/h1-d0 ext4\n", "h1-d0", LINE).endswith(f"{LINE}\n")


def test_the_file_is_replaced_at_once_with_its_permissions(tmp_path: Path) -> None:
    table = tmp_path / "fstab"
    table.write_text("old")
    table.chmod(0o640)
    before = table.stat().st_ino
    write(str(table), "new\n")
    assert table.read_text() == "new\n"
    assert stat.S_IMODE(table.stat().st_mode) == 0o640
    assert table.stat().st_ino != before
    assert os.listdir(tmp_path) == ["fstab"]
    write(str(tmp_path / "other"), LINE)
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o644
