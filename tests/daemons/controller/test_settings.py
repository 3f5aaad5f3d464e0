"""The command line and the environment: what is taken, and what is refused in which words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from berth_controller.settings import Settings, parse
from berth_core.errors import InputError


def test_nothing_said_means_the_defaults():
    assert parse([], {}) == Settings()


def test_a_flag_goes_before_its_variable():
    environ = {"BERTH_CONTROLLER_WORKERS": "3", "BERTH_CONTROLLER_LEADER_ELECT": "false"}
    assert parse([], environ) == Settings(workers=3, leader_elect=False)
    assert parse(["--workers", "5", "--leader-elect"], environ) == Settings(workers=5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--workers", "many"], "--workers"),
        (["--workers", "0"], "expected 1 to 64"),
        (["--port", "70000"], "--port"),
        (["--tls-key", "k"], "belong together"),
        (["--orphan-report-after", "60", "--orphan-repair-after", "5"], "what is repaired was reported"),
        (["--mount-root", "relative"], "mount root"),
        (["--log-format", "xml"], "logfmt or json"),
    ],
)
def test_what_is_wrong_is_named(flags, words):
    with pytest.raises(InputError, match=words):
        parse(flags, {})


def test_the_program_tells_how_it_is_used_and_refuses_what_it_cannot_read(tmp_path):
    program = [sys.executable, "-m", "berth_controller"]
    shown = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
    assert "BERTH_CONTROLLER_" in shown.stdout
    missing = tmp_path / "nothing"
    refused = subprocess.run([*program, "--kubeconfig", str(missing)], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert str(missing) in refused.stderr
