"""The closing table of `make test` counts what ran and hides no skip and no failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = """
good:
\t@mkdir -p build/junit && cp results.xml build/junit/good.xml && echo tests/a.py::one > build/junit/good.again
bad:
\t@exit 3
slow:
\t@echo begun; while [ ! -e ran ]; do sleep 0.05; done; echo ended; exit 3
never:
\t@touch ran
"""
RESULTS = """<testsuites><testsuite>
<testcase classname="tests.a" name="one"/>
<testcase classname="tests.a" name="two"><failure message="no"/></testcase>
<testcase classname="tests.b" name="three"><skipped message="needs root"/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "results.xml").write_text(RESULTS)
    return tmp_path


def stages(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "stages.py"), *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_counts_and_names_skips(project: Path) -> None:
    answer = stages(project, "good")
    assert answer.returncode == 0
    assert "tests: 1 passed, 1 failed, 1 skipped" in answer.stdout
    assert "skipped tests.b::three: needs root" in answer.stdout
    assert "FLAKY: failed at first, and was run again: tests/a.py::one" in answer.stdout


def test_stops_at_the_first_failure(project: Path) -> None:
    answer = stages(project, "bad", "never")
    assert answer.returncode == 1
    assert "FAILED" in answer.stdout
    assert not (project / "ran").exists()


def test_keeps_going_when_asked_and_still_fails(project: Path) -> None:
    answer = stages(project, "--keep-going", "bad", "never")
    assert answer.returncode == 1
    assert (project / "ran").exists()


def test_results_of_an_earlier_run_do_not_count(project: Path) -> None:
    leftover = project / "build" / "junit" / "old.xml"
    leftover.parent.mkdir(parents=True)
    leftover.write_text(RESULTS)
    assert "1 passed, 1 failed, 1 skipped" in stages(project, "good").stdout
    assert not leftover.exists()


def test_what_runs_beside_is_told_when_it_has_ended(project: Path) -> None:
    answer = stages(project, "--keep-going", "slow&", "never", "wait", "good")
    assert answer.returncode == 1, "its failure is one of the whole run"
    told = [answer.stdout.index(word) for word in ("=== never", "begun\nended", "=== good")]
    assert told == sorted(told)


def test_what_runs_beside_is_let_end_after_a_failure(project: Path) -> None:
    answer = stages(project, "never", "slow&", "bad", "good")
    assert "begun\nended" in answer.stdout
    assert "=== good" not in answer.stdout


def test_nothing_begins_after_a_failure_beside(project: Path) -> None:
    answer = stages(project, "slow&", "never", "wait", "good")
    assert answer.returncode == 1
    assert "=== good" not in answer.stdout
