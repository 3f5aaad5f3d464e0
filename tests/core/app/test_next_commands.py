"""What people are told to run is what the guide has."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth_core.app.next_commands import destroy_data, give_data_up, give_lock_up, mend, replace_disk, uncordon

GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/replace_disk.md"


@pytest.mark.parametrize("command", [replace_disk, give_data_up, give_lock_up])
def test_the_guide_has_the_command(command):
    assert command("n1-9f86d08188") in GUIDE.read_text()


def test_the_guide_has_the_wipe_of_kept_data():
    assert destroy_data("n1-9f86d08188", {"serial": "S5H9NS0N986704"}) in GUIDE.read_text()


def test_the_guide_of_maintenance_has_the_end_of_a_cordon():
    assert uncordon("worker-2-nvme0") in GUIDE.with_name("host_maintenance.md").read_text()


def test_a_message_ends_with_the_command():
    assert mend("n1-d0").endswith(replace_disk("n1-d0"))
