"""Which wipes a host remembers, when the API server has forgotten them."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth_agent.disks.finished import Finished
from berth_core.errors import StateError
from tests.core.app.disk_samples import local_disk


def test_what_ended_is_remembered_by_the_next_agent_and_of_that_disk_alone(tmp_path: Path) -> None:
    folder, disk = str(tmp_path / "state"), local_disk()
    other = local_disk()
    other["spec"]["identity"] = {**other["spec"]["identity"], "serial": "another"}
    assert not Finished(folder).remembers(disk, "r1")
    Finished(folder).add(disk, "r1")
    assert Finished(folder).remembers(disk, "r1")
    assert not Finished(folder).remembers(disk, "r2")
    assert not Finished(folder).remembers(other, "r1")
    assert (tmp_path / "state" / "wipes.json").stat().st_mode & 0o777 == 0o600


def test_the_oldest_are_forgotten(tmp_path: Path) -> None:
    finished = Finished(str(tmp_path))
    for number in range(70):
        finished.add(local_disk(), f"r{number}")
    assert not finished.remembers(local_disk(), "r5")
    assert finished.remembers(local_disk(), "r6")


def test_what_was_there_when_a_request_was_first_seen_is_remembered(tmp_path: Path) -> None:
    folder, disk = str(tmp_path / "state"), local_disk()
    assert Finished(folder).first_seen(disk, "r1", "ends blank") == "ends blank"
    assert Finished(folder).first_seen(disk, "r1", "ext4 u1") == "ends blank"
    Finished(folder).add(disk, "r2")
    assert Finished(folder).first_seen(disk, "r1", "ext4 u1") == "ends blank"
    assert Finished(folder).remembers(disk, "r2")
    for number in range(70):
        Finished(folder).first_seen(disk, f"n{number}", "ends blank")
    assert Finished(folder).first_seen(disk, "r1", "ext4 u1") == "ext4 u1"


def test_what_a_wipe_destroyed_is_remembered_with_what_came_after_it(tmp_path: Path) -> None:
    folder, disk = str(tmp_path), local_disk()
    Finished(folder).add(disk, "r1", "u1")
    Finished(folder).add(disk, "r2")  # it failed, or there was nobody's
    Finished(folder).add(disk, "r3", "u3")
    assert [Finished(folder).since(disk, uid) for uid in ("u1", "u3", "u2")] == [["r1", "r2", "r3"], ["r3"], []]
    Finished(folder).add(disk, "r4", "u1")
    assert Finished(folder).since(disk, "u1") == ["r4"]
    for number in range(70):
        Finished(folder).add(disk, f"n{number}")
    assert Finished(folder).since(disk, "u1") == []
    assert "u1" not in (tmp_path / "wipes.json").read_text(), "it does not grow for ever"


def test_who_got_the_disk_after_its_last_wipe_is_remembered(tmp_path: Path) -> None:
    folder, disk = str(tmp_path), local_disk()
    Finished(folder).note_held(disk)
    assert not Finished(folder).is_held_since(disk), "it was never wiped"
    Finished(folder).add(disk, "r1")
    assert not Finished(folder).is_held_since(disk)
    Finished(folder).note_held(disk)
    assert Finished(folder).is_held_since(disk)
    Finished(folder).add(disk, "r2")
    assert not Finished(folder).is_held_since(disk)


def test_the_file_of_an_older_agent_is_read(tmp_path: Path) -> None:
    (tmp_path / "wipes.json").write_text('{"format": 1, "wipes": {}}')
    finished = Finished(str(tmp_path))
    assert finished.first_seen(local_disk(), "r1", "ends blank") == "ends blank"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2, "wipes": {}}', '{"format": 1, "wipes": []}'])
def test_a_file_that_cannot_be_read_wipes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "wipes.json").write_text(text)
    finished = Finished(str(tmp_path))
    for what in (lambda: finished.remembers(local_disk(), "r1"), lambda: finished.add(local_disk(), "r1")):
        with pytest.raises(StateError, match="which says what was wiped before, cannot be read"):
            what()
    assert (tmp_path / "wipes.json").read_text() == text
