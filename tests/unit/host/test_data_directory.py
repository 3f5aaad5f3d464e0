"""The directory that a pod gets: its mode is set once, when it is made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ansible_collections.berth.stateful.plugins.module_utils.berth_host.filesystems import make_data_directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_one_is_open_to_every_pod_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        make_data_directory(str(tmp_path))
    finally:
        os.umask(before)
    assert mode(tmp_path / "data") == 0o777
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_a_pod_made_of_it_stays(tmp_path: Path) -> None:
    make_data_directory(str(tmp_path))
    (tmp_path / "data").chmod(0o700)
    make_data_directory(str(tmp_path))
    assert mode(tmp_path / "data") == 0o700


def test_a_run_that_died_before_the_mode_was_set_is_continued(tmp_path: Path) -> None:
    (tmp_path / "data.new").mkdir(mode=0o700)
    make_data_directory(str(tmp_path))
    assert mode(tmp_path / "data") == 0o777
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
