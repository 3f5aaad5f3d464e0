"""What tests/conftest.py, pyproject.toml and tools/explore.py make of tests: a pytest of its own, over a small file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = f"-c {ROOT}/pyproject.toml -p tests.conftest"
TESTS = """
import threading
import time
from pathlib import Path

import pytest

def tries(name):
    path = Path(__file__).with_name(name)
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    return len(path.read_text())

@pytest.mark.promise
def test_promise():
    assert tries("promise") > 1

def test_other():
    assert tries("other") > 1

@pytest.mark.timeout(1)
def test_hangs():
    threading.Thread(target=waits_elsewhere, daemon=True).start()
    waits_here()

def waits_here():
    time.sleep(20)

def waits_elsewhere():
    time.sleep(20)
"""
EXAMPLES = """
from pathlib import Path

from hypothesis import given, settings, strategies

@settings(max_examples=5)
@given(strategies.integers())
def test_with_a_number_of_examples_of_its_own(number):
    with Path(__file__).with_name("seen").open("a") as seen:
        seen.write(f"{number} ")
"""


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "BERTH_"))}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**given, "PYTEST_ADDOPTS": f"{CONFIG} --rootdir={folder}", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What pytest has said of `TESTS`, run as a stage runs its own; and where they left what they had to say."""
    folder = tmp_path_factory.mktemp("tests")
    (folder / "test_it.py").write_text(TESTS)
    junit = folder / "stage.xml"
    answer = run(folder, "-m", "pytest", "--reruns=1", "--reruns-delay=0", f"--junitxml={junit}", str(folder))
    assert answer.returncode == 1, answer.stdout + answer.stderr
    return answer.stdout, folder


def test_a_promise_is_not_run_again_and_another_test_is(ran: tuple[str, Path]) -> None:
    said, folder = ran
    assert (folder / "promise").read_text() == "x"
    assert (folder / "other").read_text() == "xx"
    assert "2 failed, 1 passed, 1 rerun" in said
    assert (folder / "stage.again").read_text() == "test_it.py::test_other\n"
    times = json.loads((folder / "stage.times.json").read_text())
    assert {test for test, *_seconds in times} == {f"test_it.py::test_{name}" for name in ("promise", "other", "hangs")}


def test_a_test_that_hangs_shows_the_stacks_of_all_its_threads(ran: tuple[str, Path]) -> None:
    """Once: the clock of a test has struck for all of its tries, and a second one would hang without an end."""
    said = ran[0]
    assert "Timeout (>1.0s)" in said
    assert "in waits_elsewhere" in said, "the other thread"
    assert "waits_here()" in said, "its own"


def test_a_seed_reaches_tests_with_a_number_of_examples_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(EXAMPLES)
    seen = {}
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        answer = run(tmp_path, "tools/explore.py", f"--seed={seed}", str(tmp_path))
        assert answer.returncode == 0, answer.stdout + answer.stderr
        seen[name] = (tmp_path / "seen").read_text().split()
        (tmp_path / "seen").unlink()
    assert seen["one"] == seen["again"], "what a failed round printed repeats it"
    assert seen["one"] != seen["two"]
    assert len(seen["one"]) <= 5
