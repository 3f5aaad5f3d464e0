"""The scheduler's systemd unit: systemd itself reads it without a complaint, and finds little that it may do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jinja2
import pytest

TEMPLATE = Path(__file__).parents[2] / "roles/scheduler/templates/berth-scheduler.service.j2"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    values = {
        "scheduler_unit": "packing",
        "scheduler_user": "root",  # one that is there
        "scheduler_command": "/usr/bin/python3 -I /opt/berth/x.pyz run --port=9810",
    }
    made = tmp_path / "berth-scheduler-packing.service"
    made.write_text(
        jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(TEMPLATE.read_text()).render(values)
    )
    return made


def analyze(*args: str) -> str:
    done = subprocess.run(["systemd-analyze", *args], text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_reads_it_without_a_complaint(unit: Path) -> None:
    complaints = [line for line in analyze("verify", "--man=no", str(unit)).splitlines() if unit.name in line]
    assert complaints == []


def test_it_is_never_given_up(unit: Path) -> None:
    """It ends where its Lease is lost or it may not lead: five times in ten seconds is soon reached."""
    assert "\nStartLimitIntervalSec=0\n" in unit.read_text().partition("[Service]")[0]


def test_it_may_do_little(unit: Path) -> None:
    """Its exposure by systemd's own count is below 2.5 of 10; that of a unit without a word about it is 9.6."""
    analyze("security", "--offline=true", "--threshold=25", str(unit))
